// kafka-go, which knows one thing less than others: what an idempotent producer is.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl/scram"
)

var scenarios = map[string]func() (string, error){
	"connect": quietly(connect), "produce": quietly(produce), "records": quietly(records), "headers": quietly(headers),
	"timestamps": quietly(timestamps), "codecs": codecs, "group": quietly(group), "commit": quietly(commit), "seek": quietly(seek),
	"admin": quietly(admin), "large": quietly(large), "security": quietly(security), "restart": quietly(restart),
}

type record = kafka.Message

var client = &kafka.Client{Addr: kafka.TCP(bootstrap)}

func writer() *kafka.Writer {
	return &kafka.Writer{
		Addr: kafka.TCP(bootstrap), Topic: topic, RequiredAcks: kafka.RequireAll, BatchTimeout: 5 * time.Millisecond, BatchBytes: 2_000_000,
		MaxAttempts: 100,
	}
}

func of(values []string) (messages []record) {
	for _, value := range values {
		messages = append(messages, record{Key: []byte("k"), Value: []byte(value)})
	}
	return messages
}

func reader(config kafka.ReaderConfig) *kafka.Reader {
	config.Brokers, config.Topic, config.MaxWait, config.MaxBytes = []string{bootstrap}, topic, 200*time.Millisecond, 10_000_000
	if config.GroupID != "" {
		config.StartOffset = kafka.FirstOffset
		config.HeartbeatInterval, config.SessionTimeout, config.RebalanceTimeout = 300*time.Millisecond, 10*time.Second, 10*time.Second
		config.JoinGroupBackoff = 200 * time.Millisecond
	}
	return kafka.NewReader(config)
}

func read(n int) ([]record, error) {
	r := reader(kafka.ReaderConfig{})
	defer r.Close()
	return take(r, n)
}

func take(r *kafka.Reader, n int) (got []record, err error) {
	for ctx := patience(); len(got) < n; {
		message, err := r.FetchMessage(ctx)
		if err != nil {
			return got, fmt.Errorf("%d records of %d: %w", len(got), n, err)
		}
		got = append(got, message)
	}
	return got, nil
}

func partitions(name string) (int, error) {
	found, err := client.Metadata(patience(), &kafka.MetadataRequest{Topics: []string{name}})
	if err != nil {
		return 0, err
	}
	return len(found.Topics[0].Partitions), found.Topics[0].Error
}

func connect() error {
	found, err := partitions(topic)
	return first(err, same(found, 4))
}

func produce() error {
	if err := writer().WriteMessages(patience(), of(values(0, count))...); err != nil {
		return err
	}
	found, err := read(count)
	return are(values(0, count), found, err)
}

func records() error {
	sent := []record{
		{Key: []byte("key"), Value: []byte("value")}, {Value: []byte("no key")}, {Key: []byte("gone")}, {Key: []byte("empty"), Value: []byte{}},
		{Key: []byte{0, 255}, Value: make([]byte, 100)},
	}
	if err := writer().WriteMessages(patience(), sent...); err != nil {
		return err
	}
	found, err := read(len(sent))
	for i, message := range found {
		err = first(err, same(string(message.Key), string(sent[i].Key)), same(string(message.Value), string(sent[i].Value)),
			same(message.Key == nil, sent[i].Key == nil), same(message.Value == nil, sent[i].Value == nil))
	}
	return err
}

func headers() error {
	wanted := []kafka.Header{{Key: "one", Value: []byte("1")}, {Key: "one", Value: []byte("again")}, {Key: "empty", Value: []byte{}}}
	if err := writer().WriteMessages(patience(), record{Value: []byte("v"), Headers: wanted}); err != nil {
		return err
	}
	found, err := read(1)
	if err != nil {
		return err
	}
	text := ""
	for _, header := range found[0].Headers {
		text += fmt.Sprintf("%s=%s ", header.Key, header.Value)
	}
	return same(text, "one=1 one=again empty= ")
}

func timed(n int, step int64) error {
	var messages []record
	for i := range int64(n) {
		messages = append(messages, record{Value: []byte(fmt.Sprint(i)), Time: time.UnixMilli(firstMs + i*step)})
	}
	return writer().WriteMessages(patience(), messages...)
}

func timestamps() error {
	if err := timed(5, 1); err != nil {
		return err
	}
	found, err := read(5)
	return first(err, haveTimes(found, func(message record) time.Time { return message.Time }))
}

func codecs() (string, error) {
	known := []kafka.Compression{kafka.Gzip, kafka.Snappy, kafka.Lz4}
	if release := os.Getenv("MATRIX_RELEASE"); !strings.HasPrefix(release, "0.") && !strings.HasPrefix(release, "1.") && release != "2.0" {
		known = append(known, kafka.Zstd)
	}
	return everyCodec(known, func(codec kafka.Compression) error {
		w := writer()
		w.Compression = codec
		return w.WriteMessages(patience(), of(values(0, count))...)
	})
}

func has(n int) func() bool {
	return func() bool {
		found, err := client.DescribeGroups(patience(), &kafka.DescribeGroupsRequest{GroupIDs: []string{topic}})
		if err != nil || len(found.Groups) != 1 || found.Groups[0].GroupState != "Stable" {
			return false
		}
		return len(found.Groups[0].Members) == n
	}
}

func group() error {
	one := reader(kafka.ReaderConfig{GroupID: topic})
	if err := until(has(1), "one member"); err != nil {
		return err
	}
	two := reader(kafka.ReaderConfig{GroupID: topic})
	if err := until(has(2), "two members"); err != nil {
		return err
	}
	if err := one.Close(); err != nil {
		return err
	}
	if err := until(has(1), "one member again"); err != nil {
		return err
	}
	for partition := range 4 {
		message := record{Value: []byte("x"), Topic: ""}
		w := writer()
		w.Balancer = kafka.BalancerFunc(func(record, ...int) int { return partition })
		if err := w.WriteMessages(patience(), message); err != nil {
			return err
		}
	}
	_, err := take(two, 4) // it reads all four partitions
	return err
}

func commit() error {
	if err := writer().WriteMessages(patience(), of(values(0, count))...); err != nil {
		return err
	}
	one := reader(kafka.ReaderConfig{GroupID: topic})
	got, err := take(one, 30)
	if err != nil {
		return err
	}
	if err := first(one.CommitMessages(patience(), got...), one.Close()); err != nil {
		return err
	}
	later, err := take(reader(kafka.ReaderConfig{GroupID: topic}), count-30)
	return are(values(30, count), later, err)
}

func seek() error {
	if err := timed(10, 1000); err != nil {
		return err
	}
	r := reader(kafka.ReaderConfig{})
	if err := r.SetOffsetAt(patience(), time.UnixMilli(firstMs+4500)); err != nil {
		return err
	}
	found, err := take(r, 5)
	if err := are(strings.Fields("5 6 7 8 9"), found, err); err != nil {
		return err
	}
	asked := map[string][]kafka.OffsetRequest{topic: {kafka.FirstOffsetOf(0), kafka.LastOffsetOf(0)}}
	offsets, err := client.ListOffsets(patience(), &kafka.ListOffsetsRequest{Topics: asked})
	if err != nil {
		return err
	}
	ends := offsets.Topics[topic][0]
	return same([]int64{ends.FirstOffset, ends.LastOffset}, []int64{0, 10})
}

func admin() error {
	name := topic + "-made"
	create := &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{Topic: name, NumPartitions: 1, ReplicationFactor: 1}}}
	created, err := client.CreateTopics(patience(), create)
	if err != nil {
		return err
	}
	grow := &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: name, Count: 3}}}
	_, err = client.CreatePartitions(patience(), grow)
	if err := first(created.Errors[name], err); err != nil {
		return err
	}
	if err := until(func() bool { n, err := partitions(name); return err == nil && n == 3 }, "three partitions"); err != nil {
		return err
	}
	change := []kafka.AlterConfigRequestConfig{{Name: "retention.ms", Value: "7654321"}}
	resource := kafka.AlterConfigRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: name, Configs: change}
	if _, err := client.AlterConfigs(patience(), &kafka.AlterConfigsRequest{Resources: []kafka.AlterConfigRequestResource{resource}}); err != nil {
		return err
	}
	changed := func() bool {
		asked := kafka.DescribeConfigRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: name, ConfigNames: []string{"retention.ms"}}
		found, err := client.DescribeConfigs(patience(), &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{asked}})
		return err == nil && len(found.Resources[0].ConfigEntries) == 1 && found.Resources[0].ConfigEntries[0].ConfigValue == "7654321"
	}
	if err := until(changed, "the changed config"); err != nil {
		return err
	}
	deleted, err := client.DeleteTopics(patience(), &kafka.DeleteTopicsRequest{Topics: []string{name}})
	return first(err, deleted.Errors[name])
}

func large() error {
	for _, value := range largeOnes() {
		if err := writer().WriteMessages(patience(), of([]string{value})...); err != nil {
			return err
		}
	}
	found, err := read(5)
	return are(largeOnes(), found, err)
}

func security() error {
	trust, err := trusting()
	mechanism, err2 := scram.Mechanism(scram.SHA512, user, password)
	if err := first(err, err2); err != nil {
		return err
	}
	w := writer()
	w.Transport = &kafka.Transport{TLS: trust, SASL: mechanism}
	if err := w.WriteMessages(patience(), of(values(0, count))...); err != nil {
		return err
	}
	found, err := take(reader(kafka.ReaderConfig{Dialer: &kafka.Dialer{TLS: trust, SASLMechanism: mechanism}}), count)
	return are(values(0, count), found, err)
}

func restart() error {
	w, r, found := writer(), reader(kafka.ReaderConfig{GroupID: topic}), map[string]bool{}
	readOn := func(n int) error {
		for ctx := patience(); len(found) < n; {
			message, err := r.FetchMessage(ctx)
			if ctx.Err() != nil {
				return errors.Join(err, fmt.Errorf("%d records of %d", len(found), n))
			}
			if err == nil {
				found[string(message.Value)] = true
			}
		}
		return nil
	}
	if err := first(w.WriteMessages(patience(), of(values(0, 50))...), readOn(50)); err != nil {
		return err
	}
	awaitRestart()
	return first(w.WriteMessages(patience(), of(values(50, count))...), readOn(count))
}
