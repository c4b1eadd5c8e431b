//! rskafka, which knows partitions and no groups.

mod scenario;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder, Credentials, SaslConfig};
use rskafka::record::Record;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::CertificateDer;
use scenario::*;

fn builder(asked: &Asked) -> Done<ClientBuilder> {
    let made = ClientBuilder::new(vec![asked.bootstrap.clone()]);
    if asked.scenario != "security" {
        return Ok(made);
    }
    let mut known = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(setting("MATRIX_CA"))? {
        known.add(certificate?)?;
    }
    let tls = rustls::ClientConfig::builder().with_root_certificates(known).with_no_client_auth();
    let who = Credentials::new(setting("MATRIX_USER"), setting("MATRIX_PASSWORD"));
    Ok(made.tls_config(Arc::new(tls)).sasl_config(SaslConfig::ScramSha512(who)))
}

async fn client(asked: &Asked) -> Done<Client> {
    Ok(builder(asked)?.build().await?)
}

async fn partition(asked: &Asked) -> Done<PartitionClient> {
    let known = client(asked).await?;
    Ok(known.partition_client(asked.topic.clone(), 0, UnknownTopicHandling::Retry).await?)
}

fn at(ms: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(ms).expect("a time")
}

fn record(value: &str, ms: i64) -> Record {
    let (key, value) = (Some(b"k".to_vec()), Some(value.as_bytes().to_vec()));
    Record { key, value, headers: BTreeMap::new(), timestamp: at(ms) }
}

fn of(sent: &[String]) -> Vec<Record> {
    sent.iter().map(|value| record(value, FIRST_MS)).collect()
}

async fn read(partition: &PartitionClient, from: i64, count: usize) -> Done<Vec<Record>> {
    let (mut got, mut next, late) = (Vec::new(), from, deadline(PATIENCE));
    while got.len() < count {
        for found in partition.fetch_records(next, 1..8_000_000, 500).await?.0 {
            next = found.offset + 1;
            got.push(found.record);
        }
        if late() {
            return Err(format!("{} records of {count}", got.len()).into());
        }
    }
    Ok(got)
}

fn texts(records: &[Record]) -> Vec<String> {
    let text = |record: &Record| String::from_utf8_lossy(record.value.as_deref().unwrap_or_default()).into_owned();
    records.iter().map(text).collect()
}

async fn connect(asked: &Asked) -> Said {
    let known = client(asked).await?.list_topics().await?;
    let here = known.iter().find(|topic| topic.name == asked.topic).ok_or("no such topic")?;
    same(here.partitions.len(), 4)?;
    Ok(String::new())
}

async fn there_and_back(asked: &Asked, sent: Vec<String>) -> Said {
    let here = partition(asked).await?;
    for each in sent.chunks(20.min(1 + 1_000_000 / sent[0].len() / 2)) {
        here.produce(of(each), Compression::NoCompression).await?;
    }
    same(texts(&read(&here, 0, sent.len()).await?), sent)?;
    Ok(String::new())
}

async fn records(asked: &Asked) -> Said {
    let here = partition(asked).await?;
    let wanted: Vec<(Option<Vec<u8>>, Option<Vec<u8>>)> = vec![
        (Some(b"key".to_vec()), Some(b"value".to_vec())),
        (None, Some(b"no key".to_vec())),
        (Some(b"gone".to_vec()), None),
        (Some(b"empty".to_vec()), Some(Vec::new())),
        (Some(b"\x00\xff".to_vec()), Some(vec![0; 100])),
    ];
    let made = |(key, value): &(Option<Vec<u8>>, Option<Vec<u8>>)| Record {
        key: key.clone(),
        value: value.clone(),
        headers: BTreeMap::new(),
        timestamp: at(FIRST_MS),
    };
    here.produce(wanted.iter().map(made).collect(), Compression::NoCompression).await?;
    let found = read(&here, 0, wanted.len()).await?;
    same(found.into_iter().map(|record| (record.key, record.value)).collect(), wanted)?;
    Ok(String::new())
}

async fn timestamps(asked: &Asked) -> Said {
    let here = partition(asked).await?;
    let times: Vec<_> = (0..5).map(|number| at(FIRST_MS + number)).collect();
    let sent = times.iter().map(|time| record("v", time.timestamp_millis())).collect();
    here.produce(sent, Compression::NoCompression).await?;
    same(read(&here, 0, 5).await?.iter().map(|record| record.timestamp).collect(), times)?;
    Ok(String::new())
}

async fn codecs(asked: &Asked) -> Said {
    let here = partition(asked).await?;
    let mut sent = Vec::new();
    for codec in [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        here.produce(of(&values(0, COUNT)), codec).await?;
        sent.extend(values(0, COUNT));
        same(texts(&read(&here, 0, sent.len()).await?), sent.clone())?;
    }
    Ok("gzip, snappy, lz4, zstd".to_owned())
}

async fn seek(asked: &Asked) -> Said {
    let here = partition(asked).await?;
    let sent = (0..10).map(|number| record(&number.to_string(), FIRST_MS + 1000 * number)).collect();
    here.produce(sent, Compression::NoCompression).await?;
    same(here.get_offset(OffsetAt::Timestamp(at(FIRST_MS + 4500))).await?, 5)?;
    same((here.get_offset(OffsetAt::Earliest).await?, here.get_offset(OffsetAt::Latest).await?), (0, 10))?;
    same(texts(&read(&here, 5, 5).await?), strings("5 6 7 8 9"))?;
    Ok(String::new())
}

async fn admin(asked: &Asked) -> Said {
    let (known, name) = (client(asked).await?, format!("{}-made", asked.topic));
    let controller = known.controller_client()?;
    controller.create_topic(name.clone(), 3, 1, 10_000).await?;
    controller.delete_topic(name, 10_000).await?;
    not_supported("the client makes and deletes topics, and has no configs")
}

async fn restart(asked: &Asked) -> Said {
    let here = partition(asked).await?;
    here.produce(of(&values(0, 50)), Compression::NoCompression).await?;
    same(texts(&read(&here, 0, 50).await?), values(0, 50))?;
    await_restart()?;
    let later = here.produce(of(&values(50, COUNT)), Compression::NoCompression);
    tokio::time::timeout(Duration::from_secs(40), later).await??;
    same(texts(&read(&here, 50, 50).await?), values(50, COUNT))?;
    Ok(String::new())
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let asked = asked();
    end(match asked.scenario.as_str() {
        "connect" => connect(&asked).await,
        "produce" | "security" => there_and_back(&asked, values(0, COUNT)).await,
        "records" => records(&asked).await,
        "headers" => not_supported("the client has one header of a name"),
        "timestamps" => timestamps(&asked).await,
        "codecs" => codecs(&asked).await,
        "seek" => seek(&asked).await,
        "admin" => admin(&asked).await,
        "large" => there_and_back(&asked, large_ones()).await,
        "restart" => restart(&asked).await,
        _ => not_supported("the program has nothing of the kind"),
    })
}
