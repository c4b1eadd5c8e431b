using System;
using System.Collections;
using System.Collections.Generic;
using System.Globalization;

namespace PykafkaBroker
{
    /// <summary>
    /// The options of a broker: <c>new BrokerOptions { Topics = { "orders", { "bills", 3 } } }</c>.
    /// </summary>
    public sealed class BrokerOptions
    {
        /// <summary>Topics that are there after the start and after each reset.</summary>
        public TopicOptions Topics { get; } = new TopicOptions();

        /// <summary>
        /// Kafka's broker configs: <c>Config = { ["log.retention.ms"] = 1000 }</c>. A line on standard error names an
        /// unknown one.
        /// </summary>
        public IDictionary<string, object> Config { get; } = new Dictionary<string, object>();

        /// <summary>The release of Kafka that clients see, "2.8"; by default the newest.</summary>
        public string? Emulate { get; set; }

        /// <summary>Whether to start a schema registry, at <see cref="KafkaBroker.SchemaRegistryUrl"/>.</summary>
        public bool SchemaRegistry { get; set; }

        /// <summary>The file to write down in what clients produce, fetch and commit, for <c>CheckAsync</c>.</summary>
        public string? History { get; set; }

        /// <summary>"debug", "info", "warning" or "error".</summary>
        public string LogLevel { get; set; } = "info";

        /// <summary>Whether groups are quicker than with Kafka's heartbeat intervals.</summary>
        public bool QuickGroups { get; set; } = true;

        /// <summary>Whether nothing is done sooner than Kafka does it.</summary>
        public bool Strict { get; set; } = true;

        /// <summary>The port to listen on, 0 for a free one.</summary>
        public int Port { get; set; }

        /// <summary>How long the start may take.</summary>
        public TimeSpan StartTimeout { get; set; } = TimeSpan.FromSeconds(30);

        /// <summary>
        /// The program and its first arguments; by default PYKAFKA_BROKER_PROGRAM, or what is found on the PATH.
        /// </summary>
        public IReadOnlyList<string>? Command { get; set; }

        internal IEnumerable<string> Flags()
        {
            var given = new List<string> { "--stop-on-stdin-close", "--control", "127.0.0.1:0", "--log-level", LogLevel };
            void Add(bool wanted, params string[] flags)
            {
                if (wanted)
                {
                    given.AddRange(flags);
                }
            }

            Add(!Config.ContainsKey("log.dirs") && !Config.ContainsKey("log.dir"), "--ephemeral");
            Add(!Config.ContainsKey("listeners"), "--listen", $"127.0.0.1:{Port}");
            Add(QuickGroups, "--quick-groups");
            Add(Strict, "--strict");
            Add(Emulate != null, "--emulate", Emulate!);
            Add(SchemaRegistry, "--schema-registry", "127.0.0.1:0");
            Add(History != null, "--history", History!);
            foreach (var (name, value) in Config)
            {
                var text = value is bool said
                    ? (said ? "true" : "false")
                    : Convert.ToString(value, CultureInfo.InvariantCulture);
                Add(true, "--override", $"{name}={text}");
            }

            return given;
        }
    }

    /// <summary>Names of topics, with their partitions.</summary>
    public sealed class TopicOptions : IEnumerable<KeyValuePair<string, int>>
    {
        private readonly Dictionary<string, int> topics = new Dictionary<string, int>();

        public void Add(string name, int partitions = 1) => topics[name] = partitions;

        public IEnumerator<KeyValuePair<string, int>> GetEnumerator() => topics.GetEnumerator();

        IEnumerator IEnumerable.GetEnumerator() => GetEnumerator();
    }
}
