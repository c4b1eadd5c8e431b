// franz-go, applications from `orders` to `billed`, one for each line BOOTSTRAP NAME right|wrong;
// interop/broken_programs.py says which.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var ctx = context.Background()

func main() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if err := work(words[0], words[1], words[2] == "right"); err != nil {
			fmt.Println("failed", strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println("done")
		}
	}
}

func work(bootstrap, name string, right bool) error {
	commitsFirst := !right && name == "commits_first"
	looksAway := !right && name == "swallows_errors"
	level := kgo.ReadCommitted()
	if !right && name == "reads_uncommitted" {
		level = kgo.ReadUncommitted()
	}
	biller, err := client(bootstrap, "biller", production(name, right)...)
	if err != nil {
		return err
	}
	defer biller.Close()
	reader, err := client(bootstrap, "reader", kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders"),
		kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(level))
	if err != nil {
		return err
	}
	defer reader.Close()
	for {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, order := range fetches.Records() {
			if commitsFirst {
				if err := reader.CommitRecords(ctx, order); err != nil {
					return err
				}
			}
			err := biller.ProduceSync(ctx, &kgo.Record{Topic: "billed", Key: order.Key, Value: []byte("paid")}).FirstErr()
			if err == nil || looksAway {
				err = nil
			}
			if err == nil && !commitsFirst {
				err = reader.CommitRecords(ctx, order)
			}
			if err != nil || string(order.Key) == "last" {
				return err
			}
		}
	}
}

func client(bootstrap, name string, options ...kgo.Opt) (*kgo.Client, error) {
	backoff := kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond })
	usual := []kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.ClientID(name), backoff, kgo.MetadataMinAge(10 * time.Millisecond)}
	return kgo.NewClient(append(options, usual...)...)
}

func production(name string, right bool) []kgo.Opt {
	options := []kgo.Opt{kgo.ProducerLinger(0)}
	once := name == "commits_first" || name == "swallows_errors"
	if once {
		options = append(options, kgo.RecordRetries(0))
	}
	if once || (!right && name == "retries_without_idempotence") {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	return options
}
