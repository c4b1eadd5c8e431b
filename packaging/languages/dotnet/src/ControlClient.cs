using System;
using System.Collections.Generic;
using System.Linq;
using System.Net.Http;
using System.Net.Http.Headers;
using System.Text.Json;
using System.Text.Json.Serialization;
using System.Threading;
using System.Threading.Tasks;
using PykafkaBroker.Answers;

namespace PykafkaBroker
{
    /// <summary>A client of a broker's control API. A refusal is a <see cref="ControlException"/>.</summary>
    public class ControlClient : Operations
    {
        private const int MostRecords = 5000; // of a page

        // The broker ends each wait itself, and its address is one of this machine or its neighbours.
        private static readonly HttpClient Http =
            new HttpClient(new SocketsHttpHandler { UseProxy = false }) { Timeout = Timeout.InfiniteTimeSpan };

        private readonly string? token;

        /// <summary>A client of the broker with this control API: http://127.0.0.1:9644, and its token if it wants one.</summary>
        public ControlClient(string controlUrl, string? token = null)
        {
            ControlUrl = controlUrl.TrimEnd('/');
            this.token = token;
        }

        /// <summary>The address of the control API, and of the broker's page for a browser.</summary>
        public string ControlUrl { get; }

        /// <summary>Return records of a topic, of all pages unless there is a limit.</summary>
        public async Task<IReadOnlyList<TopicRecord>> RecordsAsync(
            string topic,
            int? partition = null,
            long? fromOffset = null,
            int? limit = null,
            string? isolationLevel = null,
            string? key = null,
            CancellationToken cancellationToken = default)
        {
            Task<RecordsPage> Page(int? of, long? from, int? most) => RecordsPageAsync(
                topic,
                partition: of,
                fromOffset: from,
                limit: most,
                isolationLevel: isolationLevel,
                key: key,
                cancellationToken: cancellationToken);

            if (limit != null)
            {
                return (await Page(partition, fromOffset, limit).ConfigureAwait(false)).Records;
            }

            var found = new List<TopicRecord>();
            foreach (var each in await PartitionsAsync(topic, partition, cancellationToken).ConfigureAwait(false))
            {
                var page = await Page(each, fromOffset, MostRecords).ConfigureAwait(false);
                found.AddRange(page.Records);
                while (page.More)
                {
                    page = await Page(each, page.NextOffsets[$"{each}"], MostRecords).ConfigureAwait(false);
                    found.AddRange(page.Records);
                }
            }

            return found;
        }

        private async Task<IEnumerable<int>> PartitionsAsync(
            string topic, int? partition, CancellationToken cancellationToken)
        {
            if (partition is { } one)
            {
                return new[] { one };
            }

            return Enumerable.Range(0, (await TopicAsync(topic, cancellationToken).ConfigureAwait(false)).Partitions);
        }

        private protected override async Task<T> CallAsync<T>(
            HttpMethod method, string path, Given given, CancellationToken cancellationToken)
        {
            using var request = new HttpRequestMessage(method, ControlUrl + path + given.Target());
            // Each call has a connection of its own: an idle one may be closed by the broker when the next call begins.
            request.Headers.ConnectionClose = true;
            request.Content = given.Content();
            if (token != null)
            {
                request.Headers.Authorization = new AuthenticationHeaderValue("Bearer", token);
            }

            using var response = await Http.SendAsync(request, cancellationToken).ConfigureAwait(false);
            var text = await response.Content.ReadAsStringAsync().ConfigureAwait(false);
            var kind = response.Content.Headers.ContentType?.MediaType;
            var isJson = kind == "application/json" || kind == "application/problem+json";
            if (!response.IsSuccessStatusCode)
            {
                var problem = isJson ? JsonSerializer.Deserialize<Problem>(text) : new Problem { Detail = text.Trim() };
                throw new ControlException((int)response.StatusCode, problem!.Detail, problem.Code);
            }

            // An operation that answers another text is declared as one that does.
            return isJson ? JsonSerializer.Deserialize<T>(text)! : (T)(object)text;
        }

        private sealed class Problem
        {
            [JsonPropertyName("detail")]
            public string Detail { get; set; } = null!;

            [JsonPropertyName("code")]
            public string? Code { get; set; }
        }
    }
}
