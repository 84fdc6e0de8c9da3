//! How much a client may have under way: what fits is served, one more is refused (the table of limits in
//! docs/testing.md).

use anyhow::{Context, Result};
use mainstay_executor::Config;
use serde_json::json;

use crate::support::{Rig, encode, ok, sh_with, start};

#[tokio::test]
async fn limit_connections() -> Result<()> {
    let rig = Rig::start(Config::default().connections(2)).await?;
    let (first, _) = rig.session().await?;
    let (mut second, _) = rig.session().await?;
    let mut third = rig.connect().await?;
    let close = third.ended().await.context("a reason")?;
    assert_eq!(u16::from(close.code), 1013);
    ok(&mut second, "environment/status", json!({})).await?;
    // There is room again as soon as the first one's end was noticed.
    first.close().await?;
    while rig.session().await.is_err() {}
    Ok(())
}

/// One message of these is 4097 KiB; 31 of them fit 128 MiB.
const WRITE: usize = 3 << 20;

#[tokio::test]
async fn limit_request_bytes() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.session().await?;
    let deaf = sh_with("deaf", "exec sleep 100", json!({"pipeStdin": true}));
    start(&mut client, deaf).await?;
    let chunk = encode(vec![b'x'; WRITE]);
    let write =
        |number: usize| json!({"processId": "deaf", "chunk": chunk, "writeId": number.to_string()});
    // The program's own queue takes 8 MiB and what was begun below that.
    for number in 0..3 {
        let answer = ok(&mut client, "process/write", write(number)).await?;
        assert_eq!(answer, json!({"status": "accepted"}));
    }
    let mut waiting = Vec::new();
    for number in 3..34 {
        waiting.push(client.send("process/write", write(number)).await?);
    }
    ok(&mut client, "environment/status", json!({})).await?;
    assert!(
        client
            .peek(|message| message.get("error").is_some())
            .is_none()
    );
    let too_many = Err(json!({
        "code": -32603,
        "message": "too many requests in flight: the limits are 2048 requests and 128 MiB",
    }));
    assert_eq!(client.call("process/write", write(34)).await?, too_many);
    let terminate = json!({"processId": "deaf"});
    ok(&mut client, "process/terminate", terminate).await?;
    for id in waiting {
        let _ = client.answer(id).await?;
    }
    // There is room again, though nobody who reads it.
    assert_ne!(client.call("process/write", write(34)).await?, too_many);
    Ok(())
}

#[tokio::test]
async fn limit_refusals() -> Result<()> {
    const REFUSALS: usize = 1024;
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.session().await?;
    for _ in 0..REFUSALS {
        client.send_text("x".to_owned()).await?;
    }
    ok(&mut client, "environment/status", json!({})).await?;

    // With answers before them that nobody takes, they cannot be written.
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("file");
    std::fs::write(&file, vec![b'x'; 1 << 20])?;
    let path = json!({"path": format!("file://{}", file.display())});
    let (mut client, _) = rig.session().await?;
    for _ in 0..16 {
        client.send("fs/readFile", path.clone()).await?;
    }
    for _ in 0..4 * REFUSALS {
        client.send_text("x".to_owned()).await?;
    }
    let close = client.ended().await.context("a reason")?;
    assert_eq!(u16::from(close.code), 1008);
    let mut refusals = 0;
    while client.peek(|_| true).is_some() {
        refusals += usize::from(client.next().await?["id"] == -1);
    }
    assert!((REFUSALS..4 * REFUSALS).contains(&refusals), "{refusals}");
    Ok(())
}
