//! rskafka, which knows partitions and no groups.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use chrono::DateTime;
use rskafka::client::controller::ControllerClient;
use rskafka::client::error::{Error as ClientError, ProtocolError};
use rskafka::client::partition::{Compression, OffsetAt, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::Record;

const FIRST_MS: i64 = 1_700_000_000_000;
const TIMEOUT_MS: i32 = 10_000;

type Said = Result<String, Box<dyn Error>>;

async fn create(controller: &ControllerClient, name: &str) -> Result<String, ClientError> {
    let topic = format!("{name}-{}", std::process::id());
    controller.create_topic(topic.clone(), 1, 1, TIMEOUT_MS).await?;
    tokio::time::sleep(Duration::from_millis(300)).await; // Kafka's brokers learn it a little later
    Ok(topic)
}

fn record(index: usize) -> Record {
    Record {
        key: Some(b"k".to_vec()),
        value: Some(vec![b'v'; index]),
        headers: BTreeMap::from([("h".to_owned(), b"1".to_vec())]),
        timestamp: DateTime::from_timestamp_millis(FIRST_MS + 1000 * index as i64).expect("a time"),
    }
}

fn is(error: &ClientError, wanted: ProtocolError) -> bool {
    matches!(error, ClientError::ServerError { protocol_error, .. } if *protocol_error == wanted)
}

async fn compressed(client: &Client, controller: &ControllerClient, name: &str, codec: Compression) -> Said {
    let topic = create(controller, name).await?;
    let partition = client.partition_client(topic, 0, UnknownTopicHandling::Retry).await?;
    partition.produce((0..500).map(record).collect(), codec).await?;
    let mut size = 0;
    let mut next = 0;
    while next < 500 {
        for got in partition.fetch_records(next, 1..1_000_000, 1_000).await?.0 {
            size += got.record.value.map_or(0, |value| value.len()) + got.record.headers.len();
            next = got.offset + 1;
        }
    }
    let later = DateTime::from_timestamp_millis(FIRST_MS + 4_500).expect("a time");
    let at = partition.get_offset(OffsetAt::Timestamp(later)).await?;
    partition.delete_records(7, TIMEOUT_MS).await?;
    let first = partition.get_offset(OffsetAt::Earliest).await?;
    let beyond = partition.fetch_records(9_999, 1..1_000, 100).await.expect_err("beyond the end");
    Ok(format!("{next} {size} {at} {first} {}", is(&beyond, ProtocolError::OffsetOutOfRange)))
}

async fn admin(client: &Client, controller: &ControllerClient) -> Said {
    let topic = create(controller, "admin").await?;
    let listed = client.list_topics().await?.iter().any(|known| known.name == topic);
    let again = controller.create_topic(topic.clone(), 1, 1, TIMEOUT_MS).await.expect_err("it exists");
    controller.delete_topic(topic.clone(), TIMEOUT_MS).await?;
    let missing = controller.delete_topic(topic, TIMEOUT_MS).await.expect_err("it is gone");
    let exists = is(&again, ProtocolError::TopicAlreadyExists);
    Ok(format!("{listed} {exists} {}", is(&missing, ProtocolError::UnknownTopicOrPartition)))
}

fn say(name: &str, said: Said) {
    println!("{name}: {}", said.unwrap_or_else(|error| format!("failed: {error}")));
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let bootstrap = std::env::args().nth(1).ok_or("which broker?")?;
    let client = ClientBuilder::new(vec![bootstrap]).build().await?;
    let controller = client.controller_client()?;
    for (name, codec) in [
        ("none", Compression::NoCompression),
        ("gzip", Compression::Gzip),
        ("snappy", Compression::Snappy),
        ("lz4", Compression::Lz4),
        ("zstd", Compression::Zstd),
    ] {
        say(name, compressed(&client, &controller, name, codec).await);
    }
    say("admin", admin(&client, &controller).await);
    Ok(())
}
