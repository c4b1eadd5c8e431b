using System;
using System.Buffers.Binary;
using System.Collections.Generic;
using System.IO;
using System.Net.Sockets;
using System.Text;
using System.Threading.Tasks;

/// <summary>A client of Kafka's protocol that asks what is offered, and for topics.</summary>
internal sealed class WireClient : IDisposable
{
    internal const string Id = "wire-client";
    internal const int Metadata = 3;
    private const int ApiVersions = 18;
    private const int MetadataVersion = 8; // the last without compact lengths
    private readonly TcpClient connection;

    internal WireClient(string address)
    {
        var parts = address.Split(':');
        connection = new TcpClient(parts[0], int.Parse(parts[1]));
    }

    public void Dispose() => connection.Dispose();

    /// <summary>Return the keys of the APIs that the broker offers.</summary>
    internal async Task<ISet<int>> ApisAsync()
    {
        var answer = await AskAsync(ApiVersions, 0, Array.Empty<byte>());
        var found = new HashSet<int>();
        answer.Int16(); // the error
        for (var left = answer.Int32(); left > 0; left--)
        {
            found.Add(answer.Int16());
            answer.Int32(); // the versions
        }

        return found;
    }

    /// <summary>Return the names of all topics.</summary>
    internal async Task<IReadOnlyList<string>> TopicsAsync()
    {
        var everyTopic = new byte[] { 0xff, 0xff, 0xff, 0xff, 0, 0, 0 };
        var answer = await AskAsync(Metadata, MetadataVersion, everyTopic);
        answer.Int32(); // the throttle time
        for (var left = answer.Int32(); left > 0; left--)
        {
            answer.Int32();
            answer.Text();
            answer.Int32();
            answer.Text(); // the rack
        }

        answer.Text(); // the cluster
        answer.Int32(); // the controller
        var found = new List<string>();
        for (var left = answer.Int32(); left > 0; left--)
        {
            answer.Int16();
            found.Add(answer.Text()!);
            answer.Skip(1);
            for (var partitions = answer.Int32(); partitions > 0; partitions--)
            {
                answer.Skip(2 + 4 + 4 + 4);
                for (var lists = 0; lists < 3; lists++)
                {
                    answer.Skip(4 * answer.Int32());
                }
            }

            answer.Int32(); // the operations that are allowed
        }

        return found;
    }

    private async Task<Answer> AskAsync(int api, int version, byte[] body)
    {
        var id = Encoding.UTF8.GetBytes(Id);
        var request = new byte[4 + 2 + 2 + 4 + 2 + id.Length + body.Length];
        BinaryPrimitives.WriteInt32BigEndian(request, request.Length - 4);
        BinaryPrimitives.WriteInt16BigEndian(request.AsSpan(4), (short)api);
        BinaryPrimitives.WriteInt16BigEndian(request.AsSpan(6), (short)version);
        BinaryPrimitives.WriteInt16BigEndian(request.AsSpan(12), (short)id.Length);
        id.CopyTo(request, 14);
        body.CopyTo(request, 14 + id.Length);
        var stream = connection.GetStream();
        await stream.WriteAsync(request);
        var length = BinaryPrimitives.ReadInt32BigEndian(await ReadAsync(stream, 4));
        var answer = new Answer(await ReadAsync(stream, length));
        answer.Int32(); // the correlation id
        return answer;
    }

    private static async Task<byte[]> ReadAsync(Stream stream, int length)
    {
        var read = new byte[length];
        for (var size = 0; size < length;)
        {
            var more = await stream.ReadAsync(read.AsMemory(size));
            size += more > 0 ? more : throw new EndOfStreamException();
        }

        return read;
    }

    private sealed class Answer
    {
        private readonly byte[] data;
        private int position;

        internal Answer(byte[] data) => this.data = data;

        internal void Skip(int length) => position += length;

        internal short Int16() => BinaryPrimitives.ReadInt16BigEndian(Next(2));

        internal int Int32() => BinaryPrimitives.ReadInt32BigEndian(Next(4));

        internal string? Text()
        {
            var length = Int16();
            return length < 0 ? null : Encoding.UTF8.GetString(Next(length));
        }

        private ReadOnlySpan<byte> Next(int length)
        {
            position += length;
            return data.AsSpan(position - length, length);
        }
    }
}
