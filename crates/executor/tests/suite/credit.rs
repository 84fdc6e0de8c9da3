//! `mainstayCredit`: output is complete, and no more of it is sent than granted (docs/protocol-extensions.md).

use anyhow::{Context, Result};
use mainstay_executor::Config;
use mainstay_testkit::rpc_client::RpcClient;
use serde_json::{Value, json};

use crate::support::{Rig, decode, event, ok, sh, sha256, start};

const WINDOW: usize = 1 << 20;

fn announced() -> Value {
    json!({"capabilities": ["mainstayCredit"]})
}

async fn grant(client: &mut RpcClient, id: &str, ack: u64, window: usize) -> Result<()> {
    let params = json!({"processId": id, "ackSeq": ack, "window": window});
    client.notify("mainstay/credit", params).await
}

/// What a client has of one process so far.
#[derive(Default)]
struct Consumer {
    /// From standard output.
    bytes: Vec<u8>,
    stderr: Vec<u8>,
    seq: u64,
    closed: bool,
}

impl Consumer {
    /// Takes the next event, which must be the next number.
    async fn next(&mut self, client: &mut RpcClient, id: &str) -> Result<()> {
        let event = event(client, id).await?;
        let seq = event["params"]["seq"].as_u64().context("seq")?;
        assert_eq!(seq, self.seq + 1);
        self.seq = seq;
        match event["method"].as_str() {
            Some("process/output") => self.take(&event["params"])?,
            Some("process/closed") => self.closed = true,
            _ => {}
        }
        Ok(())
    }

    fn take(&mut self, chunk: &Value) -> Result<()> {
        let stream = if chunk["stream"] == "stderr" {
            &mut self.stderr
        } else {
            &mut self.bytes
        };
        stream.extend(decode(&chunk["chunk"])?);
        Ok(())
    }

    /// Takes what fits below `limit` bytes, and makes sure that nothing more was sent.
    async fn fill(&mut self, client: &mut RpcClient, limit: usize) -> Result<()> {
        const LARGEST: usize = 48 * 1024;
        while self.bytes.len() + LARGEST <= limit {
            self.next(client, "p").await?;
        }
        for _ in 0..20 {
            ok(client, "environment/status", json!({})).await?;
        }
        while client
            .peek(|message| message["method"] == "process/output")
            .is_some()
        {
            self.next(client, "p").await?;
        }
        assert!(self.bytes.len() <= limit, "{} of {limit}", self.bytes.len());
        Ok(())
    }

    /// Reads what happened while nobody listened, in pages, acknowledging each.
    async fn catch_up(&mut self, client: &mut RpcClient, id: &str, upto: u64) -> Result<()> {
        while self.seq < upto {
            let params = json!({"processId": id, "afterSeq": self.seq, "maxBytes": 65_536});
            let page = ok(client, "process/read", params).await?;
            for chunk in page["chunks"].as_array().into_iter().flatten() {
                let seq = chunk["seq"].as_u64().context("seq")?;
                assert!(seq > self.seq);
                self.take(chunk)?;
                self.seq = seq;
            }
            if page["chunks"] == json!([]) {
                // Exit and close are no chunks but have numbers.
                self.seq = page["nextSeq"].as_u64().context("nextSeq")? - 1;
                self.closed = page["closed"] == true;
            }
            grant(client, id, self.seq, WINDOW).await?;
        }
        Ok(())
    }
}

#[tokio::test]
async fn no_more_than_the_window_is_sent_and_the_rest_comes_with_the_next_grant() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.extended(None, announced()).await?;
    start(&mut client, sh("p", "head -c 3000000 /dev/zero")).await?;
    let mut consumer = Consumer::default();
    consumer.fill(&mut client, WINDOW).await?;
    // A grant that acknowledges nothing opens the window by its difference, and no further.
    grant(&mut client, "p", 0, WINDOW + 200_000).await?;
    consumer.fill(&mut client, WINDOW + 200_000).await?;
    let seen = consumer.bytes.len();
    grant(&mut client, "p", consumer.seq, WINDOW).await?;
    consumer.fill(&mut client, seen + WINDOW).await?;
    grant(&mut client, "p", consumer.seq, 4 * WINDOW).await?;
    while !consumer.closed {
        consumer.next(&mut client, "p").await?;
    }
    Ok(())
}

#[tokio::test]
async fn exit_and_close_need_no_credit() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.extended(None, announced()).await?;
    start(&mut client, sh("p", "read x; exit 3")).await?;
    grant(&mut client, "p", 0, 0).await?;
    let mut consumer = Consumer::default();
    while !consumer.closed {
        consumer.next(&mut client, "p").await?;
    }
    assert_eq!(consumer.seq, 2);
    Ok(())
}

#[tokio::test]
async fn a_detached_program_waits_at_the_limit_and_nothing_is_lost_over_many_cuts() -> Result<()> {
    let rig = Rig::start(Config::default().output_log(512 << 10)).await?;
    let (mut client, answer) = rig.extended(None, announced()).await?;
    let session = answer["sessionId"].as_str().context("id")?.to_owned();
    start(&mut client, sh("p", "seq 1 1000000; echo end >&2")).await?;
    let mut consumer = Consumer::default();
    let mut cuts = 0;
    while !consumer.closed {
        for _ in 0..7 {
            if !consumer.closed {
                consumer.next(&mut client, "p").await?;
            }
        }
        grant(&mut client, "p", consumer.seq.saturating_sub(3), WINDOW).await?;
        if consumer.closed {
            break;
        }
        client.abort();
        cuts += 1;
        client = loop {
            match rig.extended(Some(&session), announced()).await {
                Ok((client, _)) => break client,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        let everything = json!({"processId": "p", "afterSeq": u64::MAX});
        let next = ok(&mut client, "process/read", everything).await?["nextSeq"]
            .as_u64()
            .context("nextSeq")?;
        // Live events begin where the log ended when we attached, which is at most here.
        let first_live = client
            .peek(|message| message["method"] == "process/output")
            .map(|m| m["params"]["seq"].as_u64());
        let upto = first_live.flatten().map_or(next - 1, |seq| seq - 1);
        consumer.catch_up(&mut client, "p", upto).await?;
        client.forget(|message| {
            message["params"]["seq"]
                .as_u64()
                .is_some_and(|seq| seq <= consumer.seq)
        });
    }
    let expected: String = (1..=1_000_000)
        .map(|number| format!("{number}\n"))
        .collect();
    assert_eq!(consumer.bytes.len(), expected.len());
    assert_eq!(sha256(&consumer.bytes), sha256(expected.as_bytes()));
    assert_eq!(consumer.stderr, b"end\n");
    assert!(cuts >= 5, "{cuts}");
    Ok(())
}

#[tokio::test]
async fn acknowledged_output_is_forgotten() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let mainstay = json!({"capabilities": ["mainstayCredit", "mainstayFirstSeq"]});
    let (mut client, _) = rig.extended(None, mainstay).await?;
    start(
        &mut client,
        sh("p", "echo a; sleep 0.02; echo b >&2; exec sleep 100"),
    )
    .await?;
    let mut consumer = Consumer::default();
    consumer.next(&mut client, "p").await?;
    consumer.next(&mut client, "p").await?;
    grant(&mut client, "p", 1, WINDOW).await?;
    let read = ok(&mut client, "process/read", json!({"processId": "p"})).await?;
    assert_eq!(
        (
            &read["mainstayFirstSeq"],
            read["chunks"].as_array().map(Vec::len)
        ),
        (&json!(2), Some(1))
    );
    Ok(())
}
