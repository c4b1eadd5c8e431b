// confluent-kafka-go, which brings a librdkafka built for this machine.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

var scenarios = map[string]func() (string, error){
	"connect": quietly(connect), "produce": quietly(func() error { return thereAndBack(nil) }), "records": quietly(records),
	"headers": quietly(headers), "timestamps": quietly(timestamps), "codecs": codecs,
	"idempotent":   quietly(func() error { return thereAndBack(with{"enable.idempotence": true}) }),
	"transactions": quietly(transactions),
	"group":        quietly(func() error { return group(with{"heartbeat.interval.ms": 300, "session.timeout.ms": 10_000}) }),
	"next_group":   quietly(func() error { return group(with{"group.protocol": "consumer"}) }),
	"commit":       quietly(commit), "seek": quietly(seek), "admin": quietly(admin), "large": quietly(large),
	"security": quietly(func() error { return thereAndBack(nil) }), "restart": quietly(restart),
}

type record = *kafka.Message

type with = kafka.ConfigMap

func config(more with) *with {
	made := with{"bootstrap.servers": bootstrap}
	if scenario == "security" {
		for name, value := range (with{
			"security.protocol": "SASL_SSL", "sasl.mechanisms": "SCRAM-SHA-512", "ssl.ca.location": os.Getenv("MATRIX_CA"),
			"sasl.username": user, "sasl.password": password,
		}) {
			made[name] = value
		}
	}
	for name, value := range more {
		made[name] = value
	}
	return &made
}

func lacking(err error) error {
	if err != nil && (strings.Contains(err.Error(), "No such configuration property") || strings.Contains(err.Error(), "Invalid value")) {
		return notSupported(err.Error())
	}
	return err
}

func producer(more with) (*kafka.Producer, error) {
	made, err := kafka.NewProducer(config(more))
	return made, lacking(err)
}

// deliver returns when all are written.
func deliver(p *kafka.Producer, messages []record) error {
	reports, late := make(chan kafka.Event, len(messages)), patience().Done()
	for _, message := range messages {
		message.TopicPartition = kafka.TopicPartition{Topic: &topic, Partition: 0}
		if err := p.Produce(message, reports); err != nil {
			return err
		}
	}
	for range messages {
		select {
		case report := <-reports:
			if err := report.(*kafka.Message).TopicPartition.Error; err != nil {
				return err
			}
		case <-late:
			return errors.New("not delivered")
		}
	}
	return nil
}

func of(values []string) (made []record) {
	for _, value := range values {
		made = append(made, &kafka.Message{Key: []byte("k"), Value: []byte(value)})
	}
	return made
}

func send(messages []record, more with) error {
	p, err := producer(more)
	if err != nil {
		return err
	}
	defer p.Close()
	return deliver(p, messages)
}

func consumer(name string, more with) (*kafka.Consumer, error) {
	settings := config(more)
	for name, value := range (with{"group.id": name, "auto.offset.reset": "earliest", "enable.auto.commit": false}) {
		(*settings)[name] = value
	}
	made, err := kafka.NewConsumer(settings)
	return made, lacking(err)
}

func take(c *kafka.Consumer, n int) (got []record, err error) {
	for ctx := patience(); len(got) < n; {
		if message, err := c.ReadMessage(100 * time.Millisecond); err == nil {
			got = append(got, message)
		}
		if ctx.Err() != nil {
			return got, fmt.Errorf("%d records of %d", len(got), n)
		}
	}
	return got, nil
}

func from(offset kafka.Offset, n int, more with) ([]record, error) {
	c, err := consumer(topic+"-reader", more)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.Assign([]kafka.TopicPartition{{Topic: &topic, Partition: 0, Offset: offset}}); err != nil {
		return nil, err
	}
	return take(c, n)
}

func read(n int) ([]record, error) { return from(0, n, nil) }

func thereAndBack(more with) error {
	if err := send(of(values(0, count)), more); err != nil {
		return err
	}
	found, err := read(count)
	return are(values(0, count), found, err)
}

func connect() error {
	p, err := producer(nil)
	if err != nil {
		return err
	}
	found, err := p.GetMetadata(&topic, false, 20_000)
	if err != nil {
		return err
	}
	return same(len(found.Topics[topic].Partitions), 4)
}

func records() error {
	sent := []record{
		{Key: []byte("key"), Value: []byte("value")}, {Value: []byte("no key")}, {Key: []byte("gone")},
		{Key: []byte("empty"), Value: []byte{}}, {Key: []byte{0, 255}, Value: make([]byte, 100)},
	}
	if err := send(sent, nil); err != nil {
		return err
	}
	found, err := read(len(sent))
	for i, message := range found {
		err = first(err, same([]any{message.Key, message.Value}, []any{sent[i].Key, sent[i].Value}))
	}
	return err
}

func headers() error {
	wanted := []kafka.Header{{Key: "one", Value: []byte("1")}, {Key: "one", Value: []byte("again")}, {Key: "empty", Value: []byte{}}}
	if err := send([]record{{Value: []byte("v"), Headers: wanted}}, nil); err != nil {
		return err
	}
	found, err := read(1)
	if err != nil {
		return err
	}
	return same(found[0].Headers, wanted)
}

func timed(n int, step int64) error {
	var sent []record
	for i := range int64(n) {
		sent = append(sent, &kafka.Message{Value: []byte(fmt.Sprint(i)), Timestamp: time.UnixMilli(firstMs + i*step)})
	}
	return send(sent, nil)
}

func timestamps() error {
	if err := timed(5, 1); err != nil {
		return err
	}
	found, err := read(5)
	return first(err, haveTimes(found, func(message record) time.Time { return message.Timestamp }))
}

func codecs() (string, error) {
	return everyCodec([]string{"gzip", "snappy", "lz4", "zstd"}, func(codec string) error {
		return send(of(values(0, count)), with{"compression.codec": codec, "linger.ms": 20})
	})
}

func transactions() error {
	p, err := producer(with{"transactional.id": topic})
	if err != nil {
		return err
	}
	ctx := patience()
	err = p.InitTransactions(ctx)
	for i := range 4 {
		value := fmt.Sprint(i)
		if err = first(err, p.BeginTransaction(), deliver(p, of([]string{value, value}))); err != nil {
			return err
		}
		if i%2 == 0 {
			err = p.CommitTransaction(ctx)
		} else {
			err = p.AbortTransaction(ctx)
		}
	}
	p.Close()
	everything, err1 := from(0, 8, with{"isolation.level": "read_uncommitted"})
	committed, err2 := from(0, 4, with{"isolation.level": "read_committed"})
	return first(err, err1, err2, same(texts(everything), strings.Fields("0 0 1 1 2 2 3 3")), same(texts(committed), strings.Fields("0 0 2 2")))
}

func join(more with) (*member, error) {
	c, err := consumer(topic, more)
	if err != nil {
		return nil, err
	}
	leaving, ended := make(chan bool), make(chan bool)
	m := &member{leave: func() { close(leaving); <-ended }}
	go func() {
		defer close(ended)
		for {
			select {
			case <-leaving:
				c.Close()
				return
			default:
				c.Poll(50)
				assigned, _ := c.Assignment()
				m.partitions.Store(int32(len(assigned)))
			}
		}
	}()
	return m, c.Subscribe(topic, nil)
}

func group(more with) error {
	return twoMembers(func() (*member, error) { return join(more) })
}

func commit() error {
	if err := send(of(values(0, count)), nil); err != nil {
		return err
	}
	one, err := consumer(topic, nil)
	if err := first(err, one.Subscribe(topic, nil)); err != nil {
		return err
	}
	got, err := take(one, 30)
	if err != nil {
		return err
	}
	_, err = one.CommitMessage(got[29])
	one.Close()
	two, err2 := consumer(topic, nil)
	if err := first(err, err2, two.Subscribe(topic, nil)); err != nil {
		return err
	}
	defer two.Close()
	later, err := take(two, count-30)
	return are(values(30, count), later, err)
}

func seek() error {
	if err := timed(10, 1000); err != nil {
		return err
	}
	c, err := consumer(topic, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	found, err := c.OffsetsForTimes([]kafka.TopicPartition{{Topic: &topic, Partition: 0, Offset: kafka.Offset(firstMs + 4500)}}, 20_000)
	if err := first(err, same(len(found), 1), same(found[0].Offset, kafka.Offset(5))); err != nil {
		return err
	}
	low, high, err := c.QueryWatermarkOffsets(topic, 0, 20_000)
	got, err2 := from(5, 5, nil)
	return first(err, err2, same([]int64{low, high}, []int64{0, 10}), same(texts(got), strings.Fields("5 6 7 8 9")))
}

func admin() error {
	ctx := patience()
	caller, err := kafka.NewAdminClient(config(nil))
	if err != nil {
		return err
	}
	name := topic + "-made"
	created, err := caller.CreateTopics(ctx, []kafka.TopicSpecification{{Topic: name, NumPartitions: 1, ReplicationFactor: 1}})
	if err := first(err, same(created[0].Error.Code(), kafka.ErrNoError)); err != nil {
		return err
	}
	if _, err := caller.CreatePartitions(ctx, []kafka.PartitionsSpecification{{Topic: name, IncreaseTo: 3}}); err != nil {
		return err
	}
	three := func() bool {
		found, err := caller.GetMetadata(&name, false, 20_000)
		return err == nil && len(found.Topics[name].Partitions) == 3
	}
	if err := until(three, "three partitions"); err != nil {
		return err
	}
	place := kafka.ConfigResource{Type: kafka.ResourceTopic, Name: name}
	changed := place
	changed.Config = []kafka.ConfigEntry{{Name: "retention.ms", Value: "7654321"}}
	if _, err := caller.AlterConfigs(ctx, []kafka.ConfigResource{changed}); err != nil {
		return err
	}
	found, err := caller.DescribeConfigs(ctx, []kafka.ConfigResource{place})
	if err := first(err, same(found[0].Config["retention.ms"].Value, "7654321")); err != nil {
		return err
	}
	removed, err := caller.DeleteTopics(ctx, []string{name})
	return first(err, same(removed[0].Error.Code(), kafka.ErrNoError))
}

func large() error {
	if err := send(of(largeOnes()), nil); err != nil {
		return err
	}
	found, err := read(5)
	return are(largeOnes(), found, err)
}

func restart() error {
	p, err := producer(nil)
	c, err2 := consumer(topic, with{"session.timeout.ms": 10_000})
	if err := first(err, err2, c.Subscribe(topic, nil), deliver(p, of(values(0, 50)))); err != nil {
		return err
	}
	got, err := take(c, 50)
	if err != nil {
		return err
	}
	awaitRestart()
	if err := deliver(p, of(values(50, count))); err != nil {
		return err
	}
	found := map[string]bool{}
	for _, text := range texts(got) {
		found[text] = true
	}
	return until(func() bool {
		if message, err := c.ReadMessage(200 * time.Millisecond); err == nil {
			found[string(message.Value)] = true
		}
		return len(found) == count
	}, "all records")
}
