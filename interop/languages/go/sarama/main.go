// Sarama, at the release that the second argument names: what it asks for is as old as that.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	. "languages/check"

	"github.com/IBM/sarama"
)

var (
	brokers = []string{Bootstrap}
	version = sarama.MaxVersion
	adm     sarama.ClusterAdmin
)

func config(changes ...func(*sarama.Config)) *sarama.Config {
	c := sarama.NewConfig()
	c.Version = version
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Return.Successes = true
	c.Consumer.Return.Errors = true
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	for _, change := range changes {
		change(c)
	}
	return c
}

func patient(c *sarama.Config) {
	c.Producer.Retry.Max = 300
	c.Metadata.Retry.Max = 300
}

func idempotent(c *sarama.Config) {
	c.Producer.Idempotent = true
	c.Net.MaxOpenRequests = 1
}

func create(name string, partitions int32, configs map[string]*string) string {
	detail := &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1, ConfigEntries: configs}
	if err := adm.CreateTopic(Topic(name), detail, false); err != nil {
		panic(err)
	}
	return Topic(name)
}

func produce(topic string, values []string, changes ...func(*sarama.Config)) error {
	p := Must(sarama.NewSyncProducer(brokers, config(changes...)))
	defer p.Close()
	var messages []*sarama.ProducerMessage
	for _, value := range values {
		message := &sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder("k"), Value: sarama.StringEncoder(value)}
		if version.IsAtLeast(sarama.V0_11_0_0) {
			message.Headers = []sarama.RecordHeader{{Key: []byte("h"), Value: []byte("1")}}
		}
		messages = append(messages, message)
	}
	return p.SendMessages(messages)
}

// read takes what partition 0 holds up to its end.
func read(topic string, changes ...func(*sarama.Config)) (got []*sarama.ConsumerMessage, err error) {
	c := Must(sarama.NewConsumer(brokers, config(changes...)))
	defer c.Close()
	partition, err := c.ConsumePartition(topic, 0, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	defer partition.AsyncClose()
	for patience := 20 * time.Second; ; patience = 2 * time.Second {
		select {
		case message := <-partition.Messages():
			got = append(got, message)
		case err := <-partition.Errors():
			return got, err
		case <-time.After(patience):
			return got, nil
		}
		if got[len(got)-1].Offset+1 == partition.HighWaterMarkOffset() {
			return got, nil
		}
	}
}

func main() {
	if len(os.Args) > 2 && os.Args[2] != "restart" {
		version = Must(sarama.ParseKafkaVersion(os.Args[2]))
	}
	adm = Must(sarama.NewClusterAdmin(brokers, config(patient)))
	if len(os.Args) > 2 && os.Args[2] == "restart" {
		Do("restart", restart)
		return
	}
	codecs := []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4}
	if version.IsAtLeast(sarama.V2_1_0_0) {
		codecs = append(codecs, sarama.CompressionZSTD)
	}
	for _, codec := range codecs {
		Do(codec.String(), func() (string, error) { return compressed(create(codec.String(), 1, nil), codec) })
	}
	if version.IsAtLeast(sarama.V0_11_0_0) {
		Do("transactions", transactions)
		Do("admin", admin)
	}
	Do("group", group)
	Do("offsets", offsets)
	Do("refused", refused)
}

func compressed(topic string, codec sarama.CompressionCodec) (string, error) {
	var values []string
	for i := range 500 {
		values = append(values, strings.Repeat("v", i))
	}
	if err := produce(topic, values, func(c *sarama.Config) { c.Producer.Compression = codec }); err != nil {
		return "", err
	}
	got, err := read(topic)
	size := 0
	for _, message := range got {
		size += len(message.Value)
	}
	return fmt.Sprint(len(got), " ", size), err
}

func transactions() (said string, err error) {
	topic := create("transactions", 1, nil)
	p := Must(sarama.NewSyncProducer(brokers, config(idempotent, func(c *sarama.Config) { c.Producer.Transaction.ID = topic })))
	defer p.Close()
	for i := range 4 {
		if err := p.BeginTxn(); err != nil {
			return "", err
		}
		for range 2 {
			if _, _, err := p.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(fmt.Sprint(i))}); err != nil {
				return "", err
			}
		}
		consumed := map[string][]*sarama.PartitionOffsetMetadata{topic: {{Partition: 0, Offset: int64(i * 10)}}}
		if err := p.AddOffsetsToTxn(consumed, topic); err != nil {
			return "", err
		}
		end := p.CommitTxn
		if i%2 == 1 {
			end = p.AbortTxn
		}
		if err := end(); err != nil {
			return "", err
		}
	}
	for _, level := range []sarama.IsolationLevel{sarama.ReadCommitted, sarama.ReadUncommitted} {
		got, err := read(topic, func(c *sarama.Config) { c.Consumer.IsolationLevel = level })
		if err != nil {
			return "", err
		}
		for _, message := range got {
			said += fmt.Sprintf("%s@%d ", message.Value, message.Offset)
		}
		said += "| "
	}
	committed, err := adm.ListConsumerGroupOffsets(topic, map[string][]int32{topic: {0}})
	return said + fmt.Sprint(committed.GetBlock(topic, 0).Offset), err
}

// member counts the partitions that it has, and marks what it reads.
type member struct {
	lock       sync.Mutex
	partitions int
	read       int
}

func (m *member) set(partitions int, read int) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.partitions, m.read = partitions, m.read+read
}

func (m *member) has() (partitions, read int) {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.partitions, m.read
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	for _, partitions := range session.Claims() {
		m.set(len(partitions), 0)
	}
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error { m.set(0, 0); return nil }

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		partitions, _ := m.has()
		m.set(partitions, 1)
	}
	return nil
}

func join(topic string, changes ...func(*sarama.Config)) (*member, func()) {
	quick := func(c *sarama.Config) { c.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond }
	silent := func(c *sarama.Config) { c.Consumer.Return.Errors = false }
	group := Must(sarama.NewConsumerGroup(brokers, topic, config(append(changes, quick, silent)...)))
	m := &member{}
	go func() {
		for !errors.Is(group.Consume(context.Background(), []string{topic}, m), sarama.ErrClosedConsumerGroup) {
		}
	}()
	return m, func() { group.Close() }
}

func group() (string, error) {
	topic := create("group", 4, nil)
	if err := produce(topic, strings.Split(strings.Repeat("x,", 19), ",")); err != nil {
		return "", err
	}
	first, leave := join(topic)
	if err := Until(func() bool { n, read := first.has(); return n == 4 && read == 20 }); err != nil {
		return "", err
	}
	second, end := join(topic)
	if err := Until(func() bool { a, _ := first.has(); b, _ := second.has(); return a == 2 && b == 2 }); err != nil {
		return "", err
	}
	described := Must(adm.DescribeConsumerGroups([]string{topic}))[0]
	leave()
	if err := Until(func() bool { n, _ := second.has(); return n == 4 }); err != nil {
		return "", err
	}
	end()
	committed, err := adm.ListConsumerGroupOffsets(topic, map[string][]int32{topic: {0, 1, 2, 3}})
	sum := int64(0)
	for _, block := range committed.Blocks[topic] {
		sum += max(block.Offset, 0)
	}
	return fmt.Sprint(described.State, " ", described.Protocol, " ", len(described.Members), " ", sum), err
}

func offsets() (said string, err error) {
	topic := create("offsets", 1, nil)
	p := Must(sarama.NewSyncProducer(brokers, config()))
	defer p.Close()
	for i := range 10 {
		at := time.UnixMilli(1_700_000_000_000 + int64(i)*1000)
		if _, _, err := p.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("x"), Timestamp: at}); err != nil {
			return "", err
		}
	}
	c := Must(sarama.NewClient(brokers, config()))
	defer c.Close()
	for _, at := range []int64{1_700_000_004_500, 1_800_000_000_000, sarama.OffsetNewest, sarama.OffsetOldest} {
		offset, err := c.GetOffset(topic, 0, at)
		if err != nil {
			return "", err
		}
		said += fmt.Sprint(offset, " ")
	}
	_, beyond := Must(sarama.NewConsumerFromClient(c)).ConsumePartition(topic, 0, 99)
	return said + fmt.Sprint(errors.Is(beyond, sarama.ErrOffsetOutOfRange)), nil
}

func admin() (string, error) {
	retention, size, nonsense := "1234567", "7654321", "abc"
	topic := create("admin", 1, map[string]*string{"retention.ms": &retention, "retention.bytes": &size})
	bad := adm.AlterConfig(sarama.TopicResource, topic, map[string]*string{"retention.ms": &nonsense}, false)
	described, err := adm.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic})
	if err != nil {
		return "", err
	}
	values := map[string]string{}
	for _, entry := range described {
		values[entry.Name] = entry.Value
	}
	if err := produce(topic, strings.Split("a,b,c", ",")); err != nil {
		return "", err
	}
	if err := adm.DeleteRecords(topic, map[int32]int64{0: 2}); err != nil {
		return "", err
	}
	left, err := read(topic)
	if err != nil {
		return "", err
	}
	exists := adm.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false)
	if err := adm.DeleteTopic(topic); err != nil {
		return "", err
	}
	missing := adm.DeleteTopic(Topic("never"))
	return fmt.Sprint(values["retention.ms"], " ", values["retention.bytes"], " ", bad != nil, " ", len(left), " ", errors.Is(exists, sarama.ErrTopicAlreadyExists), " ",
		errors.Is(missing, sarama.ErrUnknownTopicOrPartition)), nil
}

func refused() (string, error) {
	limit := "2000"
	topic := create("small", 1, map[string]*string{"max.message.bytes": &limit})
	p := Must(sarama.NewSyncProducer(brokers, config()))
	defer p.Close()
	_, _, large := p.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.ByteEncoder(make([]byte, 5000))})
	_, _, invalid := p.SendMessage(&sarama.ProducerMessage{Topic: "no?", Value: sarama.StringEncoder("x")})
	return fmt.Sprint(errors.Is(large, sarama.ErrMessageSizeTooLarge), " ", errors.Is(invalid, sarama.ErrInvalidTopic)), nil
}

func restart() (string, error) {
	topic := create("restart", 1, nil)
	p := Must(sarama.NewSyncProducer(brokers, config(idempotent, patient)))
	defer p.Close()
	consumer, end := join(topic, patient)
	defer end()
	var over <-chan struct{}
	for i := range 200 {
		if i == 100 {
			over = AskForRestart()
		}
		if _, _, err := p.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(fmt.Sprint(i))}); err != nil {
			return "", err
		}
	}
	<-over
	if err := Until(func() bool { _, read := consumer.has(); return read >= 200 }); err != nil {
		return "", err
	}
	got, err := read(topic)
	return fmt.Sprint(len(got)), err
}
