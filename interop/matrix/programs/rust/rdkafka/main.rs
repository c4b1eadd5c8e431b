//! rdkafka, which is librdkafka compiled beside it.

mod scenario;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::{Header, Headers, Message, OwnedHeaders, OwnedMessage};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use scenario::*;

const SECURE: &str = "security";

fn config(asked: &Asked, more: &[(&str, &str)]) -> ClientConfig {
    let mut made = ClientConfig::new();
    made.set("bootstrap.servers", &asked.bootstrap);
    if asked.scenario == SECURE {
        made.set("security.protocol", "SASL_SSL").set("sasl.mechanisms", "SCRAM-SHA-512");
        made.set("sasl.username", setting("MATRIX_USER")).set("sasl.password", setting("MATRIX_PASSWORD"));
        made.set("ssl.ca.location", setting("MATRIX_CA"));
    }
    for (name, value) in more {
        made.set(*name, *value);
    }
    made
}

fn producer(asked: &Asked, more: &[(&str, &str)]) -> Done<FutureProducer> {
    Ok(config(asked, more).create()?)
}

/// All in their order: each is queued before any is waited for.
async fn deliver(producer: &FutureProducer, topic: &str, sent: &[String]) -> Done {
    let mut waiting = Vec::new();
    for value in sent {
        let record = FutureRecord::to(topic).partition(0).key("k").payload(value);
        waiting.push(producer.send_result(record).map_err(|(error, _)| error)?);
    }
    for each in waiting {
        each.await?.map_err(|(error, _)| error)?;
    }
    Ok(())
}

async fn send(asked: &Asked, sent: &[String], more: &[(&str, &str)]) -> Done {
    deliver(&producer(asked, more)?, &asked.topic, sent).await
}

fn consumer(asked: &Asked, group: &str, more: &[(&str, &str)]) -> Done<BaseConsumer> {
    let mut made = config(asked, more);
    made.set("group.id", group).set("auto.offset.reset", "earliest").set("enable.auto.commit", "false");
    Ok(made.create()?)
}

fn take(consumer: &BaseConsumer, count: usize, within: Duration) -> Done<Vec<OwnedMessage>> {
    let (mut got, late) = (Vec::new(), deadline(within));
    while got.len() < count {
        if let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) {
            got.push(message.detach());
        }
        if late() {
            return Err(format!("{} records of {count}", got.len()).into());
        }
    }
    Ok(got)
}

fn at(consumer: &BaseConsumer, topic: &str, offset: i64) -> Done {
    let mut place = TopicPartitionList::new();
    place.add_partition_offset(topic, 0, Offset::Offset(offset))?;
    Ok(consumer.assign(&place)?)
}

fn read(asked: &Asked, count: usize, more: &[(&str, &str)]) -> Done<Vec<OwnedMessage>> {
    let reader = consumer(asked, &format!("{}-reader", asked.topic), more)?;
    at(&reader, &asked.topic, 0)?;
    take(&reader, count, PATIENCE)
}

fn texts(messages: &[OwnedMessage]) -> Vec<String> {
    messages.iter().map(|message| String::from_utf8_lossy(message.payload().unwrap_or_default()).into_owned()).collect()
}

async fn there_and_back(asked: &Asked, more: &[(&str, &str)]) -> Said {
    send(asked, &values(0, COUNT), more).await?;
    same(texts(&read(asked, COUNT, &[])?), values(0, COUNT))?;
    Ok(String::new())
}

fn connect(asked: &Asked) -> Said {
    let found = consumer(asked, &asked.topic, &[])?.fetch_metadata(Some(&asked.topic), PATIENCE)?;
    same(found.topics()[0].partitions().len(), 4)?;
    Ok(String::new())
}

async fn records(asked: &Asked) -> Said {
    let zeros = [0u8; 100];
    let wanted: [(Option<&[u8]>, Option<&[u8]>); 5] = [
        (Some(b"key"), Some(b"value")),
        (None, Some(b"no key")),
        (Some(b"gone"), None),
        (Some(b"empty"), Some(b"")),
        (Some(b"\x00\xff"), Some(&zeros)),
    ];
    let made = producer(asked, &[])?;
    for (key, value) in wanted {
        let mut record = FutureRecord::<[u8], [u8]>::to(&asked.topic).partition(0);
        (record.key, record.payload) = (key, value);
        made.send(record, PATIENCE).await.map_err(|(error, _)| error)?;
    }
    let found = read(asked, wanted.len(), &[])?;
    same(found.iter().map(|message| (message.key(), message.payload())).collect::<Vec<_>>(), wanted.to_vec())?;
    Ok(String::new())
}

async fn headers(asked: &Asked) -> Said {
    let wanted = [("one", "1"), ("one", "again"), ("empty", "")];
    let sent = wanted.iter().fold(OwnedHeaders::new(), |all, (key, value)| all.insert(Header { key, value: Some(*value) }));
    let record = FutureRecord::<str, str>::to(&asked.topic).partition(0).payload("v").headers(sent);
    producer(asked, &[])?.send(record, PATIENCE).await.map_err(|(error, _)| error)?;
    let found = read(asked, 1, &[])?;
    let headers = found[0].headers().ok_or("no headers")?;
    let said: Vec<_> = headers.iter().map(|each| (each.key, each.value)).collect();
    same(said, wanted.iter().map(|(key, value)| (*key, Some(value.as_bytes()))).collect())?;
    Ok(String::new())
}

async fn timed(asked: &Asked, count: i64, step_ms: i64) -> Done {
    let made = producer(asked, &[])?;
    for number in 0..count {
        let value = number.to_string();
        let record = FutureRecord::<str, str>::to(&asked.topic).partition(0).payload(&value);
        made.send(record.timestamp(FIRST_MS + number * step_ms), PATIENCE).await.map_err(|(error, _)| error)?;
    }
    Ok(())
}

async fn timestamps(asked: &Asked) -> Said {
    timed(asked, 5, 1).await?;
    let found: Vec<_> = read(asked, 5, &[])?.iter().map(|message| message.timestamp().to_millis()).collect();
    same(found, (0..5).map(|number| Some(FIRST_MS + number)).collect())?;
    Ok(String::new())
}

async fn codecs(asked: &Asked) -> Said {
    let mut sent = Vec::new();
    for name in ["gzip", "snappy", "lz4", "zstd"] {
        send(asked, &values(0, COUNT), &[("compression.codec", name), ("linger.ms", "20")]).await?;
        sent.extend(values(0, COUNT));
        same(texts(&read(asked, sent.len(), &[])?), sent.clone())?;
    }
    Ok("gzip, snappy, lz4, zstd".to_owned())
}

async fn transactions(asked: &Asked) -> Said {
    let made = producer(asked, &[("transactional.id", &asked.topic)])?;
    made.init_transactions(PATIENCE)?;
    for number in 0..4 {
        made.begin_transaction()?;
        deliver(&made, &asked.topic, &[number.to_string(), number.to_string()]).await?;
        if number % 2 == 0 {
            made.commit_transaction(PATIENCE)?;
        } else {
            made.abort_transaction(PATIENCE)?;
        }
    }
    let everything = read(asked, 8, &[("isolation.level", "read_uncommitted")])?;
    same(texts(&everything), strings("0 0 1 1 2 2 3 3"))?;
    same(texts(&read(asked, 4, &[("isolation.level", "read_committed")])?), strings("0 0 2 2"))?;
    Ok(String::new())
}

/// Polls in a thread of its own, and tells how many partitions it has.
struct Member {
    partitions: Arc<AtomicUsize>,
    leaving: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Member {
    fn join(asked: &Asked, more: &[(&str, &str)]) -> Done<Member> {
        let reader = consumer(asked, &asked.topic, more)?;
        reader.subscribe(&[&asked.topic])?;
        let (partitions, leaving) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (has, ends) = (partitions.clone(), leaving.clone());
        let thread = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                reader.poll(Duration::from_millis(50));
                has.store(reader.assignment().map_or(0, |assigned| assigned.count()), Ordering::Relaxed);
            }
        });
        Ok(Member { partitions, leaving, thread })
    }

    fn leave(self) {
        self.leaving.store(true, Ordering::Relaxed);
        self.thread.join().expect("it polls to the end");
    }
}

fn until_they_have(members: &[&Member], each: usize) -> Done {
    let late = deadline(Duration::from_secs(40));
    while members.iter().any(|member| member.partitions.load(Ordering::Relaxed) != each) {
        if late() {
            return Err(format!("not within 40 s: {} members have {each} partitions each", members.len()).into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn group(asked: &Asked, more: &[(&str, &str)]) -> Said {
    let one = Member::join(asked, more)?;
    until_they_have(&[&one], 4)?;
    let two = Member::join(asked, more)?;
    until_they_have(&[&one, &two], 2)?;
    one.leave();
    until_they_have(&[&two], 4)?;
    two.leave();
    Ok(String::new())
}

async fn commit(asked: &Asked) -> Said {
    send(asked, &values(0, COUNT), &[]).await?;
    let one = consumer(asked, &asked.topic, &[])?;
    one.subscribe(&[&asked.topic])?;
    take(&one, 30, PATIENCE)?;
    let mut place = TopicPartitionList::new();
    place.add_partition_offset(&asked.topic, 0, Offset::Offset(30))?;
    one.commit(&place, CommitMode::Sync)?;
    same(one.committed_offsets(place, PATIENCE)?.elements()[0].offset(), Offset::Offset(30))?;
    drop(one);
    let two = consumer(asked, &asked.topic, &[])?;
    two.subscribe(&[&asked.topic])?;
    same(texts(&take(&two, COUNT - 30, PATIENCE)?), values(30, COUNT))?;
    Ok(String::new())
}

async fn seek(asked: &Asked) -> Said {
    timed(asked, 10, 1000).await?;
    let reader = consumer(asked, &asked.topic, &[])?;
    let mut place = TopicPartitionList::new();
    place.add_partition_offset(&asked.topic, 0, Offset::Offset(FIRST_MS + 4500))?;
    same(reader.offsets_for_times(place, PATIENCE)?.elements()[0].offset(), Offset::Offset(5))?;
    same(reader.fetch_watermarks(&asked.topic, 0, PATIENCE)?, (0, 10))?;
    at(&reader, &asked.topic, 5)?;
    same(texts(&take(&reader, 5, PATIENCE)?), strings("5 6 7 8 9"))?;
    Ok(String::new())
}

async fn admin(asked: &Asked) -> Said {
    let caller: AdminClient<DefaultClientContext> = config(asked, &[]).create()?;
    let (name, options) = (format!("{}-made", asked.topic), AdminOptions::new());
    for result in caller.create_topics(&[NewTopic::new(&name, 1, TopicReplication::Fixed(1))], &options).await? {
        result.map_err(|(_, code)| format!("create: {code}"))?;
    }
    for result in caller.create_partitions(&[NewPartitions::new(&name, 3)], &options).await? {
        result.map_err(|(_, code)| format!("grow: {code}"))?;
    }
    let late = deadline(PATIENCE);
    while caller.inner().fetch_metadata(Some(&name), PATIENCE)?.topics()[0].partitions().len() != 3 {
        if late() {
            return Err("not three partitions".into());
        }
    }
    let place = ResourceSpecifier::Topic(&name);
    let entries = HashMap::from([("retention.ms", "7654321")]);
    for result in caller.alter_configs(&[AlterConfig { specifier: place, entries }], &options).await? {
        result.map_err(|(_, code)| format!("alter: {code}"))?;
    }
    for result in caller.describe_configs(&[ResourceSpecifier::Topic(&name)], &options).await? {
        let found = result.map_err(|code| format!("describe: {code}"))?;
        same(found.get("retention.ms").and_then(|entry| entry.value.clone()), Some("7654321".to_owned()))?;
    }
    for result in caller.delete_topics(&[&name], &options).await? {
        result.map_err(|(_, code)| format!("delete: {code}"))?;
    }
    Ok(String::new())
}

async fn large(asked: &Asked) -> Said {
    send(asked, &large_ones(), &[]).await?;
    same(texts(&read(asked, 5, &[])?), large_ones())?;
    Ok(String::new())
}

async fn restart(asked: &Asked) -> Said {
    let made = producer(asked, &[])?;
    let reader = consumer(asked, &asked.topic, &[("session.timeout.ms", "10000")])?;
    reader.subscribe(&[&asked.topic])?;
    deliver(&made, &asked.topic, &values(0, 50)).await?;
    let mut found = texts(&take(&reader, 50, PATIENCE)?);
    await_restart()?;
    deliver(&made, &asked.topic, &values(50, COUNT)).await?;
    let late = deadline(Duration::from_secs(40));
    while found.len() < COUNT && !late() {
        found.extend(texts(&take(&reader, 1, Duration::from_secs(1)).unwrap_or_default()));
        found.sort();
        found.dedup(); // what was not committed may come again
    }
    let mut wanted = values(0, COUNT);
    wanted.sort();
    same(found, wanted)?;
    Ok(String::new())
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let asked = asked();
    let quick = [("heartbeat.interval.ms", "300"), ("session.timeout.ms", "10000")];
    end(match asked.scenario.as_str() {
        "connect" => connect(&asked),
        "produce" | SECURE => there_and_back(&asked, &[]).await,
        "records" => records(&asked).await,
        "headers" => headers(&asked).await,
        "timestamps" => timestamps(&asked).await,
        "codecs" => codecs(&asked).await,
        "idempotent" => there_and_back(&asked, &[("enable.idempotence", "true")]).await,
        "transactions" => transactions(&asked).await,
        "group" => group(&asked, &quick),
        "next_group" => group(&asked, &[("group.protocol", "consumer")]),
        "commit" => commit(&asked).await,
        "seek" => seek(&asked).await,
        "admin" => admin(&asked).await,
        "large" => large(&asked).await,
        "restart" => restart(&asked).await,
        _ => not_supported("the program has nothing of the kind"),
    })
}
