//! No call holds up another: work that stalls takes the places of its own lane, and everything else goes on beside it
//! (protocol.md 17, 1).

use anyhow::{Context, Result};
use mainstay_executor::Config;
use mainstay_testkit::http_server::HttpServer;
use mainstay_testkit::program::{HANG, gone};
use mainstay_testkit::rpc_client::RpcClient;
use serde_json::{Value, json};

use crate::support::{Rig, decode, event, follow, ok, sh, start};

/// More files than have a place (32), beside those whose answers wait for the client.
const FILES: usize = 48;

/// More bodies than have a place (64).
const BODIES: usize = 80;

/// Starts a program that only a terminate ends; its process id.
async fn start_sleeper(client: &mut RpcClient, id: &str) -> Result<u32> {
    start(client, sh(id, "echo $$; exec sleep 1000")).await?;
    let chunk = decode(&event(client, id).await?["params"]["chunk"])?;
    Ok(std::str::from_utf8(&chunk)?.trim().parse()?)
}

#[tokio::test]
async fn files_that_nobody_takes_hold_up_neither_a_terminate_nor_a_status() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.session().await?;
    let pid = start_sleeper(&mut client, "p").await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("file");
    std::fs::write(&file, vec![b'x'; 1 << 20])?;
    let path = format!("file://{}", file.display());
    let mut reads = Vec::new();
    for _ in 0..FILES {
        reads.push(client.send("fs/readFile", json!({"path": path})).await?);
    }
    // All places are taken by answers that wait for this client to read, which it does not.
    let terminate = client
        .send("process/terminate", json!({"processId": "p"}))
        .await?;
    gone(pid, HANG).await?;
    let status = client.send("environment/status", json!({})).await?;
    let mut behind = None;
    let mut answered = 0;
    while answered < FILES {
        let message = client.until(|message| message.get("id").is_some()).await?;
        let id = message["id"].as_i64().unwrap_or_default();
        if id == terminate {
            assert_eq!(message["result"], json!({"running": true}));
        } else if id == status {
            assert!(message.get("result").is_some(), "{message}");
            behind = Some(FILES - answered);
        } else if reads.contains(&id) {
            assert!(message.get("result").is_some(), "{message}");
            answered += 1;
        }
    }
    let behind = behind.context("the status was not answered before the last file")?;
    assert!(behind > 1, "{behind} files came after the status");
    follow(&mut client, "p").await?;
    Ok(())
}

#[tokio::test]
async fn servers_that_do_not_finish_hold_up_neither_files_nor_processes() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let server = HttpServer::start().await?;
    let (mut client, _) = rig.session().await?;
    let pid = start_sleeper(&mut client, "p").await?;
    let request = |path: &str, id: usize| -> Value {
        json!({"method": "GET", "url": server.url(path), "requestId": id.to_string()})
    };
    for number in 0..BODIES {
        // One never gets its head, the other has more of its body than it gets here.
        for (path, id) in [("/gate", number), ("/slowstream", BODIES + number)] {
            client.send("http/request", request(path, id)).await?;
        }
    }
    server.until_requests(2 * BODIES as u64).await;
    ok(&mut client, "environment/status", json!({})).await?;
    let metadata = json!({"path": "file:///tmp"});
    ok(&mut client, "fs/getMetadata", metadata).await?;
    let answer = ok(&mut client, "process/terminate", json!({"processId": "p"})).await?;
    assert_eq!(answer, json!({"running": true}));
    gone(pid, HANG).await?;
    follow(&mut client, "p").await?;
    Ok(())
}
