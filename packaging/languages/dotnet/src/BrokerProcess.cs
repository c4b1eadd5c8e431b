using System;
using System.Collections.Generic;
using System.ComponentModel;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace PykafkaBroker
{
    /// <summary>A program that this machine does not have.</summary>
    internal sealed class ProgramMissingException : Exception
    {
        internal ProgramMissingException(string message, Exception? cause = null)
            : base(message, cause)
        {
        }
    }

    /// <summary>The process of a broker, with the addresses that it has printed and the end of its log.</summary>
    internal sealed class BrokerProcess : IAsyncDisposable
    {
        private const int MostLogCharacters = 16_000;
        private const string UnknownConfig = " WARNING pykafka_broker: unknown config ";
        private static readonly TimeSpan StopTimeout = TimeSpan.FromSeconds(30);
        private readonly Process process;
        private readonly TaskCompletionSource<bool> exited = NewSource();
        private readonly TaskCompletionSource<bool> logEnded = NewSource();
        private readonly StringBuilder log = new StringBuilder();

        private BrokerProcess(ProcessStartInfo start)
        {
            process = new Process { StartInfo = start, EnableRaisingEvents = true };
            process.Exited += (_, __) => exited.TrySetResult(true);
            process.ErrorDataReceived += (_, line) => Add(line.Data);
        }

        internal Dictionary<string, string> Addresses { get; } = new Dictionary<string, string>();

        internal string Log
        {
            get
            {
                lock (log)
                {
                    return log.ToString();
                }
            }
        }

        /// <summary>Start the command, and wait until clients may connect.</summary>
        internal static async Task<BrokerProcess> StartAsync(
            IReadOnlyList<string> command, BrokerOptions options, CancellationToken cancellationToken)
        {
            var started = new BrokerProcess(StartInfo(command, options));
            try
            {
                started.process.Start();
            }
            catch (Win32Exception error)
            {
                throw new ProgramMissingException($"{command[0]} is not there", error);
            }

            started.process.BeginErrorReadLine();
            try
            {
                await started.ReadyAsync(command[0], options.StartTimeout, cancellationToken).ConfigureAwait(false);
                return started;
            }
            catch
            {
                await started.KillAsync().ConfigureAwait(false);
                throw;
            }
        }

        public async ValueTask DisposeAsync()
        {
            if (!exited.Task.IsCompleted)
            {
                CloseInput();
                if (!await WithinAsync(exited.Task, StopTimeout, CancellationToken.None).ConfigureAwait(false))
                {
                    await KillAsync().ConfigureAwait(false);
                }
            }
        }

        private static ProcessStartInfo StartInfo(IReadOnlyList<string> command, BrokerOptions options)
        {
            var start = new ProcessStartInfo(command[0])
            {
                RedirectStandardInput = true,
                RedirectStandardOutput = true,
                RedirectStandardError = true,
                UseShellExecute = false,
                CreateNoWindow = true,
            };
            foreach (var each in command.Skip(1).Concat(options.Flags()))
            {
                start.ArgumentList.Add(each);
            }

            // A test's broker has the test's settings, and none of the environment.
            foreach (var name in start.Environment.Keys.ToList())
            {
                if (name.StartsWith("KAFKA_", StringComparison.Ordinal) || name == "CLUSTER_ID")
                {
                    start.Environment.Remove(name);
                }
            }

            return start;
        }

        private async Task ReadyAsync(string program, TimeSpan timeout, CancellationToken cancellationToken)
        {
            var reading = ReadAddressesAsync();
            if (!await WithinAsync(reading, timeout, cancellationToken).ConfigureAwait(false))
            {
                throw new TimeoutException($"the broker was not ready within {timeout.TotalSeconds} s\n{Log}");
            }

            await reading.ConfigureAwait(false);
            if (Addresses.ContainsKey("listening"))
            {
                return;
            }

            await Task.WhenAll(exited.Task, logEnded.Task).ConfigureAwait(false);
            if (Log.Contains("No module named pykafka_broker", StringComparison.Ordinal))
            {
                throw new ProgramMissingException($"{program} has no pykafka_broker");
            }

            throw new InvalidOperationException($"the broker ended with exit code {process.ExitCode}\n{Log}");
        }

        private async Task ReadAddressesAsync()
        {
            string? line = "";
            while (line != null && !Addresses.ContainsKey("listening"))
            {
                line = await process.StandardOutput.ReadLineAsync().ConfigureAwait(false);
                var parts = line?.Split(" on ", 2);
                if (parts?.Length == 2)
                {
                    Addresses[parts[0]] = parts[1];
                }
            }
        }

        private void Add(string? line)
        {
            if (line == null)
            {
                logEnded.TrySetResult(true);
                return;
            }

            lock (log)
            {
                log.Append(line).Append('\n');
                log.Remove(0, Math.Max(0, log.Length - MostLogCharacters));
            }

            var unknown = line.IndexOf(UnknownConfig, StringComparison.Ordinal);
            if (unknown >= 0)
            {
                Console.Error.WriteLine(line.Substring(unknown + " WARNING ".Length));
            }
        }

        private void CloseInput()
        {
            try
            {
                process.StandardInput.Close(); // the broker ends with its standard input
            }
            catch (IOException)
            {
                // the process has ended already
            }
        }

        private async Task KillAsync()
        {
            try
            {
                process.Kill();
            }
            catch (InvalidOperationException)
            {
                // the process has ended already
            }

            await exited.Task.ConfigureAwait(false);
        }

        /// <summary>Wait for a task, and return whether it has ended in time.</summary>
        private static async Task<bool> WithinAsync(Task task, TimeSpan timeout, CancellationToken cancellationToken)
        {
            using var ended = CancellationTokenSource.CreateLinkedTokenSource(cancellationToken);
            var timer = Task.Delay(timeout, ended.Token);
            var first = await Task.WhenAny(task, timer).ConfigureAwait(false);
            cancellationToken.ThrowIfCancellationRequested();
            ended.Cancel();
            return first == task;
        }

        private static TaskCompletionSource<bool> NewSource() =>
            new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);
    }
}
