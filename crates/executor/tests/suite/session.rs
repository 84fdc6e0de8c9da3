//! Sessions and resume (protocol.md 4).

use anyhow::Result;
use mainstay_executor::Config;
use serde_json::json;

use crate::support::{
    Fifo, Rig, decode, encode, event, follow, ok, refused, resumed, run, sh, sh_with, start,
};

#[tokio::test]
async fn t20_a_resume_while_attached_is_refused_and_disturbs_nobody() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut first, id) = rig.session().await?;
    let mut second = rig.connect().await?;
    let params = json!({"clientName": "t", "resumeSessionId": id});
    let text = format!("session {id} is already attached to another connection");
    assert_eq!(
        refused(&mut second, "initialize", params).await?,
        (-32010, text)
    );
    ok(&mut first, "environment/status", json!({})).await?;
    assert_ne!(second.initialize(None).await?["sessionId"], json!(id));
    Ok(())
}

/// Params of a resume.
fn resume(id: &str) -> serde_json::Value {
    json!({"clientName": "t", "resumeSessionId": id})
}

#[tokio::test]
async fn t21_output_and_exit_while_away_are_read_after_the_resume() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, id) = rig.session().await?;
    let fifo = Fifo::new()?;
    let script = format!(
        "echo one; cat {} >/dev/null; echo two; echo err >&2; exit 5",
        fifo.path()
    );
    start(&mut client, sh("p", &script)).await?;
    assert_eq!(event(&mut client, "p").await?["params"]["seq"], 1);
    client.abort();
    let mut client = resumed(&rig, &id).await?;
    fifo.release()?;
    // Live events begin where the log ended at the resume; what was before is read.
    let story = follow(&mut client, "p").await?;
    assert_eq!(
        (story.stdout, story.exit, story.seqs.first()),
        (b"two\n".to_vec(), Some(5), Some(&2))
    );
    client.abort();
    let mut client = resumed(&rig, &id).await?;
    let read = ok(
        &mut client,
        "process/read",
        json!({"processId": "p", "afterSeq": 1}),
    )
    .await?;
    assert_eq!(
        (&read["exitCode"], &read["closed"]),
        (&json!(5), &json!(true))
    );
    let texts: Vec<_> = read["chunks"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|c| decode(&c["chunk"]).unwrap())
        .collect();
    assert_eq!(texts.concat(), b"two\nerr\n");
    assert_eq!(
        refused(&mut client, "process/start", sh("p", "true"))
            .await?
            .1,
        "process p already exists"
    );
    Ok(())
}

#[tokio::test]
async fn t23_live_events_follow_the_resume_result_before_initialized() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, id) = rig.session().await?;
    start(&mut client, sh("p", "while :; do echo x; sleep 0.01; done")).await?;
    client.abort();
    let mut client = rig.connect().await?;
    loop {
        let request = client.send("initialize", resume(&id)).await?;
        let first = client.next().await?;
        assert_eq!(first["id"], json!(request), "the answer comes first");
        if first.get("result").is_some() {
            break;
        }
        // The abort has not been noticed yet.
        assert_eq!(first["error"]["code"], -32010);
    }
    event(&mut client, "p").await?;
    let early = refused(&mut client, "process/read", json!({"processId": "p"})).await?;
    assert_eq!(
        early.1,
        "client must send initialized before using exec methods"
    );
    client.notify("initialized", json!({})).await?;
    ok(&mut client, "process/terminate", json!({"processId": "p"})).await?;
    follow(&mut client, "p").await?;
    Ok(())
}

#[tokio::test]
async fn t24_a_clean_close_keeps_the_session_and_its_write_ids() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, id) = rig.session().await?;
    start(&mut client, sh_with("p", "cat", json!({"pipeStdin": true}))).await?;
    let write = |id: &str| json!({"processId": "p", "chunk": encode("a\n"), "writeId": id});
    ok(&mut client, "process/write", write("w1")).await?;
    event(&mut client, "p").await?;
    client.close().await?;
    let mut client = resumed(&rig, &id).await?;
    ok(&mut client, "process/write", write("w1")).await?;
    ok(&mut client, "process/write", write("w2")).await?;
    ok(
        &mut client,
        "mainstay/closeStdin",
        json!({"processId": "p"}),
    )
    .await?;
    let story = follow(&mut client, "p").await?;
    assert_eq!((story.stdout, story.seqs), (b"a\n".to_vec(), vec![2, 3, 4]));
    Ok(())
}

#[tokio::test]
async fn t25_an_open_long_poll_does_not_delay_the_resume() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, id) = rig.session().await?;
    start(&mut client, sh("p", "exec sleep 100")).await?;
    client
        .send(
            "process/read",
            json!({"processId": "p", "waitMs": u64::MAX}),
        )
        .await?;
    client.abort();
    let mut client = resumed(&rig, &id).await?;
    assert_eq!(
        ok(&mut client, "process/terminate", json!({"processId": "p"})).await?,
        json!({"running": true})
    );
    Ok(())
}

#[tokio::test]
async fn t27_after_the_retention_the_session_is_unknown_and_its_programs_are_gone() -> Result<()> {
    let retention = std::time::Duration::from_millis(100);
    let rig = Rig::start(Config::default().session_retention(retention)).await?;
    let (mut client, id) = rig.session().await?;
    let fifo = Fifo::new()?;
    // The program holds the writing end open for as long as it lives.
    start(
        &mut client,
        sh(
            "p",
            &format!("exec 3>{}; echo ready; exec sleep 1000", fifo.path()),
        ),
    )
    .await?;
    let mut reader = fifo.open_to_read()?;
    event(&mut client, "p").await?;
    client.abort();
    let end = tokio::task::spawn_blocking(move || std::io::Read::read(&mut reader, &mut [0]));
    assert_eq!(end.await??, 0);
    let mut client = rig.connect().await?;
    loop {
        let (code, text) = refused(&mut client, "initialize", resume(&id)).await?;
        if (code, text) == (-32600, format!("unknown session id {id}")) {
            return Ok(());
        }
    }
}

#[tokio::test]
async fn a_resume_in_time_stops_the_retention() -> Result<()> {
    let retention = std::time::Duration::from_millis(300);
    let rig = Rig::start(Config::default().session_retention(retention)).await?;
    let (mut client, id) = rig.session().await?;
    start(&mut client, sh("p", "exec sleep 1000")).await?;
    client.abort();
    let mut client = resumed(&rig, &id).await?;
    // Longer than the retention, measured by a long poll.
    let read = json!({"processId": "p", "waitMs": 600});
    assert_eq!(
        ok(&mut client, "process/read", read).await?["exited"],
        false
    );
    ok(&mut client, "environment/status", json!({})).await?;
    Ok(())
}

#[tokio::test]
async fn a_take_over_needs_no_wait_and_tells_the_other() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut first, id) = rig.session().await?;
    start(&mut first, sh("p", "echo one; exec sleep 100")).await?;
    event(&mut first, "p").await?;
    let (mut second, answer) = rig
        .extended(
            Some(&id),
            json!({"capabilities": ["mainstayTakeOver"], "takeOver": true}),
        )
        .await?;
    assert_eq!(answer["sessionId"], json!(id));
    let close = first.ended().await.expect("a close frame");
    assert_eq!(
        (u16::from(close.code), close.reason.as_str()),
        (4010, "session taken over by another connection")
    );
    ok(&mut second, "process/terminate", json!({"processId": "p"})).await?;
    assert_eq!(follow(&mut second, "p").await?.exit, Some(137));
    Ok(())
}

#[tokio::test]
async fn ending_a_session_kills_and_forgets() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, id) = rig.session().await?;
    let fifo = Fifo::new()?;
    start(
        &mut client,
        sh(
            "p",
            &format!("exec 3>{}; echo ready; exec sleep 1000", fifo.path()),
        ),
    )
    .await?;
    let mut reader = fifo.open_to_read()?;
    event(&mut client, "p").await?;
    assert_eq!(
        ok(&mut client, "mainstay/endSession", json!({})).await?,
        json!({})
    );
    assert_eq!(
        client.ended().await.map(|close| u16::from(close.code)),
        Some(1000)
    );
    let end = tokio::task::spawn_blocking(move || std::io::Read::read(&mut reader, &mut [0]));
    assert_eq!(end.await??, 0);
    let mut client = rig.connect().await?;
    assert_eq!(
        refused(&mut client, "initialize", resume(&id)).await?.0,
        -32600
    );
    Ok(())
}

#[tokio::test]
async fn the_process_list_has_running_and_ended_ones_in_the_order_of_their_starts() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.session().await?;
    assert_eq!(
        ok(&mut client, "mainstay/processes", json!({})).await?,
        json!({"processes": []})
    );
    start(
        &mut client,
        sh_with("b", "exec sleep 100", json!({"tty": true})),
    )
    .await?;
    run(&mut client, "a", "echo x; exit 4").await?;
    let list = ok(&mut client, "mainstay/processes", json!({})).await?;
    let argv = |script: &str| json!(["/bin/sh", "-c", script]);
    assert_eq!(
        list,
        json!({"processes": [
            {"processId": "b", "argv": argv("exec sleep 100"), "tty": true, "nextSeq": 1, "exited": false,
             "exitCode": null, "closed": false},
            {"processId": "a", "argv": argv("echo x; exit 4"), "tty": false, "nextSeq": 4, "exited": true,
             "exitCode": 4, "closed": true},
        ]})
    );
    Ok(())
}

#[tokio::test]
async fn without_credit_the_oldest_output_is_forgotten_while_away_and_the_client_is_told()
-> Result<()> {
    let rig = Rig::start(Config::default().output_log(128 << 10)).await?;
    let announced = json!({"capabilities": ["mainstayFirstSeq"]});
    let (mut client, answer) = rig.extended(None, announced.clone()).await?;
    let id = answer["sessionId"].as_str().unwrap_or_default().to_owned();
    let fifo = Fifo::new()?;
    let script = format!("cat {} >/dev/null; seq 1 200000; exit 0", fifo.path());
    start(&mut client, sh("p", &script)).await?;
    client.abort();
    fifo.release()?;
    let mut client = loop {
        match rig.extended(Some(&id), announced.clone()).await {
            Ok((client, _)) => break client,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    let read = loop {
        let params = json!({"processId": "p", "afterSeq": u64::MAX, "waitMs": 60_000});
        let read = ok(&mut client, "process/read", params).await?;
        if read["closed"] == true {
            break ok(&mut client, "process/read", json!({"processId": "p"})).await?;
        }
    };
    let chunks = read["chunks"].as_array().cloned().unwrap_or_default();
    assert!(
        read["mainstayFirstSeq"].as_u64() > Some(1),
        "{}",
        read["mainstayFirstSeq"]
    );
    assert!(read["mainstayFirstSeq"].as_u64() <= chunks[0]["seq"].as_u64());
    let kept: Vec<u8> = chunks
        .iter()
        .flat_map(|chunk| decode(&chunk["chunk"]).unwrap())
        .collect();
    assert!(
        kept.len() > 64 << 10 && kept.len() <= 128 << 10,
        "{}",
        kept.len()
    );
    assert!(kept.ends_with(b"199999\n200000\n"));
    Ok(())
}

#[tokio::test]
async fn shutdown_asks_programs_to_end_and_kills_those_that_do_not() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.session().await?;
    let said = tempfile::tempdir()?;
    let file = said.path().join("said");
    let polite = format!(
        "trap 'echo bye > {}; exit 0' TERM; echo ready; while :; do sleep 0.01; done",
        file.display()
    );
    start(&mut client, sh("polite", &polite)).await?;
    start(
        &mut client,
        sh(
            "stubborn",
            "trap '' TERM; echo ready; while :; do sleep 0.01; done",
        ),
    )
    .await?;
    event(&mut client, "polite").await?;
    event(&mut client, "stubborn").await?;
    rig.executor
        .shutdown(std::time::Duration::from_millis(300))
        .await;
    assert_eq!(std::fs::read_to_string(&file)?, "bye\n");
    let close = client.ended().await.expect("a close frame");
    assert_eq!(
        (u16::from(close.code), close.reason.as_str()),
        (1001, "executor shuts down")
    );
    assert!(rig.connect().await.is_err());
    Ok(())
}

#[tokio::test]
async fn a_peer_that_reads_nothing_does_not_hold_up_the_shutdown() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.session().await?;
    client
        .send("process/start", sh("p", "exec cat /dev/zero"))
        .await?;
    // The flood has begun, and nobody reads it.
    event(&mut client, "p").await?;
    let grace = std::time::Duration::from_secs(600);
    let shutdown = rig.executor.shutdown(grace);
    tokio::time::timeout(std::time::Duration::from_secs(60), shutdown).await?;
    Ok(())
}
