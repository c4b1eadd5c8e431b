package kafkabroker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Options are the options of a broker.
type Options struct {
	// Topics are there after the start and after each Reset: partitions by name.
	Topics map[string]int
	// Config are Kafka's broker configs, such as "log.retention.ms". A line on standard error names an unknown one.
	Config map[string]string
	// Emulate is the release of Kafka that clients see, such as "2.8"; "" for the newest.
	Emulate string
	// SchemaRegistry starts a schema registry.
	SchemaRegistry bool
	// History is the file to write down in what clients produce, fetch and commit, for Check.
	History string
	// SlowGroups gives groups Kafka's heartbeat intervals.
	SlowGroups bool
	// NotStrict does some things sooner than Kafka does.
	NotStrict bool
	// Port is the port to listen on; 0 for a free one.
	Port int
	// LogLevel is "debug", "info", "warning" or "error"; "" for "info".
	LogLevel string
	// Command is the program and its first arguments; by default PYKAFKA_BROKER_PROGRAM, or what is found on the PATH.
	Command []string
}

// Broker is a broker of a test. Its methods are the operations of the control API; one that the broker refuses fails
// the test, so they belong to the test's own goroutine. Client has methods that return errors.
type Broker struct {
	BootstrapServers  string
	ControlURL        string
	SchemaRegistryURL string

	server *Server
	t      testing.TB
}

// Start starts a broker that stops at the end of the test, and shows the end of its log if the test has failed.
func Start(t testing.TB, options ...Options) *Broker {
	t.Helper()
	server, err := Launch(context.Background(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the broker:\n%s", server.Log())
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server.of(t)
}

// Client returns the client of the control API, whose methods return errors.
func (b *Broker) Client() *Client {
	return b.server.Client
}

// Log returns the end of the broker's log.
func (b *Broker) Log() string {
	return b.server.Log()
}

// Records returns the records of a topic, of all pages unless there is a limit.
func (b *Broker) Records(topic string, options ...RecordsPageOptions) []Record {
	b.t.Helper()
	records, err := b.server.Records(context.Background(), topic, options...)
	b.check(err)
	return records
}

func (b *Broker) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// Server is a broker that several tests share, started by TestMain.
type Server struct {
	*Client
	BootstrapServers  string
	SchemaRegistryURL string

	topics  map[string]int
	command *exec.Cmd
	input   io.Closer
	log     *tail
}

const (
	startTimeout = 30 * time.Second
	stopTimeout  = 30 * time.Second
	logBytes     = 16_000
)

var errNotThere = errors.New("have pykafka-broker on the PATH, or set PYKAFKA_BROKER_PROGRAM")

// Launch starts a broker that runs until Close, or until this process ends.
func Launch(ctx context.Context, options ...Options) (*Server, error) {
	var wanted Options
	for _, each := range options {
		wanted = each
	}
	commands := [][]string{wanted.Command}
	if len(wanted.Command) == 0 {
		commands = found(os.Getenv("PYKAFKA_BROKER_PROGRAM"))
	}
	var server *Server
	err := errNotThere
	for _, command := range commands {
		started, refused := start(ctx, command, wanted)
		if !errors.Is(refused, errNotThere) {
			server, err = started, refused
			break
		}
		if err == errNotThere {
			err = refused // the first one names the command that a reader knows
		}
	}
	if err != nil {
		return nil, err
	}
	if err := server.createTopics(ctx); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return server, nil
}

var pythons = regexp.MustCompile(`(?i)^(python|py)[\d.]*(\.exe)?$`)

func found(program string) [][]string {
	module := []string{"-m", "pykafka_broker"}
	if program == "" {
		return [][]string{{"pykafka-broker"}, append([]string{"python3"}, module...), append([]string{"python"}, module...)}
	}
	if pythons.MatchString(filepath.Base(program)) {
		return [][]string{append([]string{program}, module...)}
	}
	return [][]string{{program}}
}

// For resets the broker for a test, and returns it with methods that fail the test.
func (s *Server) For(t testing.TB) *Broker {
	t.Helper()
	broker := s.of(t)
	broker.Reset()
	return broker
}

func (s *Server) of(t testing.TB) *Broker {
	return &Broker{s.BootstrapServers, s.controlURL, s.SchemaRegistryURL, s, t}
}

// Reset goes back to the state before the first client, with the topics of the options.
func (s *Server) Reset(ctx context.Context, options ...ResetOptions) error {
	if err := s.Client.Reset(ctx, options...); err != nil {
		return err
	}
	return s.createTopics(ctx)
}

func (s *Server) createTopics(ctx context.Context) error {
	for name, partitions := range s.topics {
		if _, err := s.CreateTopic(ctx, name, CreateTopicOptions{Partitions: partitions, ExistOk: true}); err != nil {
			return err
		}
	}
	return nil
}

// Log returns the end of the broker's log.
func (s *Server) Log() string {
	return s.log.String()
}

// Close stops the broker. Its data goes with it.
func (s *Server) Close() error {
	killing := time.AfterFunc(stopTimeout, func() { s.command.Process.Kill() })
	defer killing.Stop()
	s.input.Close()
	return s.command.Wait()
}

func start(ctx context.Context, command []string, options Options) (*Server, error) {
	program, err := exec.LookPath(command[0])
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is not there: %w", command[0], errNotThere)
	}
	if err != nil {
		return nil, err
	}
	process := exec.Command(program, slices.Concat(command[1:], options.flags())...)
	process.Env = environment()
	log := &tail{}
	process.Stderr = log
	input, err := process.StdinPipe() // the broker ends when this is closed, also by the end of this process
	if err != nil {
		return nil, err
	}
	output, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	stopKilling := context.AfterFunc(ctx, func() { process.Process.Kill() })
	told := map[string]string{}
	lines := bufio.NewScanner(output)
	for told["listening"] == "" && lines.Scan() {
		if name, address, ok := strings.Cut(lines.Text(), " on "); ok {
			told[name] = address
		}
	}
	if stopKilling(); told["listening"] == "" {
		input.Close() // what a wrapper has started ends with its input, and Wait waits for that
		ended := process.Wait()
		if strings.Contains(log.String(), "No module named pykafka_broker") {
			return nil, fmt.Errorf("%s has no pykafka_broker: %w", program, errNotThere)
		}
		if ctx.Err() != nil {
			ended = ctx.Err()
		} else if ended == nil {
			ended = errors.New(process.ProcessState.String())
		}
		return nil, fmt.Errorf("the broker did not start: %w\n%s", ended, log)
	}
	return &Server{
		NewClient(told["control"], ""), told["listening"], told["schema registry"], options.Topics, process, input, log,
	}, nil
}

func (o Options) flags() []string {
	given := []string{"--stop-on-stdin-close", "--control", "127.0.0.1:0"}
	if o.Config["log.dirs"] == "" && o.Config["log.dir"] == "" {
		given = append(given, "--ephemeral")
	}
	if _, ok := o.Config["listeners"]; !ok {
		given = append(given, "--listen", fmt.Sprintf("127.0.0.1:%d", o.Port))
	}
	if !o.SlowGroups {
		given = append(given, "--quick-groups")
	}
	if !o.NotStrict {
		given = append(given, "--strict")
	}
	if o.SchemaRegistry {
		given = append(given, "--schema-registry", "127.0.0.1:0")
	}
	for flag, value := range map[string]string{"--emulate": o.Emulate, "--history": o.History, "--log-level": o.LogLevel} {
		if value != "" {
			given = append(given, flag, value)
		}
	}
	for name, value := range o.Config {
		given = append(given, "--override", name+"="+value)
	}
	return given
}

// environment returns the environment without settings of a broker: a test's broker has the test's settings.
func environment() []string {
	var kept []string
	for _, each := range os.Environ() {
		if !strings.HasPrefix(each, "KAFKA_") && !strings.HasPrefix(each, "CLUSTER_ID=") {
			kept = append(kept, each)
		}
	}
	return kept
}

// tail keeps the end of what is written to it, and passes on which configs are unknown.
type tail struct {
	mutex sync.Mutex
	text  []byte
}

var unknownConfig = regexp.MustCompile(`(?m) WARNING (pykafka_broker: unknown config .*)$`)

func (t *tail) Write(text []byte) (int, error) {
	for _, found := range unknownConfig.FindAllSubmatch(text, -1) { // the broker writes whole lines
		fmt.Fprintf(os.Stderr, "%s\n", found[1])
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.text = append(t.text, text...)
	t.text = t.text[max(0, len(t.text)-logBytes):]
	return len(text), nil
}

func (t *tail) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return string(t.text)
}
