package kafkabroker_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pykafka-broker.example/kafkabroker"
)

var shared *kafkabroker.Server

func TestMain(m *testing.M) {
	var err error
	shared, err = kafkabroker.Launch(context.Background(), kafkabroker.Options{
		Topics: map[string]int{"orders": 2},
		Config: map[string]string{"message.max.bytes": "100000"},
	})
	if err != nil {
		panic(err)
	}
	code := m.Run()
	if err := shared.Close(); err != nil {
		panic(err)
	}
	os.Exit(code)
}

func TestABrokerHasItsTopicsAlsoAfterAReset(t *testing.T) {
	broker := shared.For(t)
	broker.Produce("orders", kafkabroker.Values("apples"))
	broker.CreateTopic("payments", kafkabroker.CreateTopicOptions{Partitions: 3})
	broker.Reset()
	topics := broker.Topics()
	if len(topics) != 1 || topics[0].Name != "orders" || topics[0].Partitions != 2 {
		t.Fatalf("found %v", topics)
	}
	if records := broker.Records("orders"); len(records) != 0 {
		t.Fatalf("found %v", records)
	}
}

func TestRecordsOfAllForms(t *testing.T) {
	broker, binary := shared.For(t), []byte{0xff, 0}
	written := broker.Produce("orders", []kafkabroker.NewRecord{
		{
			Key:       "17",
			Value:     map[string]any{"fruit": "apples"},
			Headers:   []kafkabroker.Header{{Name: "unit", Value: []byte("kg")}, {Name: "raw", Value: binary}},
			Timestamp: time.UnixMilli(1000),
			Partition: kafkabroker.To[int32](1),
		},
		{Key: binary, Partition: kafkabroker.To[int32](1)},
	})
	if len(written) != 2 || written[1] != (kafkabroker.Written{Partition: 1, Offset: 1}) {
		t.Fatalf("written %v", written)
	}
	records := broker.WaitForRecords("orders", 2, kafkabroker.WaitForRecordsOptions{Timeout: time.Minute})
	first, second := records[0], records[1]
	if string(first.Key) != "17" || string(first.Value) != `{"fruit":"apples"}` || first.Timestamp.UnixMilli() != 1000 {
		t.Errorf("found %v", first)
	}
	if len(first.Headers) != 2 || !bytes.Equal(first.Headers[1].Value, binary) || string(first.Headers[0].Value) != "kg" {
		t.Errorf("found %v", first.Headers)
	}
	if !bytes.Equal(second.Key, binary) || second.Value != nil || second.Partition != 1 {
		t.Errorf("found %v", second)
	}
	broker.AssertRecords("orders", []kafkabroker.NewRecord{
		{Key: "17", Value: map[string]any{"fruit": "apples"}},
		{Key: binary, Value: kafkabroker.Null},
	})
	if none := broker.Records("orders", kafkabroker.RecordsPageOptions{Partition: kafkabroker.To[int32](0)}); none != nil {
		t.Errorf("found %v", none)
	}
}

func TestMoreRecordsThanAPageHas(t *testing.T) {
	broker := shared.For(t)
	batch := make([]kafkabroker.NewRecord, 2000)
	for begin := 0; begin < 6000; begin += len(batch) {
		for index := range batch {
			batch[index] = kafkabroker.NewRecord{Value: begin + index, Partition: kafkabroker.To[int32](0)}
		}
		broker.Produce("orders", batch)
	}
	records := broker.Records("orders")
	for index, each := range records {
		if string(each.Value) != fmt.Sprint(index) {
			t.Fatalf("%s at %d", each.Value, index)
		}
	}
	if some := broker.Records("orders", kafkabroker.RecordsPageOptions{Limit: 7}); len(records) != 6000 || len(some) != 7 {
		t.Fatalf("found %d and %d", len(records), len(some))
	}
}

func TestARefusalIsAnErrorOfTheClient(t *testing.T) {
	client, ctx := shared.For(t).Client(), t.Context()
	_, missing := client.Topic(ctx, "nowhere")
	_, large := client.Produce(ctx, "orders", kafkabroker.Values(strings.Repeat("x", 200_000)))
	_, late := client.WaitForRecords(ctx, "orders", 1, kafkabroker.WaitForRecordsOptions{Timeout: -1})
	for _, each := range []struct {
		err    error
		status int
		code   string
	}{{missing, 404, "UNKNOWN_TOPIC_OR_PARTITION"}, {large, 400, "MESSAGE_TOO_LARGE"}, {late, 408, ""}} {
		var refused *kafkabroker.ControlError
		if !errors.As(each.err, &refused) || refused.Status != each.status || refused.Code != each.code {
			t.Errorf("%#v is not %d %s", each.err, each.status, each.code)
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := client.Topics(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("found %v", err)
	}
}

func TestClockFaultsGroupsAndSeeds(t *testing.T) {
	broker := shared.For(t)
	before := broker.FreezeClock().NowMs
	if after := broker.AdvanceClock(time.Minute).NowMs; after != before+60_000 {
		t.Errorf("%d is not a minute after %d", after, before)
	}
	fault := broker.AddFault(kafkabroker.AddFaultOptions{
		API: []string{"Produce"}, Error: "NOT_LEADER_OR_FOLLOWER", Delay: time.Second,
	})
	if found := broker.Fault(fault.ID); found.DelayMs != 1000 || *found.Error != "NOT_LEADER_OR_FOLLOWER" || found.Topic != nil {
		t.Errorf("found %v", found)
	}
	broker.Commit("billing", "orders", 0)
	if lag := broker.Lag("billing"); lag.Lag != 0 || *lag.Partitions[0].Committed != 0 {
		t.Errorf("found %v", lag)
	}
	dumped := broker.Dump()
	broker.Reset()
	broker.DeleteTopic("orders")
	if seeded := broker.Seed(dumped); seeded.Offsets != 1 {
		t.Errorf("found %v", seeded)
	}
	if groups := broker.Groups(); len(groups) != 1 || groups[0].GroupID != "billing" {
		t.Errorf("found %v", groups)
	}
	if metrics := broker.Metrics(); !strings.HasPrefix(metrics, "# HELP") {
		t.Errorf("found %s", metrics)
	}
}

// failing is a test that records how it fails.
type failing struct {
	testing.TB
	said     string
	cleanups []func()
}

func (f *failing) Helper()           {}
func (f *failing) Failed() bool      { return f.said != "" }
func (f *failing) Cleanup(do func()) { f.cleanups = append(f.cleanups, do) }
func (f *failing) Logf(format string, arguments ...any) {
	f.said += fmt.Sprintf(format, arguments...)
}
func (f *failing) Fatal(arguments ...any) {
	f.said += fmt.Sprint(arguments...)
	panic(f)
}

func (f *failing) run(test func()) {
	defer func() {
		for _, each := range f.cleanups {
			each()
		}
		if failure := recover(); failure != nil && failure != f {
			panic(failure)
		}
	}()
	test()
}

func TestARefusalFailsTheTestThatShowsTheLog(t *testing.T) {
	test := &failing{TB: t}
	var client *kafkabroker.Client
	test.run(func() {
		broker := kafkabroker.Start(test, kafkabroker.Options{LogLevel: "debug"})
		client = broker.Client()
		broker.DeleteTopic("nowhere")
		t.Error("the test went on")
	})
	if !strings.Contains(test.said, "nowhere") || !strings.Contains(test.said, "log of the broker:\n") {
		t.Errorf("said %s", test.said)
	}
	if _, err := client.Health(t.Context()); err == nil {
		t.Error("the broker is still there")
	}
}

func TestAStartThatFailsTellsWhy(t *testing.T) {
	noProgram := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(noProgram, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, each := range []struct {
		options kafkabroker.Options
		why     string
	}{
		{kafkabroker.Options{Config: map[string]string{"num.partitions": "many"}}, "num.partitions"},
		{kafkabroker.Options{Command: []string{"no-such-program"}}, "no-such-program is not there: have pykafka-broker"},
		{kafkabroker.Options{Command: []string{"/no/such/program"}}, "/no/such/program is not there: have pykafka-broker"},
		{kafkabroker.Options{Command: []string{noProgram}}, "permission denied"},
		{kafkabroker.Options{Topics: map[string]int{"no/topic": 1}}, "no/topic"},
	} {
		if _, err := kafkabroker.Launch(t.Context(), each.options); err == nil || !strings.Contains(err.Error(), each.why) {
			t.Errorf("%v does not tell of %s", err, each.why)
		}
	}
}

func TestAProgramThatIsNoBrokerIsToldByItsEnd(t *testing.T) {
	for program, why := range map[string]string{"true": "did not start: exit status 0", "exit 7": "did not start: exit status 7"} {
		_, err := kafkabroker.Launch(t.Context(), kafkabroker.Options{Command: []string{"sh", "-c", program}})
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v does not tell of %s", err, why)
		}
	}
}

func TestAStartThatTakesTooLongEndsWithTheProcessesOfAWrapper(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	started := filepath.Join(t.TempDir(), "started")
	go func() {
		for {
			if _, err := os.Stat(started); err == nil {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	wrapper := "(touch " + started + "; exec cat) >&2; true" // this shell is killed, and the one that it starts lives on
	_, err := kafkabroker.Launch(ended, kafkabroker.Options{Command: []string{"sh", "-c", wrapper}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("found %v", err)
	}
}

func TestACommandOfTheOptionsIsNotWrittenTo(t *testing.T) {
	command := append(make([]string, 0, 100), "false")
	kafkabroker.Launch(t.Context(), kafkabroker.Options{Command: command})
	if rest := command[1:2][0]; rest != "" {
		t.Errorf("found %s behind the command", rest)
	}
}

func TestAnUnknownConfigIsNamedOnStandardError(t *testing.T) {
	lines, written, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	real := os.Stderr
	os.Stderr = written
	kafkabroker.Start(t, kafkabroker.Options{Config: map[string]string{"log.retention.mss": "1"}})
	line, err := bufio.NewReader(lines).ReadString('\n')
	os.Stderr = real
	if err != nil || !strings.HasPrefix(line, "pykafka_broker: unknown config log.retention.mss is ignored; did you mean") {
		t.Errorf("said %s, %v", line, err)
	}
}

func TestAMachineWithoutTheBrokerIsToldSoByTheNameOfTheCommand(t *testing.T) {
	t.Setenv("PATH", "")
	t.Setenv("PYKAFKA_BROKER_PROGRAM", "")
	_, err := kafkabroker.Launch(t.Context())
	if err == nil || !strings.HasPrefix(err.Error(), "pykafka-broker is not there: ") {
		t.Errorf("%v does not name the command", err)
	}
}
