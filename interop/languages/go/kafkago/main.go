// segmentio's kafka-go: its writer, its reader with a group, and the requests of its client.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	. "languages/check"

	"github.com/segmentio/kafka-go"
)

var (
	ctx    = context.Background()
	client = &kafka.Client{Addr: kafka.TCP(Bootstrap), Timeout: 20 * time.Second}
)

func create(name string, partitions int, configs ...kafka.ConfigEntry) string {
	wanted := kafka.TopicConfig{Topic: Topic(name), NumPartitions: partitions, ReplicationFactor: 1, ConfigEntries: configs}
	created := Must(client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{wanted}}))
	if err := created.Errors[Topic(name)]; err != nil {
		panic(err)
	}
	return Topic(name)
}

func writer(topic string) *kafka.Writer {
	return &kafka.Writer{Addr: kafka.TCP(Bootstrap), Topic: topic, BatchTimeout: 5 * time.Millisecond, RequiredAcks: kafka.RequireAll}
}

func reader(topic, group string) *kafka.Reader {
	return kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{Bootstrap}, Topic: topic, GroupID: group, MaxWait: 300 * time.Millisecond, MaxBytes: 20_000_000,
		HeartbeatInterval: 300 * time.Millisecond, SessionTimeout: 6 * time.Second, StartOffset: kafka.FirstOffset,
	})
}

func read(r *kafka.Reader, count int) (got []kafka.Message, err error) {
	waiting, stop := context.WithTimeout(ctx, 60*time.Second)
	defer stop()
	for len(got) < count {
		message, err := r.ReadMessage(waiting)
		if err != nil {
			return got, err
		}
		got = append(got, message)
	}
	return got, nil
}

func main() {
	for _, codec := range []kafka.Compression{0, kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd} {
		Do(codec.String(), func() (string, error) { return compressed(create(codec.String(), 1), codec) })
	}
	Do("group", group)
	Do("offsets", offsets)
	Do("transaction", transaction)
	Do("admin", admin)
	Do("refused", refused)
}

func compressed(topic string, codec kafka.Compression) (string, error) {
	w := writer(topic)
	w.Compression = codec
	defer w.Close()
	var messages []kafka.Message
	for i := range 500 {
		headers := []kafka.Header{{Key: "h", Value: []byte("1")}}
		messages = append(messages, kafka.Message{Key: []byte("k"), Value: bytes.Repeat([]byte("v"), i), Headers: headers})
	}
	if err := w.WriteMessages(ctx, messages...); err != nil {
		return "", err
	}
	r := reader(topic, "")
	defer r.Close()
	got, err := read(r, 500)
	size := 0
	for _, message := range got {
		size += len(message.Value) + len(message.Headers)
	}
	return fmt.Sprint(len(got), " ", size), err
}

// group: a second member comes, and what is written then is read once.
func group() (string, error) {
	topic := create("group", 4)
	w := writer(topic)
	defer w.Close()
	write := func() error {
		for i := range 40 {
			if err := w.WriteMessages(ctx, kafka.Message{Key: fmt.Append(nil, i), Value: []byte("x")}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := write(); err != nil {
		return "", err
	}
	a := reader(topic, topic)
	first, err := read(a, 40)
	if err != nil {
		return "", err
	}
	b := reader(topic, topic)
	members := 0
	if err := Until(func() bool {
		described, err := client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{topic}})
		members = 0
		if err == nil && described.Groups[0].GroupState == "Stable" {
			members = len(described.Groups[0].Members)
		}
		return members == 2
	}); err != nil {
		return "", err
	}
	if err := write(); err != nil {
		return "", err
	}
	got := make(chan kafka.Message)
	for _, r := range []*kafka.Reader{a, b} {
		go func() {
			for message, err := r.ReadMessage(ctx); err == nil; message, err = r.ReadMessage(ctx) {
				got <- message
			}
		}()
	}
	for range 40 {
		<-got
	}
	a.Close()
	b.Close()
	asked := &kafka.OffsetFetchRequest{GroupID: topic, Topics: map[string][]int{topic: {0, 1, 2, 3}}}
	fetched, err := client.OffsetFetch(ctx, asked)
	if err != nil {
		return "", err
	}
	sum := int64(0)
	for _, partition := range fetched.Topics[topic] {
		sum += partition.CommittedOffset
	}
	return fmt.Sprint(len(first), " ", members, " ", sum), nil
}

func offsets() (string, error) {
	topic := create("offsets", 1)
	w := writer(topic)
	defer w.Close()
	for i := range 10 {
		at := time.UnixMilli(1_700_000_000_000 + int64(i)*1000)
		if err := w.WriteMessages(ctx, kafka.Message{Value: []byte("x"), Time: at}); err != nil {
			return "", err
		}
	}
	r := reader(topic, "")
	defer r.Close()
	if err := r.SetOffsetAt(ctx, time.UnixMilli(1_700_000_004_500)); err != nil {
		return "", err
	}
	got, err := read(r, 5)
	if err != nil {
		return "", err
	}
	beyond := &kafka.FetchRequest{Topic: topic, Offset: 99, MinBytes: 1, MaxBytes: 1000, MaxWait: time.Second}
	fetched, err := client.Fetch(ctx, beyond)
	return fmt.Sprint(got[0].Offset, " ", errors.Is(fetched.Error, kafka.OffsetOutOfRange)), err
}

// transaction: offsets in one, request by request, as the client has no transactional writer.
func transaction() (string, error) {
	topic := create("transaction", 1)
	begun, err := client.InitProducerID(ctx, &kafka.InitProducerIDRequest{TransactionalID: topic, TransactionTimeoutMs: 60000})
	if err != nil {
		return "", err
	}
	id, epoch := begun.Producer.ProducerID, begun.Producer.ProducerEpoch
	if _, err := client.AddOffsetsToTxn(ctx, &kafka.AddOffsetsToTxnRequest{
		TransactionalID: topic, ProducerID: id, ProducerEpoch: epoch, GroupID: topic,
	}); err != nil {
		return "", err
	}
	if _, err := client.TxnOffsetCommit(ctx, &kafka.TxnOffsetCommitRequest{
		TransactionalID: topic, ProducerID: id, ProducerEpoch: epoch, GroupID: topic, GenerationID: -1,
		Topics: map[string][]kafka.TxnOffsetCommit{topic: {{Partition: 0, Offset: 5}}},
	}); err != nil {
		return "", err
	}
	ended, err := client.EndTxn(ctx, &kafka.EndTxnRequest{TransactionalID: topic, ProducerID: id, ProducerEpoch: epoch, Committed: true})
	if err != nil {
		return "", err
	}
	committed := int64(-1)
	err = Until(func() bool { // the marker may come a little after the answer
		asked := &kafka.OffsetFetchRequest{GroupID: topic, Topics: map[string][]int{topic: {0}}}
		if fetched, err := client.OffsetFetch(ctx, asked); err == nil {
			committed = fetched.Topics[topic][0].CommittedOffset
		}
		return committed >= 0
	})
	return fmt.Sprint(ended.Error, " ", committed), err
}

func admin() (string, error) {
	topic := create("admin", 1, kafka.ConfigEntry{ConfigName: "retention.ms", ConfigValue: "1234567"})
	resource := kafka.DescribeConfigRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{"retention.ms"}}
	described, err := client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{resource}})
	if err != nil {
		return "", err
	}
	deleted, err := client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic, Topic("never")}})
	if err != nil {
		return "", err
	}
	missing := errors.Is(deleted.Errors[Topic("never")], kafka.UnknownTopicOrPartition)
	return fmt.Sprint(described.Resources[0].ConfigEntries[0].ConfigValue, " ", deleted.Errors[topic], " ", missing), nil
}

func refused() (string, error) {
	w := writer(create("small", 1, kafka.ConfigEntry{ConfigName: "max.message.bytes", ConfigValue: "2000"}))
	defer w.Close()
	var failed kafka.WriteErrors
	errors.As(w.WriteMessages(ctx, kafka.Message{Value: make([]byte, 5000)}), &failed)
	return fmt.Sprint(len(failed) == 1 && errors.Is(failed[0], kafka.MessageSizeTooLarge)), nil
}
