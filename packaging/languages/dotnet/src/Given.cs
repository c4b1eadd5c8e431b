using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Net.Http;
using System.Net.Http.Headers;
using System.Text;
using System.Text.Json;

namespace PykafkaBroker
{
    /// <summary>The parameters of a request, as a query, a body of JSON, or a text.</summary>
    internal sealed class Given
    {
        internal static readonly Given Nothing = Query();

        private readonly bool inQuery;
        private readonly string? text;
        private readonly Dictionary<string, object?> fields = new Dictionary<string, object?>();

        private Given(bool inQuery, string? text)
        {
            this.inQuery = inQuery;
            this.text = text;
        }

        internal static Given Query() => new Given(true, null);

        internal static Given Body() => new Given(false, null);

        internal static Given Text(string text) => new Given(false, text);

        /// <summary>Add a parameter; null stands for one that is left out.</summary>
        internal Given Put(string name, object? value)
        {
            if (value != null)
            {
                fields[name] = Written(value);
            }

            return this;
        }

        internal static string InPath(object part) => Uri.EscapeDataString(InQuery(part));

        /// <summary>The query with its question mark, or nothing.</summary>
        internal string Target()
        {
            if (!inQuery || fields.Count == 0)
            {
                return "";
            }

            return "?" + string.Join("&", fields.Select(each => $"{each.Key}={InPath(each.Value!)}"));
        }

        /// <summary>The body, or null for none.</summary>
        internal HttpContent? Content()
        {
            if (text != null)
            {
                return new StringContent(text, Encoding.UTF8, "text/plain");
            }

            if (inQuery)
            {
                return null;
            }

            var content = new ByteArrayContent(JsonSerializer.SerializeToUtf8Bytes(fields));
            content.Headers.ContentType = new MediaTypeHeaderValue("application/json");
            return content;
        }

        private static object Written(object value)
        {
            switch (value)
            {
                case TimeSpan duration:
                    return (long)duration.TotalMilliseconds;
                case NewRecord record:
                    return record.Fields();
                case IEnumerable<NewRecord> records:
                    return records.Select(each => each.Fields()).ToList();
                default:
                    return value;
            }
        }

        private static string InQuery(object value) =>
            value is bool said ? (said ? "true" : "false") : Convert.ToString(value, CultureInfo.InvariantCulture)!;
    }
}
