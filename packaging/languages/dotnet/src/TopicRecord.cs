using System;
using System.Collections.Generic;
using System.Text;
using System.Text.Json.Serialization;

namespace PykafkaBroker
{
    /// <summary>
    /// A record of a topic. <c>Key</c> and <c>Value</c> are text, and null where the bytes are no UTF-8, which
    /// <c>KeyBytes</c> and <c>ValueBytes</c> have. <c>Timestamp</c> is in epoch milliseconds; <c>Transaction</c> is
    /// committed, aborted or open, and null for a record that was written outside of one.
    /// </summary>
    public sealed class TopicRecord
    {
        [JsonPropertyName("topic")]
        public string Topic { get; set; } = null!;

        [JsonPropertyName("partition")]
        public int Partition { get; set; }

        [JsonPropertyName("offset")]
        public long Offset { get; set; }

        [JsonPropertyName("timestamp")]
        public long Timestamp { get; set; }

        [JsonPropertyName("key")]
        public string? Key { get; set; }

        [JsonPropertyName("value")]
        public string? Value { get; set; }

        [JsonPropertyName("key_base64")]
        public string? KeyBase64 { get; set; }

        [JsonPropertyName("value_base64")]
        public string? ValueBase64 { get; set; }

        [JsonPropertyName("headers")]
        public IReadOnlyList<RecordHeader> Headers { get; set; } = null!;

        [JsonPropertyName("transaction")]
        public string? Transaction { get; set; }

        [JsonIgnore]
        public byte[]? KeyBytes => Bytes(Key, KeyBase64);

        [JsonIgnore]
        public byte[]? ValueBytes => Bytes(Value, ValueBase64);

        internal static byte[]? Bytes(string? text, string? inBase64)
        {
            if (inBase64 != null)
            {
                return Convert.FromBase64String(inBase64);
            }

            return text == null ? null : Encoding.UTF8.GetBytes(text);
        }
    }

    /// <summary>A header of a record; a name may occur several times.</summary>
    public sealed class RecordHeader
    {
        [JsonPropertyName("name")]
        public string Name { get; set; } = null!;

        [JsonPropertyName("value")]
        public string? Value { get; set; }

        [JsonPropertyName("value_base64")]
        public string? ValueBase64 { get; set; }

        [JsonIgnore]
        public byte[]? ValueBytes => TopicRecord.Bytes(Value, ValueBase64);
    }
}
