// What the programs for Go's clients have in common; it is copied beside each. A program says what its `record` is, how it
// reads the first n of them (`read`), and which scenarios it has.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"time"
)

const (
	count   = 100
	firstMs = int64(1_600_000_000_000)
)

var scenario, bootstrap, topic = os.Args[1], os.Args[2], os.Args[3]
var user, password = os.Getenv("MATRIX_USER"), os.Getenv("MATRIX_PASSWORD")

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

func patience() context.Context {
	ctx, _ := context.WithTimeout(context.Background(), 30*time.Second)
	return ctx
}

func texts(records []record) (found []string) {
	for _, record := range records {
		found = append(found, string(record.Value))
	}
	return found
}

// are tells whether what was read is what was written.
func are(wanted []string, found []record, err error) error {
	return first(err, same(texts(found), wanted))
}

// everyCodec sends all values with each, and reads what all have sent by then.
func everyCodec[C any](codecs []C, send func(C) error) (string, error) {
	var said, sent []string
	for _, codec := range codecs {
		if err := send(codec); err != nil {
			return "", fmt.Errorf("%v: %w", codec, err)
		}
		sent = append(sent, values(0, count)...)
		found, err := read(len(sent))
		if err := are(sent, found, err); err != nil {
			return "", fmt.Errorf("%v: %w", codec, err)
		}
		said = append(said, fmt.Sprint(codec))
	}
	return strings.Join(said, ", "), nil
}

// haveTimes tells whether the records have the times that the client gave.
func haveTimes(found []record, at func(record) time.Time) (err error) {
	for i, record := range found {
		err = first(err, same(at(record).UnixMilli(), firstMs+int64(i)))
	}
	return err
}

// member is of a group, and knows how many partitions it has.
type member struct {
	partitions atomic.Int32
	leave      func()
}

// twoMembers share the partitions until one leaves.
func twoMembers(join func() (*member, error)) error {
	one, err := join()
	if err != nil {
		return err
	}
	if err := until(func() bool { return one.partitions.Load() == 4 }, "the first member has four partitions"); err != nil {
		return err
	}
	two, err := join()
	if err != nil {
		return err
	}
	if err := until(func() bool { return one.partitions.Load() == 2 && two.partitions.Load() == 2 }, "two partitions each"); err != nil {
		return err
	}
	one.leave()
	defer two.leave()
	return until(func() bool { return two.partitions.Load() == 4 }, "the second member has four partitions")
}

// trusting is TLS by the authority that signed the broker's certificate.
func trusting() (*tls.Config, error) {
	pem, err := os.ReadFile(os.Getenv("MATRIX_CA"))
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(pem) {
		return nil, errors.Join(err, errors.New("no authority"))
	}
	return &tls.Config{RootCAs: pool}, nil
}
