// franz-go, an application from `orders` to `billed`: BOOTSTRAP NAME right|wrong ORDERS; interop/broken_programs.py says
// which.
package main

import (
	"context"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	ctx    = context.Background()
	right  = os.Args[3] == "right"
	orders = must(strconv.Atoi(os.Args[4]))
)

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	switch os.Args[2] {
	case "commits_first":
		commitsFirst()
	case "retries_without_idempotence":
		billAll(biller(right), kgo.ReadUncommitted())
	case "swallows_errors":
		swallowsErrors()
	case "reads_uncommitted":
		level := kgo.ReadUncommitted()
		if right {
			level = kgo.ReadCommitted()
		}
		billAll(biller(true), level)
	default:
		panic(os.Args[2])
	}
}

func client(name string, options ...kgo.Opt) *kgo.Client {
	usual := []kgo.Opt{
		kgo.SeedBrokers(os.Args[1]), kgo.ClientID(name),
		kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }),
	}
	return must(kgo.NewClient(append(usual, options...)...))
}

// biller returns how an order is billed, and the error that the client tells.
func biller(idempotent bool) func(*kgo.Record) error {
	options := []kgo.Opt{kgo.DefaultProduceTopic("billed"), kgo.ProducerLinger(0)}
	if !idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	producer := client("biller", options...)
	return func(order *kgo.Record) error {
		return producer.ProduceSync(ctx, &kgo.Record{Key: order.Key, Value: []byte("paid")}).FirstErr()
	}
}

// work calls each with one order after the other until it returns true.
func work(name string, level kgo.IsolationLevel, each func(order *kgo.Record, commit func()) bool) {
	consumer := client(name, kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders"), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(level))
	defer consumer.Close()
	for {
		fetches := consumer.PollRecords(ctx, 1)
		for _, failed := range fetches.Errors() {
			panic(failed.Err)
		}
		for _, order := range fetches.Records() {
			if each(order, func() { check(consumer.CommitRecords(ctx, order)) }) {
				return
			}
		}
	}
}

func commitsFirst() {
	bill, half, taken := biller(true), orders/2, 0
	work("first", kgo.ReadUncommitted(), func(order *kgo.Record, commit func()) bool {
		taken++
		if !right {
			commit()
		}
		if taken == half {
			return true // the crash
		}
		check(bill(order))
		if right {
			commit()
		}
		return false
	})
	left := orders - half
	if right {
		left++
	}
	work("second", kgo.ReadUncommitted(), func(order *kgo.Record, commit func()) bool {
		check(bill(order))
		commit()
		left--
		return left == 0
	})
}

func billAll(bill func(*kgo.Record) error, level kgo.IsolationLevel) {
	left := orders
	work("reader", level, func(order *kgo.Record, commit func()) bool {
		check(bill(order))
		commit()
		left--
		return left == 0
	})
}

func swallowsErrors() {
	send := biller(false)
	billAll(func(order *kgo.Record) error {
		err := send(order)
		for right && err != nil {
			err = send(order)
		}
		return nil
	}, kgo.ReadUncommitted())
}
