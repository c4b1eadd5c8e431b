using System;
using System.Collections.Generic;
using System.IO;
using System.Text.RegularExpressions;
using System.Threading;
using System.Threading.Tasks;

namespace PykafkaBroker
{
    /// <summary>
    /// A broker on a free port of the loopback interface, in a process of its own that ends with this one:
    /// <c>await using var broker = await KafkaBroker.StartAsync();</c>.
    /// </summary>
    public sealed class KafkaBroker : ControlClient, IAsyncDisposable
    {
        private readonly BrokerProcess process;
        private readonly TopicOptions topics;

        private KafkaBroker(BrokerProcess process, TopicOptions topics)
            : base(process.Addresses["control"])
        {
            this.process = process;
            this.topics = topics;
        }

        /// <summary>The addresses for a client's <c>bootstrap.servers</c>.</summary>
        public string BootstrapServers => process.Addresses["listening"];

        /// <summary>The address of the schema registry, or null for none.</summary>
        public string? SchemaRegistryUrl => process.Addresses.GetValueOrDefault("schema registry");

        /// <summary>The end of the broker's log.</summary>
        public string Log => process.Log;

        /// <summary>Start a broker, and wait until clients may connect.</summary>
        public static async Task<KafkaBroker> StartAsync(
            BrokerOptions? options = null, CancellationToken cancellationToken = default)
        {
            options ??= new BrokerOptions();
            var started = await FoundAsync(options, cancellationToken).ConfigureAwait(false);
            var broker = new KafkaBroker(started, options.Topics);
            try
            {
                await broker.CreateTopicsAsync(cancellationToken).ConfigureAwait(false);
                return broker;
            }
            catch
            {
                await broker.DisposeAsync().ConfigureAwait(false);
                throw;
            }
        }

        /// <summary>Go back to the state before the first client, with the topics of the options.</summary>
        public override async Task ResetAsync(
            IEnumerable<string>? keep = null, CancellationToken cancellationToken = default)
        {
            await base.ResetAsync(keep, cancellationToken).ConfigureAwait(false);
            await CreateTopicsAsync(cancellationToken).ConfigureAwait(false);
        }

        /// <summary>Stop the broker. Its data goes with it.</summary>
        public ValueTask DisposeAsync() => process.DisposeAsync();

        private async Task CreateTopicsAsync(CancellationToken cancellationToken)
        {
            foreach (var (name, partitions) in topics)
            {
                await CreateTopicAsync(name, partitions, existOk: true, cancellationToken: cancellationToken)
                    .ConfigureAwait(false);
            }
        }

        private static async Task<BrokerProcess> FoundAsync(BrokerOptions options, CancellationToken cancellationToken)
        {
            ProgramMissingException? refused = null;
            foreach (var command in Commands(options))
            {
                try
                {
                    return await BrokerProcess.StartAsync(command, options, cancellationToken).ConfigureAwait(false);
                }
                catch (ProgramMissingException error)
                {
                    refused ??= error; // the first one names the command that a reader knows
                }
            }

            throw new InvalidOperationException(
                $"{refused!.Message}: have pykafka-broker on the PATH, or set PYKAFKA_BROKER_PROGRAM", refused);
        }

        private static IEnumerable<IReadOnlyList<string>> Commands(BrokerOptions options)
        {
            if (options.Command != null)
            {
                return new[] { options.Command };
            }

            var program = Environment.GetEnvironmentVariable("PYKAFKA_BROKER_PROGRAM");
            if (string.IsNullOrEmpty(program))
            {
                return new[]
                {
                    new[] { "pykafka-broker" },
                    new[] { "python3", "-m", "pykafka_broker" },
                    new[] { "python", "-m", "pykafka_broker" },
                };
            }

            var isPython = Regex.IsMatch(
                Path.GetFileName(program), @"^(python|py)[\d.]*(\.exe)?$", RegexOptions.IgnoreCase);
            return new[] { isPython ? new[] { program, "-m", "pykafka_broker" } : new[] { program } };
        }
    }
}
