// Package check prints one line for each named check; the test that runs the program knows what the lines should say.
package check

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"time"
)

// Bootstrap is the broker's address, and Restarting says whether only the restart is wanted.
var (
	Bootstrap  = os.Args[1]
	Restarting = len(os.Args) > 2
	run        = fmt.Sprint(os.Getpid())
)

// Topic is a name that no other run has; what is printed leaves the addition out.
func Topic(name string) string { return name + "-" + run }

// Do runs one check and prints what it found.
func Do(name string, check func() (string, error)) {
	said, err := check()
	if err != nil {
		said = "failed: " + err.Error()
	}
	fmt.Println(name + ": " + strings.ReplaceAll(strings.TrimSpace(said), "-"+run, ""))
}

// AskForRestart has the test restart the broker while the program goes on; the channel is closed afterwards.
func AskForRestart() <-chan struct{} {
	fmt.Println("restart")
	done := make(chan struct{})
	go func() {
		bufio.NewReader(os.Stdin).ReadString('\n')
		close(done)
	}()
	return done
}

// Until waits for a condition that is bound to come.
func Until(condition func() bool) error {
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if condition() {
			return nil
		}
	}
	return fmt.Errorf("not within a minute")
}

// Must is for steps that every check needs.
func Must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
