// franz-go: kgo and kadm, with group protocols old and new.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	. "languages/check"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	ctx = context.Background()
	adm = kadm.NewClient(client())
)

func client(options ...kgo.Opt) *kgo.Client {
	return Must(kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(Bootstrap)}, options...)...))
}

func create(name string, partitions int32, configs map[string]*string) string {
	Must(adm.CreateTopic(ctx, partitions, 1, configs, Topic(name)))
	return Topic(name)
}

func produce(topic string, count int, options ...kgo.Opt) error {
	p := client(append(options, kgo.DefaultProduceTopic(topic))...)
	defer p.Close()
	for i := range count {
		if err := p.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(i))).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

// read takes count records, or what there is when nothing more has come for a while.
func read(count int, options ...kgo.Opt) (got []*kgo.Record, err error) {
	c := client(options...)
	defer c.Close()
	for patience := 20 * time.Second; len(got) < count; patience = 2 * time.Second {
		waiting, stop := context.WithTimeout(ctx, patience)
		fetches := c.PollFetches(waiting)
		silent := waiting.Err() != nil
		stop()
		if silent {
			return got, nil
		}
		if failed := fetches.Errors(); len(failed) > 0 {
			return got, failed[0].Err
		}
		got = append(got, fetches.Records()...)
	}
	return got, nil
}

func main() {
	if Restarting {
		Do("restart", restart)
		return
	}
	for name, codec := range map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		Do(name, func() (string, error) { return compressed(create(name, 2, nil), codec) })
	}
	Do("transactions", transactions)
	for name, option := range map[string]kgo.Opt{
		"range":       kgo.Balancers(kgo.RangeBalancer()),
		"cooperative": kgo.Balancers(kgo.CooperativeStickyBalancer()),
		"consumer":    kgo.WithContext(context.WithValue(ctx, "opt_in_kafka_next_gen_balancer_beta", true)),
	} {
		Do(name, func() (string, error) { return group(name, option) })
	}
	Do("offsets", offsets)
	Do("admin", admin)
	Do("refused", refused)
	Do("big", big)
}

func compressed(topic string, codec kgo.CompressionCodec) (string, error) {
	p := client(kgo.ProducerBatchCompression(codec), kgo.DefaultProduceTopic(topic))
	defer p.Close()
	var records []*kgo.Record
	for i := range 500 {
		headers := []kgo.RecordHeader{{Key: "h", Value: []byte("1")}, {Key: "null", Value: nil}}
		records = append(records, &kgo.Record{Key: fmt.Append(nil, i), Value: bytes.Repeat([]byte("v"), i), Headers: headers})
	}
	if err := p.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return "", err
	}
	got, err := read(500, kgo.ConsumeTopics(topic))
	size, headers := 0, 0
	for _, record := range got {
		size += len(record.Value)
		headers += len(record.Headers)
	}
	return fmt.Sprint(len(got), " ", size, " ", headers), err
}

func transactions() (said string, err error) {
	topic := create("transactions", 1, nil)
	p := client(kgo.TransactionalID(topic), kgo.DefaultProduceTopic(topic))
	defer p.Close()
	for i, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit, kgo.TryAbort} {
		if err := p.BeginTransaction(); err != nil {
			return "", err
		}
		if err := p.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(i)), kgo.StringRecord(fmt.Sprint(i))).FirstErr(); err != nil {
			return "", err
		}
		if err := p.EndTransaction(ctx, end); err != nil {
			return "", err
		}
	}
	for _, level := range []kgo.IsolationLevel{kgo.ReadCommitted(), kgo.ReadUncommitted()} {
		got, err := read(100, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(level))
		if err != nil {
			return "", err
		}
		for _, record := range got {
			said += fmt.Sprintf("%s@%d ", record.Value, record.Offset)
		}
		said += "| "
	}
	return said, nil
}

// group: two members share four partitions, one leaves, the other commits.
func group(name string, protocol kgo.Opt) (string, error) {
	topic := create("group-"+name, 4, nil)
	var lock sync.Mutex
	have := map[string]int{}
	change := func(member string, sign int) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			lock.Lock()
			defer lock.Unlock()
			have[member] += sign * len(partitions[topic])
		}
	}
	join := func(member string) *kgo.Client {
		c := client(protocol, kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
			kgo.HeartbeatInterval(300*time.Millisecond),
			kgo.OnPartitionsAssigned(change(member, 1)), kgo.OnPartitionsRevoked(change(member, -1)))
		go func() {
			for !c.PollFetches(ctx).IsClientClosed() {
			}
		}()
		return c
	}
	settled := func(a, b int) error {
		return Until(func() bool {
			lock.Lock()
			defer lock.Unlock()
			return have["a"] == a && have["b"] == b
		})
	}
	a := join("a")
	if err := settled(4, 0); err != nil {
		return "", err
	}
	b := join("b")
	if err := settled(2, 2); err != nil {
		return "", err
	}
	a.Close()
	if err := settled(0, 4); err != nil {
		return "", err
	}
	b.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{topic: {1: {Epoch: -1, Offset: 17}}}, nil)
	b.Close()
	committed, err := adm.FetchOffsets(ctx, topic)
	if err != nil {
		return "", err
	}
	at, _ := committed.Lookup(topic, 1)
	listed, err := adm.ListGroups(ctx)
	if err != nil {
		return "", err
	}
	deleted, err := adm.DeleteGroups(ctx, topic)
	return fmt.Sprint(at.At, " ", listed[topic].State, " ", deleted[topic].Err), err
}

func offsets() (string, error) {
	topic := create("offsets", 1, nil)
	p := client(kgo.DefaultProduceTopic(topic))
	defer p.Close()
	for i := range 10 {
		at := time.UnixMilli(1_700_000_000_000 + int64(i)*1000)
		if err := p.ProduceSync(ctx, &kgo.Record{Value: []byte("x"), Timestamp: at}).FirstErr(); err != nil {
			return "", err
		}
	}
	later := kgo.NewOffset().AfterMilli(1_700_000_004_500)
	got, err := read(5, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: later}}))
	if err != nil {
		return "", err
	}
	beyond := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(99)}}
	again, err := read(10, kgo.ConsumePartitions(beyond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return "", err
	}
	_, outOfRange := read(1, kgo.ConsumePartitions(beyond), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	before := kadm.Offsets{}
	before.Add(kadm.Offset{Topic: topic, At: 3})
	if _, err = adm.DeleteRecords(ctx, before); err != nil {
		return "", err
	}
	start, err := adm.ListStartOffsets(ctx, topic)
	first, _ := start.Lookup(topic, 0)
	return fmt.Sprint(got[0].Offset, " ", len(again), " ", errors.Is(outOfRange, kerr.OffsetOutOfRange), " ", first.Offset), err
}

func admin() (string, error) {
	topic := create("admin", 1, map[string]*string{"retention.ms": kadm.StringPtr("1234567")})
	compact := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "cleanup.policy", Value: kadm.StringPtr("compact")}}
	if _, err := adm.AlterTopicConfigs(ctx, compact, topic); err != nil {
		return "", err
	}
	bad, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "retention.ms", Value: kadm.StringPtr("abc")}}, topic)
	if err != nil {
		return "", err
	}
	if _, err := adm.UpdatePartitions(ctx, 3, topic); err != nil {
		return "", err
	}
	time.Sleep(300 * time.Millisecond) // Kafka's brokers learn it a little later
	described, err := adm.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return "", err
	}
	said := ""
	for _, config := range described[0].Configs {
		if config.Key == "cleanup.policy" || config.Key == "retention.ms" {
			said += config.Key + "=" + config.MaybeValue() + " "
		}
	}
	listed, err := adm.ListTopics(ctx, topic)
	if err != nil {
		return "", err
	}
	deleted, err := adm.DeleteTopics(ctx, topic, Topic("never"))
	missing := errors.Is(deleted[Topic("never")].Err, kerr.UnknownTopicOrPartition)
	return fmt.Sprint(said, errors.Is(bad[0].Err, kerr.InvalidConfig), " ", len(listed[topic].Partitions), " ", missing), err
}

func refused() (string, error) {
	small := create("small", 1, map[string]*string{"max.message.bytes": kadm.StringPtr("2000")})
	p := client(kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.UnknownTopicRetries(1))
	defer p.Close()
	large := p.ProduceSync(ctx, &kgo.Record{Topic: small, Value: make([]byte, 5000)}).FirstErr()
	never := p.ProduceSync(ctx, &kgo.Record{Topic: Topic("never"), Value: []byte("x")}).FirstErr()
	return fmt.Sprint(errors.Is(large, kerr.MessageTooLarge), " ", errors.Is(never, kerr.UnknownTopicOrPartition)), nil
}

func big() (string, error) {
	topic := create("big", 2, map[string]*string{"max.message.bytes": kadm.StringPtr("20000000")})
	p := client(kgo.DefaultProduceTopic(topic), kgo.ProducerBatchMaxBytes(15_000_000), kgo.BrokerMaxWriteBytes(60_000_000),
		kgo.ProducerLinger(50*time.Millisecond), kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer p.Close()
	var records []*kgo.Record
	for range 20 {
		records = append(records, kgo.SliceRecord(make([]byte, 1_000_000)))
	}
	if err := p.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return "", err
	}
	got, err := read(20, kgo.ConsumeTopics(topic), kgo.FetchMaxPartitionBytes(500_000))
	return fmt.Sprint(len(got)), err
}

// restart: what an idempotent producer sends goes on over it, and so does a transaction that was open.
func restart() (string, error) {
	topic, other := create("restart", 2, nil), create("open", 1, nil)
	p := client(kgo.DefaultProduceTopic(topic))
	defer p.Close()
	open := client(kgo.DefaultProduceTopic(other), kgo.TransactionalID(other))
	defer open.Close()
	if err := open.BeginTransaction(); err != nil {
		return "", err
	}
	if err := open.ProduceSync(ctx, kgo.StringRecord("before")).FirstErr(); err != nil {
		return "", err
	}
	var over <-chan struct{}
	for i := range 200 {
		if i == 100 {
			over = AskForRestart()
		}
		if err := p.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(i))).FirstErr(); err != nil {
			return "", err
		}
	}
	<-over
	if err := open.ProduceSync(ctx, kgo.StringRecord("after")).FirstErr(); err != nil {
		return "", err
	}
	if err := open.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return "", err
	}
	got, err := read(200, kgo.ConsumeTopics(topic))
	if err != nil {
		return "", err
	}
	committed, err := read(2, kgo.ConsumeTopics(other), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	return fmt.Sprint(len(got), " ", len(committed)), err
}
