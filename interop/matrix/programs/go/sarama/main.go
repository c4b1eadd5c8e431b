// Sarama. It is told the release of the broker, as it asks for no newer versions than that.
package main

import (
	"context"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
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

func read(n int, options ...option) (got []*sarama.ConsumerMessage, err error) {
	return readFrom(sarama.OffsetOldest, n, options...)
}

func readFrom(offset int64, n int, options ...option) (got []*sarama.ConsumerMessage, err error) {
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

func texts(messages []*sarama.ConsumerMessage) (found []string) {
	for _, message := range messages {
		found = append(found, string(message.Value))
	}
	return found
}

func thereAndBack(options ...option) error {
	if err := send(of(values(0, count)), options...); err != nil {
		return err
	}
	found, err := read(count)
	return first(err, same(texts(found), values(0, count)))
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
	for i, message := range found {
		err = first(err, same(message.Timestamp.UnixMilli(), firstMs+int64(i)))
	}
	return err
}

func codecs() (string, error) {
	var said, sent []string
	for _, codec := range []sarama.CompressionCodec{sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD} {
		if codec == sarama.CompressionZSTD && !version().IsAtLeast(sarama.V2_1_0_0) {
			continue
		}
		if err := send(of(values(0, count)), func(c *sarama.Config) { c.Producer.Compression = codec }); err != nil {
			return "", fmt.Errorf("%s: %w", codec, err)
		}
		sent = append(sent, values(0, count)...)
		found, err := read(len(sent))
		if err := first(err, same(texts(found), sent)); err != nil {
			return "", fmt.Errorf("%s: %w", codec, err)
		}
		said = append(said, codec.String())
	}
	return strings.Join(said, ", "), nil
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
	everything, err := read(8, func(c *sarama.Config) { c.Consumer.IsolationLevel = sarama.ReadUncommitted })
	committed, err2 := read(4, func(c *sarama.Config) { c.Consumer.IsolationLevel = sarama.ReadCommitted })
	return first(err, err2, same(texts(everything), strings.Fields("0 0 1 1 2 2 3 3")), same(texts(committed), strings.Fields("0 0 2 2")))
}

type member struct {
	partitions atomic.Int32
	lock       sync.Mutex
	got        []string
	commitAt   int
	leave      func()
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.partitions.Store(int32(len(session.Claims()[topic])))
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error { m.partitions.Store(0); return nil }

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		m.lock.Lock()
		m.got = append(m.got, string(message.Value))
		if len(m.got) == m.commitAt {
			session.MarkMessage(message, "")
			session.Commit()
		}
		m.lock.Unlock()
	}
	return nil
}

func (m *member) values() map[string]bool {
	m.lock.Lock()
	defer m.lock.Unlock()
	found := map[string]bool{}
	for _, value := range m.got {
		found[value] = true
	}
	return found
}

func join(commitAt int, options ...option) (*member, error) {
	quiet := func(c *sarama.Config) { c.Consumer.Return.Errors = false }
	group, err := sarama.NewConsumerGroup(brokers, topic, config(append(options, quiet)...))
	if err != nil {
		return nil, err
	}
	m := &member{commitAt: commitAt, leave: func() { group.Close() }}
	go func() {
		for !errors.Is(group.Consume(context.Background(), []string{topic}, m), sarama.ErrClosedConsumerGroup) {
		}
	}()
	return m, nil
}

func group() error {
	one, err := join(0)
	if err != nil {
		return err
	}
	if err := until(func() bool { return one.partitions.Load() == 4 }, "the first member has four partitions"); err != nil {
		return err
	}
	two, err := join(0)
	if err != nil {
		return err
	}
	if err := until(func() bool { return one.partitions.Load() == 2 && two.partitions.Load() == 2 }, "two partitions each"); err != nil {
		return err
	}
	one.leave()
	return until(func() bool { return two.partitions.Load() == 4 }, "the second member has four partitions")
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
	return first(err, same(texts(found), strings.Fields("5 6 7 8 9")))
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
	return first(err, same(texts(found), largeOnes()))
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
	pem, err := os.ReadFile(os.Getenv("MATRIX_CA"))
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(pem) {
		return fmt.Errorf("no authority: %w", err)
	}
	secure := func(c *sarama.Config) {
		c.Net.TLS.Enable, c.Net.TLS.Config = true, &tls.Config{RootCAs: pool}
		c.Net.SASL.Enable, c.Net.SASL.Mechanism = true, sarama.SASLTypeSCRAMSHA512
		c.Net.SASL.User, c.Net.SASL.Password = os.Getenv("MATRIX_USER"), os.Getenv("MATRIX_PASSWORD")
		c.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &login{} }
	}
	if err := send(of(values(0, count)), secure); err != nil {
		return err
	}
	found, err := read(count, secure)
	return first(err, same(texts(found), values(0, count)))
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
