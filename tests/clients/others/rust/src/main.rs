//! The operations of rskafka, each as a line of JSON on the standard output: others BROKERS.

use std::collections::BTreeMap;
use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeZone, Utc};
use futures::StreamExt;
use rskafka::client::consumer::{StartOffset, StreamConsumerBuilder};
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::producer::{aggregator::RecordAggregator, BatchProducerBuilder};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::Record;
use rskafka::BackoffConfig;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::{sleep, timeout};

type Seen = Result<String, Box<dyn Error + Send + Sync>>;

const CLIENT: &str = "rskafka 0.6.0";
const TOPIC: &str = "rskafka";
const LIMIT: Duration = Duration::from_secs(30);

async fn operation(name: &str, run: impl Future<Output = Seen>) {
    let (outcome, seen) = match timeout(LIMIT, run).await {
        Ok(Ok(seen)) => ("works", seen),
        Ok(Err(error)) => ("fails", error.to_string()),
        Err(_) => ("fails", format!("no answer in {} s", LIMIT.as_secs())),
    };
    println!(
        "{}",
        json!({"client": CLIENT, "operation": name, "outcome": outcome, "seen": seen})
    );
}

/// An operation that must be refused: what works is the refusal.
async fn refused(name: &str, expected: &str, run: impl Future<Output = Seen>) {
    operation(name, async {
        match run.await {
            Ok(seen) => Err(format!("not refused: {seen}").into()),
            Err(error) if error.to_string().contains(expected) => Ok(expected.to_string()),
            Err(error) => Err(error),
        }
    })
    .await;
}

fn record(value: Option<Vec<u8>>) -> Record {
    Record {
        key: value.as_ref().map(|_| b"k".to_vec()),
        value,
        headers: BTreeMap::new(),
        timestamp: Utc.timestamp_millis_opt(1_700_000_000_000).unwrap(),
    }
}

async fn partition(
    client: &Client,
    number: i32,
) -> Result<PartitionClient, rskafka::client::error::Error> {
    client
        .partition_client(TOPIC, number, UnknownTopicHandling::Retry)
        .await
}

async fn round_trip(
    client: &Client,
    number: i32,
    sent: Record,
    codec: Compression,
) -> Result<Record, Box<dyn Error + Send + Sync>> {
    let partition = partition(client, number).await?;
    let offset = partition.produce(vec![sent], codec).await?[0];
    let (found, _) = partition.fetch_records(offset, 1..2_000_000, 5_000).await?;
    let first = found.into_iter().find(|each| each.offset == offset);
    Ok(first.ok_or("the record is not there")?.record)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let brokers = std::env::args().nth(1).ok_or("no brokers")?;
    let backoff = BackoffConfig {
        deadline: Some(Duration::from_secs(20)),
        ..Default::default()
    };
    let client = ClientBuilder::new(brokers.split(',').map(str::to_string).collect())
        .backoff_config(backoff)
        .build()
        .await?;
    topics(&client).await;
    records(&client).await;
    offsets(&client).await;
    rolling(&client).await;
    let controller = client.controller_client()?;
    operation("delete topics", async {
        for topic in client.list_topics().await? {
            if topic.name.starts_with(TOPIC) {
                controller.delete_topic(topic.name, 5_000).await?;
            }
        }
        Ok(String::new())
    })
    .await;
    refused(
        "delete an unknown topic",
        "UnknownTopicOrPartition",
        async {
            controller.delete_topic("rskafka-unknown", 5_000).await?;
            Ok(String::new())
        },
    )
    .await;
    Ok(())
}

async fn topics(client: &Client) {
    let controller = match client.controller_client() {
        Ok(controller) => controller,
        Err(error) => return operation("find the controller", async { Err(error.into()) }).await,
    };
    operation("create a topic", async {
        controller.create_topic(TOPIC, 9, 3, 5_000).await?;
        Ok(String::new())
    })
    .await;
    refused("create a topic that exists", "TopicAlreadyExists", async {
        controller.create_topic(TOPIC, 9, 3, 5_000).await?;
        Ok(String::new())
    })
    .await;
    operation("create a topic with the brokers' defaults", async {
        controller
            .create_topic("rskafka-defaults", -1, -1, 5_000)
            .await?;
        Ok(String::new())
    })
    .await;
    operation("list topics", async {
        sleep(Duration::from_secs(1)).await;
        let found = client.list_topics().await?;
        let mut own: Vec<String> = found
            .into_iter()
            .filter(|each| each.name.starts_with(TOPIC))
            .map(|each| format!("{} {}", each.name, each.partitions.len()))
            .collect();
        own.sort();
        Ok(own.join(", "))
    })
    .await;
}

async fn records(client: &Client) {
    let codecs = [
        ("none", Compression::NoCompression),
        ("gzip", Compression::Gzip),
        ("snappy", Compression::Snappy),
        ("lz4", Compression::Lz4),
        ("zstd", Compression::Zstd),
    ];
    for (name, codec) in codecs {
        operation(&format!("produce and consume, {name}"), async {
            let found = round_trip(client, 4, record(Some(vec![b'v'; 1000])), codec).await?;
            Ok(format!(
                "{} bytes",
                found.value.map_or(0, |value| value.len())
            ))
        })
        .await;
    }
    let plain = Compression::NoCompression;
    operation("headers", async {
        let mut sent = record(Some(b"v".to_vec()));
        sent.headers.insert("name".to_string(), b"value".to_vec());
        Ok(format!(
            "{:?}",
            round_trip(client, 5, sent, plain).await?.headers
        ))
    })
    .await;
    operation("null key and value", async {
        let found = round_trip(client, 6, record(None), plain).await?;
        Ok(format!("{:?} {:?}", found.key, found.value))
    })
    .await;
    operation("a record's own time", async {
        let found = round_trip(client, 6, record(None), plain).await?;
        Ok(found.timestamp.timestamp_millis().to_string())
    })
    .await;
    operation("a large record", async {
        let found = round_trip(client, 7, record(Some(vec![0; 900_000])), plain).await?;
        Ok(format!(
            "{} bytes",
            found.value.map_or(0, |value| value.len())
        ))
    })
    .await;
    refused("a record that is too large", "MessageTooLarge", async {
        round_trip(client, 7, record(Some(vec![0; 5_000_000])), plain).await?;
        Ok(String::new())
    })
    .await;
    operation("produce with the batch producer", async {
        let partition = Arc::new(partition(client, 3).await?);
        let producer = BatchProducerBuilder::new(partition).build(RecordAggregator::new(1_000_000));
        Ok(producer
            .produce(record(Some(b"batched".to_vec())))
            .await?
            .to_string())
    })
    .await;
    operation("consume from the beginning", async {
        let partition = Arc::new(partition(client, 3).await?);
        let mut stream = StreamConsumerBuilder::new(partition, StartOffset::Earliest)
            .with_max_wait_ms(1_000)
            .build();
        let (found, _) = stream.next().await.ok_or("the stream ended")??;
        Ok(format!(
            "{} {:?}",
            found.offset,
            found.record.value.map(|value| value.len())
        ))
    })
    .await;
    refused(
        "consume from where there is nothing",
        "OffsetOutOfRange",
        async {
            let partition = partition(client, 3).await?;
            let (found, _) = partition
                .fetch_records(1_000_000, 1..1_000_000, 1_000)
                .await?;
            Ok(found.len().to_string())
        },
    )
    .await;
}

async fn offsets(client: &Client) {
    let early: DateTime<Utc> = Utc.timestamp_millis_opt(1).unwrap();
    for (name, at) in [
        ("earliest offset", OffsetAt::Earliest),
        ("latest offset", OffsetAt::Latest),
        ("offset of a time", OffsetAt::Timestamp(early)),
    ] {
        operation(name, async {
            Ok(partition(client, 4)
                .await?
                .get_offset(at)
                .await?
                .to_string())
        })
        .await;
    }
    operation("delete records", async {
        let partition = partition(client, 4).await?;
        partition.delete_records(2, 5_000).await?;
        Ok(partition.get_offset(OffsetAt::Earliest).await?.to_string())
    })
    .await;
}

/// Has the harness restart active controllers, and creates topics meanwhile.
async fn rolling(client: &Client) {
    println!(
        "{}",
        json!({"client": CLIENT, "ask": "restart controllers"})
    );
    let mut answers = BufReader::new(tokio::io::stdin()).lines();
    let restarted = answers.next_line();
    tokio::pin!(restarted);
    let (mut count, mut failed) = (0, Vec::new());
    loop {
        let made = async {
            let controller = client.controller_client()?;
            controller
                .create_topic(format!("rskafka-rolling-{count}"), 1, 1, 10_000)
                .await
        };
        if let Err(error) = made.await {
            failed.push(error.to_string());
        }
        count += 1;
        if timeout(Duration::from_millis(100), &mut restarted)
            .await
            .is_ok()
        {
            break;
        }
    }
    operation("create topics while controllers restart", async {
        match failed.first() {
            Some(first) => Err(format!("{} of {count}: {first}", failed.len()).into()),
            None => Ok("none fails".to_string()),
        }
    })
    .await;
}
