// What the programs for Go's clients have in common; it is copied beside each.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"
)

const (
	count   = 100
	firstMs = int64(1_600_000_000_000)
)

var scenario, bootstrap, topic = os.Args[1], os.Args[2], os.Args[3]

// notSupported is what the client can't do, as the cell will say it.
type notSupported string

func (n notSupported) Error() string { return string(n) }

func main() {
	said, err := "", error(notSupported("the client has nothing of the kind"))
	if run, ok := scenarios[scenario]; ok {
		said, err = run()
	}
	var why notSupported
	switch {
	case errors.As(err, &why):
		fmt.Println(why)
		os.Exit(77)
	case err != nil:
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	case said != "":
		fmt.Println(said)
	}
}

func quietly(run func() error) func() (string, error) {
	return func() (string, error) { return "", run() }
}

func values(from, to int) (made []string) {
	for i := from; i < to; i++ {
		made = append(made, fmt.Sprint("value ", i))
	}
	return made
}

func same(found, wanted any) error {
	if !reflect.DeepEqual(found, wanted) {
		return fmt.Errorf("found %.300s, not %.300s", fmt.Sprint(found), fmt.Sprint(wanted))
	}
	return nil
}

func until(condition func() bool, what string) error {
	for end := time.Now().Add(40 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if condition() {
			return nil
		}
	}
	return fmt.Errorf("not within 40 s: %s", what)
}

// awaitRestart returns when the broker is back.
func awaitRestart() {
	fmt.Println("restart")
	bufio.NewReader(os.Stdin).ReadString('\n')
}

func largeOnes() (made []string) {
	for i := range 5 {
		made = append(made, strings.Repeat(string(rune('A'+i)), 900_000))
	}
	return made
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
