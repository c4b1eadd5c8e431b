using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Net.Http;
using System.Threading.Tasks;
using PykafkaBroker;
using Xunit;

public sealed class SharedBroker : IAsyncLifetime
{
    public KafkaBroker Broker { get; private set; } = null!;

    public async Task InitializeAsync()
    {
        Broker = await KafkaBroker.StartAsync(new BrokerOptions
        {
            Topics = { { "orders", 2 } },
            Config = { ["message.max.bytes"] = 100_000, ["auto.create.topics.enable"] = false },
        });
    }

    public async Task DisposeAsync() => await Broker.DisposeAsync();
}

public sealed class KafkaBrokerTest : IClassFixture<SharedBroker>, IAsyncLifetime
{
    private readonly KafkaBroker broker;

    public KafkaBrokerTest(SharedBroker shared) => broker = shared.Broker;

    public Task InitializeAsync() => broker.ResetAsync();

    public Task DisposeAsync() => Task.CompletedTask;

    [Fact]
    public async Task ABrokerHasItsTopicsAlsoAfterAReset()
    {
        await broker.ProduceAsync("orders", new[] { new NewRecord { Value = "apples" } });
        var retention = new Dictionary<string, object?> { ["retention.ms"] = 1000 };
        var made = await broker.CreateTopicAsync("payments", partitions: 3, config: retention);
        Assert.Equal("1000", made.Config["retention.ms"]);
        await broker.ResetAsync();
        Assert.Equal(new[] { ("orders", 2) }, (await broker.TopicsAsync()).Select(each => (each.Name, each.Partitions)));
        Assert.Empty(await broker.RecordsAsync("orders"));
    }

    [Fact]
    public async Task RecordsOfAllForms()
    {
        var binary = new byte[] { 0xff, 0 };
        var first = new NewRecord
        {
            Key = "17",
            Value = new { Fruit = "äpples", Count = 3 },
            Headers = { ("unit", "kg"), ("raw", binary) },
            Timestamp = DateTimeOffset.FromUnixTimeMilliseconds(1000),
            Partition = 1,
        };
        var written = await broker.ProduceAsync("orders", new[] { first, new NewRecord { Key = binary, Value = null, Partition = 1 } });
        Assert.Equal(new[] { (1, 0L), (1, 1L) }, written.Select(each => (each.Partition, each.Offset)));
        var records = await broker.WaitForRecordsAsync("orders", 2, timeout: TimeSpan.FromMinutes(1));
        Assert.Equal("17", records[0].Key);
        Assert.Equal("{\"Fruit\":\"äpples\",\"Count\":3}", records[0].Value);
        Assert.Equal(1000L, records[0].Timestamp);
        Assert.Equal(("unit", "kg"), (records[0].Headers[0].Name, records[0].Headers[0].Value));
        Assert.Equal(binary, records[0].Headers[1].ValueBytes);
        Assert.Equal(binary, records[1].KeyBytes);
        Assert.Null(records[1].Key);
        Assert.Null(records[1].ValueBytes);

        var expected = new[]
        {
            new NewRecord { Key = "17", Value = new { Fruit = "äpples", Count = 3 } },
            new NewRecord { Key = binary, Value = null },
        };
        Assert.Equal(2, (await broker.AssertRecordsAsync("orders", expected)).Count);
        var wrong = await Assert.ThrowsAsync<ControlException>(
            () => broker.AssertContainsAsync("orders", new[] { new NewRecord { Value = "pears" } }));
        Assert.Contains("pears", wrong.Message);
        var notNull = new[] { new NewRecord { Key = null } };
        await Assert.ThrowsAsync<ControlException>(() => broker.AssertContainsAsync("orders", notNull));
    }

    [Fact]
    public async Task MoreRecordsThanAPageHas()
    {
        for (var begin = 0; begin < 6000; begin += 2000)
        {
            var some = Enumerable.Range(begin, 2000).Select(each => new NewRecord { Value = each, Partition = 0 });
            await broker.ProduceAsync("orders", some);
        }

        var values = (await broker.RecordsAsync("orders")).Select(each => int.Parse(each.Value!));
        Assert.Equal(Enumerable.Range(0, 6000), values);
        Assert.Equal(7, (await broker.RecordsAsync("orders", limit: 7)).Count);
        Assert.Equal(5999, (await broker.RecordsAsync("orders", partition: 0, fromOffset: 1)).Count);
        Assert.Empty(await broker.RecordsAsync("orders", partition: 1));
    }

    [Fact]
    public async Task ARecordOfAnIdempotentProducerIsWrittenOnce()
    {
        var made = await broker.NewProducerAsync();
        var producer = new PykafkaBroker.Answers.Producer
        {
            ProducerId = made.ProducerId,
            ProducerEpoch = made.ProducerEpoch,
            Sequences = new Dictionary<string, int> { ["0"] = 0 },
        };
        var record = new[] { new NewRecord { Value = "apples", Partition = 0 } };
        await broker.ProduceAsync("orders", record, producer: producer);
        await broker.ProduceAsync("orders", record, producer: producer);
        Assert.Equal(new[] { "apples" }, (await broker.RecordsAsync("orders")).Select(each => each.Value));
    }

    [Fact]
    public async Task ARefusalHasTheBrokersSentence()
    {
        var missing = await Assert.ThrowsAsync<ControlException>(() => broker.TopicAsync("nowhere"));
        Assert.Equal((404, "UNKNOWN_TOPIC_OR_PARTITION"), (missing.Status, missing.Code));
        Assert.Contains("nowhere", missing.Message);
        var invalid = await Assert.ThrowsAsync<ControlException>(() => broker.TopicAsync("no where/else"));
        Assert.Equal((400, "INVALID_TOPIC_EXCEPTION"), (invalid.Status, invalid.Code));
        var late = await Assert.ThrowsAsync<ControlException>(
            () => broker.WaitForRecordsAsync("orders", 1, timeout: TimeSpan.Zero));
        Assert.Equal(408, late.Status);
    }

    [Fact]
    public async Task ClockGroupsAndSeeds()
    {
        var before = (await broker.FreezeClockAsync()).NowMs;
        Assert.Equal(before + 60_000, (await broker.AdvanceClockAsync(TimeSpan.FromMinutes(1))).NowMs);
        await broker.CommitAsync("billing", "orders", 0);
        Assert.Equal(0L, (await broker.LagAsync("billing")).Partitions[0].Committed);
        var dumped = await broker.DumpAsync();
        await broker.ResetAsync();
        await broker.DeleteTopicAsync("orders");
        Assert.Equal(1, (await broker.SeedAsync(dumped)).Offsets);
        Assert.Equal(new[] { "billing" }, (await broker.GroupsAsync()).Select(each => each.GroupId));
        Assert.StartsWith("# HELP", await broker.MetricsAsync());
        var other = new ControlClient(broker.ControlUrl + "/");
        Assert.Equal(broker.BootstrapServers, (await other.BrokerAsync()).BootstrapServers);
    }

    [Fact]
    public async Task AClientOfTheWireMeetsAFault()
    {
        var fault = await broker.AddFaultAsync(
            api: new[] { "Metadata", "Produce" }, drop: "before", times: 1, delay: TimeSpan.FromMilliseconds(1));
        Assert.Equal(1L, fault.DelayMs);
        Assert.Null(fault.Topic);
        using (var refused = new WireClient(broker.BootstrapServers))
        {
            Assert.True((await refused.ApisAsync()).Contains(WireClient.Metadata));
            await Assert.ThrowsAsync<EndOfStreamException>(refused.TopicsAsync);
        }

        using var served = new WireClient(broker.BootstrapServers);
        Assert.Equal(new[] { "orders" }, await served.TopicsAsync());
        Assert.Equal(1, (await broker.FaultAsync(fault.Id)).Hits);
        var asked = await broker.RequestsAsync(clientId: WireClient.Id, api: "Metadata", bodies: true);
        Assert.Equal(2, asked.Count);
        Assert.True(asked[1].Response!.Value.GetProperty("topics").GetArrayLength() == 1);
    }

    [Fact]
    public async Task ABrokerOfOnesOwnStops()
    {
        var history = Path.GetTempFileName();
        var own = await KafkaBroker.StartAsync(new BrokerOptions
        {
            Emulate = "2.8",
            History = history,
            SchemaRegistry = true,
            LogLevel = "debug",
            QuickGroups = false,
        });
        await using (own)
        {
            Assert.StartsWith("127.0.0.1:", own.BootstrapServers);
            Assert.StartsWith("http://127.0.0.1:", own.SchemaRegistryUrl);
            Assert.True((await own.HistoryAsync()).Length >= 0);
            Assert.Equal("ok", (await own.HealthAsync()).Status);
            Assert.Contains("DEBUG", own.Log);
        }

        File.Delete(history);
        await Assert.ThrowsAsync<HttpRequestException>(() => own.HealthAsync());
    }

    [Fact]
    public async Task AnUnknownConfigIsNamedOnStandardError()
    {
        var said = new StringWriter();
        var real = Console.Error;
        Console.SetError(TextWriter.Synchronized(said));
        try
        {
            var own = await KafkaBroker.StartAsync(new BrokerOptions { Config = { ["log.retention.mss"] = 1 } });
            while (!own.Log.Contains("unknown config"))
            {
                await Task.Delay(10);
            }

            await own.DisposeAsync();
        }
        finally
        {
            Console.SetError(real);
        }

        Assert.StartsWith("pykafka_broker: unknown config log.retention.mss is ignored; did you mean", said.ToString());
    }

    [Fact]
    public async Task AStartThatFailsTellsWhy()
    {
        var refused = new Dictionary<string, BrokerOptions>
        {
            ["num.partitions"] = new BrokerOptions { Config = { ["num.partitions"] = "many" } },
            ["no-such-program is not there: have"] = new BrokerOptions { Command = new[] { "no-such-program" } },
        };
        foreach (var (why, options) in refused)
        {
            var error = await Assert.ThrowsAsync<InvalidOperationException>(() => KafkaBroker.StartAsync(options));
            Assert.Contains(why, error.Message);
        }

        var topic = new BrokerOptions { Topics = { "no/topic" } };
        var invalid = await Assert.ThrowsAsync<ControlException>(() => KafkaBroker.StartAsync(topic));
        Assert.Equal("INVALID_TOPIC_EXCEPTION", invalid.Code);
        var soon = new BrokerOptions { StartTimeout = TimeSpan.Zero };
        await Assert.ThrowsAsync<TimeoutException>(() => KafkaBroker.StartAsync(soon));
    }
}
