using System;
using System.Collections.Generic;
using System.Linq;

namespace PykafkaBroker
{
    /// <summary>
    /// A record to write or to expect: <c>new NewRecord { Key = "17", Value = new { fruit = "apples" } }</c>. Key and value
    /// are text, bytes, null, or anything else as JSON. A property that is not set is written as none, and is not compared.
    /// </summary>
    public sealed class NewRecord
    {
        private readonly Dictionary<string, object?> contents = new Dictionary<string, object?>();

        public object? Key
        {
            get => contents.GetValueOrDefault("key");
            set => contents["key"] = value;
        }

        public object? Value
        {
            get => contents.GetValueOrDefault("value");
            set => contents["value"] = value;
        }

        /// <summary>The headers: <c>Headers = { ("unit", "kg") }</c>. A name may occur several times.</summary>
        public IList<(string Name, object? Value)> Headers { get; } = new List<(string Name, object? Value)>();

        public DateTimeOffset? Timestamp { get; set; }

        public int? Partition { get; set; }

        internal IReadOnlyDictionary<string, object?> Fields()
        {
            var fields = new Dictionary<string, object?>();
            foreach (var (name, content) in contents)
            {
                Put(fields, name, content);
            }

            if (Headers.Count > 0)
            {
                fields["headers"] = Headers.Select(HeaderFields).ToList();
            }

            if (Timestamp is { } timestamp)
            {
                fields["timestamp"] = timestamp.ToUnixTimeMilliseconds();
            }

            if (Partition is { } partition)
            {
                fields["partition"] = partition;
            }

            return fields;
        }

        private static Dictionary<string, object?> HeaderFields((string Name, object? Value) header)
        {
            var fields = new Dictionary<string, object?> { ["name"] = header.Name };
            Put(fields, "value", header.Value);
            return fields;
        }

        private static void Put(Dictionary<string, object?> fields, string name, object? content)
        {
            if (content is byte[] bytes)
            {
                fields[name + "_base64"] = Convert.ToBase64String(bytes);
            }
            else
            {
                fields[name] = content;
            }
        }
    }
}
