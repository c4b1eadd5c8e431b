// franz-go, one step at a time: `BOOTSTRAP send TOPIC VALUE`, or `BOOTSTRAP read TOPIC GROUP`, which does what the lines
// of its input say (`read MILLISECONDS`, `commit`) and answers each with one line.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const patience = 30 * time.Second

var usual = []kgo.Opt{
	kgo.SeedBrokers(os.Args[1]),
	kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
}

func main() {
	switch os.Args[2] {
	case "send":
		send(os.Args[3], os.Args[4])
	case "read":
		read(os.Args[3], os.Args[4])
	}
}

// answer prints what came of a step: a word and, for an error, the client's name of it.
func answer(said string, err error) {
	var known *kerr.Error
	switch {
	case errors.As(err, &known):
		said = "failed " + known.Message
	case err != nil:
		said = "failed " + strings.ReplaceAll(err.Error(), "\n", " ")
	}
	fmt.Println(said)
}

func client(options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append(options, usual...)...)
	if err != nil {
		panic(err)
	}
	return made
}

func send(topic, value string) {
	producer := client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer producer.Close()
	waiting, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	answer("done", producer.ProduceSync(waiting, &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr())
}

func read(topic, group string) {
	consumer := client(
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.HeartbeatInterval(200*time.Millisecond), kgo.SessionTimeout(6*time.Second),
	)
	defer consumer.Close()
	var last []*kgo.Record
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var milliseconds int
		if lines.Text() == "commit" {
			answer("done", consumer.CommitRecords(context.Background(), last...))
		} else if _, err := fmt.Sscanf(lines.Text(), "read %d", &milliseconds); err != nil {
			panic(err)
		} else {
			found, err := next(consumer, time.Duration(milliseconds)*time.Millisecond)
			last = append(last[:0], found...)
			if len(found) == 0 {
				answer("none", err)
			} else {
				answer("value "+string(found[0].Value), err)
			}
		}
	}
}

// informs says whether an error is one that the client only tells of: it goes on by itself.
func informs(err error) bool {
	var lost *kgo.ErrDataLoss
	var session *kgo.ErrGroupSession
	return errors.As(err, &lost) || errors.As(err, &session)
}

// next is at most one record.
func next(consumer *kgo.Client, within time.Duration) ([]*kgo.Record, error) {
	waiting, stop := context.WithTimeout(context.Background(), within)
	defer stop()
	for waiting.Err() == nil {
		fetches := consumer.PollRecords(waiting, 1)
		for _, failed := range fetches.Errors() {
			if waiting.Err() == nil && !informs(failed.Err) {
				return nil, failed.Err
			}
		}
		if found := fetches.Records(); len(found) > 0 {
			return found, nil
		}
	}
	return nil, nil
}
