// franz-go.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

var scenarios = map[string]func() (string, error){
	"connect": quietly(connect), "produce": quietly(func() error { return thereAndBack() }), "records": quietly(records),
	"headers": quietly(headers), "timestamps": quietly(timestamps), "codecs": codecs,
	"idempotent": quietly(func() error { return thereAndBack() }), "transactions": quietly(transactions),
	"group":  quietly(func() error { return group() }),
	"commit": quietly(commit), "seek": quietly(seek), "admin": quietly(admin),
	"large": quietly(large), "security": quietly(security), "restart": quietly(restart),
}

type record = *kgo.Record

func client(more ...kgo.Opt) *kgo.Client {
	options := []kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.FetchMaxWait(200 * time.Millisecond)}
	if release := os.Getenv("MATRIX_RELEASE"); strings.HasPrefix(release, "0.") && release < "0.11" {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	made, err := kgo.NewClient(append(options, more...)...)
	if err != nil {
		panic(err)
	}
	return made
}

func send(cl *kgo.Client, values []string) error {
	var records []record
	for _, value := range values {
		records = append(records, &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte(value)})
	}
	return cl.ProduceSync(patience(), records...).FirstErr()
}

func take(cl *kgo.Client, n int) (got []record, err error) {
	for ctx := patience(); len(got) < n; {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return got, fmt.Errorf("%d records of %d", len(got), n)
		}
		got = append(got, fetches.Records()...)
	}
	return got, nil
}

func read(n int) ([]record, error) { return readWith(n) }

func readWith(n int, more ...kgo.Opt) ([]record, error) {
	from := kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}})
	cl := client(append(more, from)...)
	defer cl.Close()
	return take(cl, n)
}

func thereAndBack(more ...kgo.Opt) error {
	cl := client(more...)
	defer cl.Close()
	if err := send(cl, values(0, count)); err != nil {
		return err
	}
	found, err := read(count)
	return are(values(0, count), found, err)
}

func partitions(cl *kgo.Client, name string) (int, error) {
	asked := kmsg.NewMetadataRequestTopic()
	asked.Topic = &name
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = append(request.Topics, asked)
	answer, err := request.RequestWith(patience(), cl)
	if err != nil {
		return 0, err
	}
	return len(answer.Topics[0].Partitions), kerr.ErrorForCode(answer.Topics[0].ErrorCode)
}

func connect() error {
	cl := client()
	found, err := partitions(cl, topic)
	return first(cl.Ping(patience()), err, same(found, 4))
}

func records() error {
	sent := []record{
		{Topic: topic, Key: []byte("key"), Value: []byte("value")}, {Topic: topic, Value: []byte("no key")}, {Topic: topic, Key: []byte("gone")},
		{Topic: topic, Key: []byte("empty"), Value: []byte{}}, {Topic: topic, Key: []byte{0, 255}, Value: make([]byte, 100)},
	}
	if err := client().ProduceSync(patience(), sent...).FirstErr(); err != nil {
		return err
	}
	found, err := read(len(sent))
	for i, record := range found {
		err = first(err, same([]any{record.Key, record.Value}, []any{sent[i].Key, sent[i].Value}))
	}
	return err
}

func headers() error {
	wanted := []kgo.RecordHeader{{Key: "one", Value: []byte("1")}, {Key: "one", Value: []byte("again")}, {Key: "empty", Value: []byte{}}}
	if err := client().ProduceSync(patience(), &kgo.Record{Topic: topic, Value: []byte("v"), Headers: wanted}).FirstErr(); err != nil {
		return err
	}
	found, err := read(1)
	if err != nil {
		return err
	}
	return same(found[0].Headers, wanted)
}

func timed(n int, step int64) error {
	cl := client()
	defer cl.Close()
	for i := range int64(n) {
		record := &kgo.Record{Topic: topic, Value: []byte(fmt.Sprint(i)), Timestamp: time.UnixMilli(firstMs + i*step)}
		if err := cl.ProduceSync(patience(), record).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

func timestamps() error {
	if err := timed(5, 1); err != nil {
		return err
	}
	found, err := read(5)
	return first(err, haveTimes(found, func(record record) time.Time { return record.Timestamp }))
}

type codec struct {
	name string
	is   kgo.CompressionCodec
}

func (c codec) String() string { return c.name }

func codecs() (string, error) {
	known := []codec{
		{"gzip", kgo.GzipCompression()}, {"snappy", kgo.SnappyCompression()}, {"lz4", kgo.Lz4Compression()}, {"zstd", kgo.ZstdCompression()},
	}
	return everyCodec(known, func(codec codec) error {
		cl := client(kgo.ProducerBatchCompression(codec.is))
		defer cl.Close()
		return send(cl, values(0, count))
	})
}

func transactions() error {
	cl := client(kgo.TransactionalID(topic))
	for i := range 4 {
		value := fmt.Sprint(i)
		if err := first(cl.BeginTransaction(), send(cl, []string{value, value})); err != nil {
			return err
		}
		if err := cl.EndTransaction(patience(), kgo.TransactionEndTry(i%2 == 0)); err != nil {
			return err
		}
	}
	cl.Close()
	everything, err := read(8)
	committed, err2 := readWith(4, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	return first(err, err2, same(texts(everything), strings.Fields("0 0 1 1 2 2 3 3")), same(texts(committed), strings.Fields("0 0 2 2")))
}

func join(m *member, more ...kgo.Opt) *kgo.Client {
	change := func(sign int32) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
			m.partitions.Add(sign * int32(len(changed[topic])))
		}
	}
	return client(append(more,
		kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
		kgo.HeartbeatInterval(300*time.Millisecond), kgo.SessionTimeout(10*time.Second),
		kgo.OnPartitionsAssigned(change(1)), kgo.OnPartitionsRevoked(change(-1)), kgo.OnPartitionsLost(change(-1)),
	)...)
}

func group(more ...kgo.Opt) error {
	return twoMembers(func() (*member, error) {
		m := &member{}
		cl := join(m, more...)
		m.leave = cl.Close
		go func() {
			for !cl.PollFetches(context.Background()).IsClientClosed() {
			}
		}()
		return m, nil
	})
}

func commit() error {
	if err := send(client(), values(0, count)); err != nil {
		return err
	}
	one := join(&member{})
	got, err := take(one, 30)
	if err != nil {
		return err
	}
	err = one.CommitRecords(patience(), got[29])
	one.Close()
	two := join(&member{})
	defer two.Close()
	later, err2 := take(two, count-30)
	return first(err, are(values(30, count), later, err2))
}

func offsetAt(cl *kgo.Client, ms int64) (int64, error) {
	partition := kmsg.NewListOffsetsRequestTopicPartition()
	partition.Timestamp = ms
	asked := kmsg.NewListOffsetsRequestTopic()
	asked.Topic, asked.Partitions = topic, append(asked.Partitions, partition)
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID, request.Topics = -1, append(request.Topics, asked)
	answer, err := request.RequestWith(patience(), cl)
	if err != nil {
		return 0, err
	}
	found := answer.Topics[0].Partitions[0]
	return found.Offset, kerr.ErrorForCode(found.ErrorCode)
}

func seek() error {
	if err := timed(10, 1000); err != nil {
		return err
	}
	cl := client()
	for at, wanted := range map[int64]int64{firstMs + 4500: 5, firstMs + 99_000: -1, -2: 0, -1: 10} {
		found, err := offsetAt(cl, at)
		if err := first(err, same(found, wanted)); err != nil {
			return err
		}
	}
	from := client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(5)}}))
	found, err := take(from, 5)
	return are(strings.Fields("5 6 7 8 9"), found, err)
}

func admin() error {
	cl, name, value := client(), topic+"-made", "7654321"
	create := kmsg.NewPtrCreateTopicsRequest()
	made := kmsg.NewCreateTopicsRequestTopic()
	made.Topic, made.NumPartitions, made.ReplicationFactor = name, 1, 1
	create.Topics = append(create.Topics, made)
	created, err := create.RequestWith(patience(), cl)
	if err := first(err, kerr.ErrorForCode(created.Topics[0].ErrorCode)); err != nil {
		return err
	}
	grow := kmsg.NewPtrCreatePartitionsRequest()
	grown := kmsg.NewCreatePartitionsRequestTopic()
	grown.Topic, grown.Count = name, 3
	grow.Topics, grow.TimeoutMillis = append(grow.Topics, grown), 10_000
	if _, err := grow.RequestWith(patience(), cl); err != nil {
		return err
	}
	if err := until(func() bool { n, err := partitions(cl, name); return err == nil && n == 3 }, "three partitions"); err != nil {
		return err
	}
	alter := kmsg.NewPtrAlterConfigsRequest()
	resource := kmsg.NewAlterConfigsRequestResource()
	entry := kmsg.NewAlterConfigsRequestResourceConfig()
	entry.Name, entry.Value = "retention.ms", &value
	resource.ResourceType, resource.ResourceName, resource.Configs = kmsg.ConfigResourceTypeTopic, name, append(resource.Configs, entry)
	alter.Resources = append(alter.Resources, resource)
	if _, err := alter.RequestWith(patience(), cl); err != nil {
		return err
	}
	described := func() bool {
		asked := kmsg.NewDescribeConfigsRequestResource()
		asked.ResourceType, asked.ResourceName, asked.ConfigNames = kmsg.ConfigResourceTypeTopic, name, []string{"retention.ms"}
		request := kmsg.NewPtrDescribeConfigsRequest()
		request.Resources = append(request.Resources, asked)
		found, err := request.RequestWith(patience(), cl)
		return err == nil && len(found.Resources[0].Configs) == 1 && *found.Resources[0].Configs[0].Value == value
	}
	if err := until(described, "the changed config"); err != nil {
		return err
	}
	remove := kmsg.NewPtrDeleteTopicsRequest()
	removed := kmsg.NewDeleteTopicsRequestTopic()
	removed.Topic = &name
	remove.TopicNames, remove.Topics = []string{name}, append(remove.Topics, removed)
	answer, err := remove.RequestWith(patience(), cl)
	return first(err, kerr.ErrorForCode(answer.Topics[0].ErrorCode))
}

func large() error {
	if err := send(client(kgo.ProducerBatchCompression(kgo.NoCompression())), largeOnes()); err != nil {
		return err
	}
	found, err := read(5)
	return are(largeOnes(), found, err)
}

func security() error {
	trust, err := trusting()
	if err != nil {
		return err
	}
	secure := []kgo.Opt{kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()), kgo.DialTLSConfig(trust)}
	if err := send(client(secure...), values(0, count)); err != nil {
		return err
	}
	found, err := readWith(count, secure...)
	return are(values(0, count), found, err)
}

func restart() error {
	cl, reader := client(), join(&member{})
	found := map[string]bool{}
	readOn := func(n int) error {
		return until(func() bool {
			ctx, done := context.WithTimeout(context.Background(), 200*time.Millisecond)
			defer done()
			for _, record := range reader.PollFetches(ctx).Records() {
				found[string(record.Value)] = true
			}
			return len(found) == n
		}, fmt.Sprint(n, " records"))
	}
	if err := first(send(cl, values(0, 50)), readOn(50)); err != nil {
		return err
	}
	awaitRestart()
	return first(send(cl, values(50, count)), readOn(count))
}
