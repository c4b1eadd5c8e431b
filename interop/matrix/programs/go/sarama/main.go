// Sarama. It is told the release of the broker, as it asks for no newer versions than that.
package main

import (
	"context"
	"crypto/sha512"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

var scenarios = map[string]func() (string, error){
	"connect": quietly(connect), "produce": quietly(func() error { return thereAndBack() }), "records": quietly(records),
	"headers": quietly(headers), "timestamps": quietly(timestamps), "codecs": codecs, "idempotent": quietly(idempotent),
	"transactions": quietly(transactions), "group": quietly(group), "commit": quietly(commit), "seek": quietly(seek),
	"admin": quietly(admin), "large": quietly(large), "security": quietly(security), "restart": quietly(restart),
}

var brokers = []string{bootstrap}

type record = *sarama.ConsumerMessage

type option = func(*sarama.Config)

func version() sarama.KafkaVersion {
	parsed, err := sarama.ParseKafkaVersion(os.Getenv("MATRIX_RELEASE") + ".0")
	if err != nil || parsed.IsAtLeast(sarama.MaxVersion) {
		return sarama.MaxVersion
	}
	return parsed
}

func config(options ...option) *sarama.Config {
	c := sarama.NewConfig()
	c.Version = version()
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Return.Successes = true
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Consumer.Return.Errors = true
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Enable = false
	c.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
	for _, change := range options {
		change(c)
	}
	return c
}

func exactlyOnce(c *sarama.Config) {
	c.Producer.Idempotent = true
	c.Net.MaxOpenRequests = 1
}

func producer(options ...option) (sarama.SyncProducer, error) {
	return sarama.NewSyncProducer(brokers, config(options...))
}

func of(values []string) (messages []*sarama.ProducerMessage) {
	for _, value := range values {
		messages = append(messages, &sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder("k"), Value: sarama.StringEncoder(value)})
	}
	return messages
}

func send(messages []*sarama.ProducerMessage, options ...option) error {
	p, err := producer(options...)
	if err != nil {
		return err
	}
	defer p.Close()
	return p.SendMessages(messages)
}

func read(n int) ([]record, error) { return readFrom(sarama.OffsetOldest, n) }

func readFrom(offset int64, n int, options ...option) (got []record, err error) {
	c, err := sarama.NewConsumer(brokers, config(options...))
	if err != nil {
		return nil, err
	}
	partition, err := c.ConsumePartition(topic, 0, offset)
	for err == nil && len(got) < n {
		select {
		case message := <-partition.Messages():
			got = append(got, message)
		case failed := <-partition.Errors():
			err = failed
		case <-time.After(20 * time.Second):
			err = fmt.Errorf("%d records of %d", len(got), n)
		}
	}
	return got, err
}

func thereAndBack(options ...option) error {
	if err := send(of(values(0, count)), options...); err != nil {
		return err
	}
	found, err := read(count)
	return are(values(0, count), found, err)
}

func connect() error {
	c, err := sarama.NewClient(brokers, config())
	if err != nil {
		return err
	}
	found, err := c.Partitions(topic)
	return first(err, same(len(found), 4))
}

func records() error {
	keys := []sarama.Encoder{sarama.StringEncoder("key"), nil, sarama.StringEncoder("gone"), sarama.StringEncoder("empty"), sarama.ByteEncoder{0, 255}}
	contents := []sarama.Encoder{sarama.StringEncoder("value"), sarama.StringEncoder("no key"), nil, sarama.ByteEncoder{}, sarama.ByteEncoder(make([]byte, 100))}
	var messages []*sarama.ProducerMessage
	for i := range keys {
		messages = append(messages, &sarama.ProducerMessage{Topic: topic, Key: keys[i], Value: contents[i]})
	}
	if err := send(messages); err != nil {
		return err
	}
	found, err := read(len(keys))
	for i, message := range found {
		for _, pair := range []struct {
			got    []byte
			wanted sarama.Encoder
		}{{message.Key, keys[i]}, {message.Value, contents[i]}} {
			var wanted []byte
			if pair.wanted != nil {
				wanted, _ = pair.wanted.Encode()
			}
			err = first(err, same(string(pair.got), string(wanted)), same(pair.got == nil, pair.wanted == nil))
		}
	}
	return err
}

func headers() error {
	wanted := []sarama.RecordHeader{{Key: []byte("one"), Value: []byte("1")}, {Key: []byte("one"), Value: []byte("again")}, {Key: []byte("empty"), Value: []byte{}}}
	if err := send([]*sarama.ProducerMessage{{Topic: topic, Value: sarama.StringEncoder("v"), Headers: wanted}}); err != nil {
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
	var messages []*sarama.ProducerMessage
	for i := range int64(n) {
		at := time.UnixMilli(firstMs + i*step)
		messages = append(messages, &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(fmt.Sprint(i)), Timestamp: at})
	}
	for _, message := range messages {
		if err := send([]*sarama.ProducerMessage{message}); err != nil {
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
	return first(err, haveTimes(found, func(message record) time.Time { return message.Timestamp }))
}

func codecs() (string, error) {
	known := []sarama.CompressionCodec{sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4}
	if version().IsAtLeast(sarama.V2_1_0_0) {
		known = append(known, sarama.CompressionZSTD)
	}
	return everyCodec(known, func(codec sarama.CompressionCodec) error {
		return send(of(values(0, count)), func(c *sarama.Config) { c.Producer.Compression = codec })
	})
}

func idempotent() error { return thereAndBack(exactlyOnce) }

func transactions() error {
	p, err := producer(exactlyOnce, func(c *sarama.Config) { c.Producer.Transaction.ID = topic })
	if err != nil {
		return err
	}
	for i := range 4 {
		value := fmt.Sprint(i)
		end := p.CommitTxn
		if i%2 == 1 {
			end = p.AbortTxn
		}
		if err := first(p.BeginTxn(), p.SendMessages(of([]string{value, value})), end()); err != nil {
			return err
		}
	}
	everything, err := readFrom(sarama.OffsetOldest, 8, func(c *sarama.Config) { c.Consumer.IsolationLevel = sarama.ReadUncommitted })
	committed, err2 := readFrom(sarama.OffsetOldest, 4, func(c *sarama.Config) { c.Consumer.IsolationLevel = sarama.ReadCommitted })
	return first(err, err2, same(texts(everything), strings.Fields("0 0 1 1 2 2 3 3")), same(texts(committed), strings.Fields("0 0 2 2")))
}

// handler is what Sarama hands a member's partitions and records.
type handler struct {
	member
	lock     sync.Mutex
	got      []string
	commitAt int
}

func (h *handler) Setup(session sarama.ConsumerGroupSession) error {
	h.partitions.Store(int32(len(session.Claims()[topic])))
	return nil
}

func (h *handler) Cleanup(sarama.ConsumerGroupSession) error { h.partitions.Store(0); return nil }

func (h *handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		h.lock.Lock()
		h.got = append(h.got, string(message.Value))
		if len(h.got) == h.commitAt {
			session.MarkMessage(message, "")
			session.Commit()
		}
		h.lock.Unlock()
	}
	return nil
}

func (h *handler) values() map[string]bool {
	h.lock.Lock()
	defer h.lock.Unlock()
	found := map[string]bool{}
	for _, value := range h.got {
		found[value] = true
	}
	return found
}

func join(commitAt int, options ...option) (*handler, error) {
	quiet := func(c *sarama.Config) { c.Consumer.Return.Errors = false }
	group, err := sarama.NewConsumerGroup(brokers, topic, config(append(options, quiet)...))
	if err != nil {
		return nil, err
	}
	h := &handler{commitAt: commitAt}
	h.leave = func() { group.Close() }
	go func() {
		for !errors.Is(group.Consume(context.Background(), []string{topic}, h), sarama.ErrClosedConsumerGroup) {
		}
	}()
	return h, nil
}

func group() error {
	return twoMembers(func() (*member, error) {
		h, err := join(0)
		if err != nil {
			return nil, err
		}
		return &h.member, nil
	})
}

func commit() error {
	if err := send(of(values(0, count))); err != nil {
		return err
	}
	one, err := join(30)
	if err != nil {
		return err
	}
	if err := until(func() bool { return len(one.values()) == count }, "all records"); err != nil {
		return err
	}
	one.leave()
	two, err := join(0)
	if err != nil {
		return err
	}
	if err := until(func() bool { return len(two.values()) >= count-30 }, "the rest"); err != nil {
		return err
	}
	two.lock.Lock()
	defer two.lock.Unlock()
	return same(two.got, values(30, count))
}

func seek() error {
	if err := timed(10, 1000); err != nil {
		return err
	}
	c, err := sarama.NewClient(brokers, config())
	if err != nil {
		return err
	}
	for at, wanted := range map[int64]int64{firstMs + 4500: 5, sarama.OffsetOldest: 0, sarama.OffsetNewest: 10} {
		found, err := c.GetOffset(topic, 0, at)
		if err := first(err, same(found, wanted)); err != nil {
			return err
		}
	}
	found, err := readFrom(5, 5)
	return are(strings.Fields("5 6 7 8 9"), found, err)
}

func admin() error {
	adm, err := sarama.NewClusterAdmin(brokers, config())
	if err != nil {
		return err
	}
	name, value := topic+"-made", "7654321"
	if err := adm.CreateTopic(name, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false); err != nil {
		return err
	}
	if err := adm.CreatePartitions(name, 3, nil, false); err != nil {
		return err
	}
	grown := func() bool {
		found, err := adm.DescribeTopics([]string{name})
		return err == nil && len(found[0].Partitions) == 3
	}
	if err := until(grown, "three partitions"); err != nil {
		return err
	}
	if err := adm.AlterConfig(sarama.TopicResource, name, map[string]*string{"retention.ms": &value}, false); err != nil {
		return err
	}
	changed := func() bool {
		found, err := adm.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: name, ConfigNames: []string{"retention.ms"}})
		return err == nil && len(found) == 1 && found[0].Value == value
	}
	if err := until(changed, "the changed config"); err != nil {
		return err
	}
	return adm.DeleteTopic(name)
}

func large() error {
	for _, value := range largeOnes() {
		if err := send(of([]string{value})); err != nil {
			return err
		}
	}
	found, err := read(5)
	return are(largeOnes(), found, err)
}

// login is what Sarama asks its users to bring for SCRAM.
type login struct {
	*scram.ClientConversation
}

func (l *login) Begin(user, password, authority string) error {
	client, err := scram.HashGeneratorFcn(sha512.New).NewClient(user, password, authority)
	if err == nil {
		l.ClientConversation = client.NewConversation()
	}
	return err
}

func security() error {
	trust, err := trusting()
	if err != nil {
		return err
	}
	secure := func(c *sarama.Config) {
		c.Net.TLS.Enable, c.Net.TLS.Config = true, trust
		c.Net.SASL.Enable, c.Net.SASL.Mechanism = true, sarama.SASLTypeSCRAMSHA512
		c.Net.SASL.User, c.Net.SASL.Password = user, password
		c.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &login{} }
	}
	if err := send(of(values(0, count)), secure); err != nil {
		return err
	}
	found, err := readFrom(sarama.OffsetOldest, count, secure)
	return are(values(0, count), found, err)
}

func restart() error {
	patient := func(c *sarama.Config) { c.Producer.Retry.Max, c.Metadata.Retry.Max = 300, 300 }
	p, err := producer(patient)
	reader, err2 := join(0, patient)
	if err := first(err, err2, p.SendMessages(of(values(0, 50)))); err != nil {
		return err
	}
	if err := until(func() bool { return len(reader.values()) == 50 }, "half of the records"); err != nil {
		return err
	}
	awaitRestart()
	if err := p.SendMessages(of(values(50, count))); err != nil {
		return err
	}
	return until(func() bool { return len(reader.values()) == count }, "all records")
}
