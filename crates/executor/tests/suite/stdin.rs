//! What a client writes to a program (protocol.md 6).

use anyhow::Result;
use mainstay_executor::Config;
use serde_json::json;

use crate::support::{
    Rig, encode, event, follow, ok, refused, sh, sh_with, sha256, start, until_output,
};

#[tokio::test]
async fn t13_stdin_and_write_ids() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.session().await?;
    start(
        &mut client,
        sh_with("cat", "cat", json!({"pipeStdin": true})),
    )
    .await?;
    let write =
        |text: &str, id: &str| json!({"processId": "cat", "chunk": encode(text), "writeId": id});
    let accepted = json!({"status": "accepted"});
    for (text, id) in [
        ("one\n", "w1"),
        ("one\n", "w1"),
        ("DIFFERENT\n", "w1"),
        ("", "w2"),
        ("two\n", "w3"),
    ] {
        assert_eq!(
            ok(&mut client, "process/write", write(text, id)).await?,
            accepted
        );
    }
    until_output(&mut client, "cat", "one\ntwo\n").await?;
    assert_eq!(
        ok(
            &mut client,
            "process/terminate",
            json!({"processId": "cat"})
        )
        .await?,
        json!({"running": true})
    );
    assert_eq!(follow(&mut client, "cat").await?.exit, Some(137));
    let failed = (-32603, "failed to write to process stdin".to_owned());
    assert_eq!(
        refused(&mut client, "process/write", write("late", "w4")).await?,
        failed
    );
    assert_eq!(
        ok(&mut client, "process/write", write("late", "w1")).await?,
        accepted
    );

    start(&mut client, sh("nostdin", "cat")).await?;
    let closed = json!({"status": "stdinClosed"});
    let params = json!({"processId": "nostdin", "chunk": "eA==", "writeId": "w"});
    assert_eq!(ok(&mut client, "process/write", params).await?, closed);
    assert_eq!(follow(&mut client, "nostdin").await?.exit, Some(0));
    Ok(())
}

#[tokio::test]
async fn pipelined_writes_keep_their_order_and_the_close_comes_last() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.session().await?;
    let mut expected = Vec::new();
    let first = client
        .send(
            "process/start",
            sh_with("cat", "sha256sum", json!({"pipeStdin": true})),
        )
        .await?;
    let mut ids = vec![first];
    for number in 0..300_u32 {
        let chunk = number.to_le_bytes().repeat(4096);
        expected.extend_from_slice(&chunk);
        let params =
            json!({"processId": "cat", "chunk": encode(&chunk), "writeId": number.to_string()});
        ids.push(client.send("process/write", params).await?);
    }
    for _ in 0..2 {
        ids.push(
            client
                .send("mainstay/closeStdin", json!({"processId": "cat"}))
                .await?,
        );
    }
    for id in ids.split_off(1) {
        assert_eq!(client.answer(id).await?, Ok(json!({"status": "accepted"})));
    }
    let late = json!({"processId": "cat", "chunk": "eA==", "writeId": "late"});
    let _ = client.send("process/write", late).await?;
    let story = follow(&mut client, "cat").await?;
    let sum = sha256(&expected);
    assert_eq!(String::from_utf8(story.stdout)?, format!("{sum}  -\n"));
    Ok(())
}

#[tokio::test]
async fn a_program_that_never_reads_holds_up_its_own_writes_only() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.session().await?;
    start(
        &mut client,
        sh_with("deaf", "exec sleep 100", json!({"pipeStdin": true})),
    )
    .await?;
    let chunk = encode(vec![b'x'; 64 * 1024]);
    let mut ids = Vec::new();
    for number in 0..200 {
        let params = json!({"processId": "deaf", "chunk": chunk, "writeId": number.to_string()});
        ids.push(client.send("process/write", params).await?);
    }
    // The pipe takes one chunk, the queue 128.
    for id in &ids[..129] {
        assert_eq!(client.answer(*id).await?, Ok(json!({"status": "accepted"})));
    }
    ok(&mut client, "environment/status", json!({})).await?;
    let read = ok(&mut client, "process/read", json!({"processId": "deaf"})).await?;
    assert_eq!(read["exited"], false);
    assert_eq!(
        ok(
            &mut client,
            "process/terminate",
            json!({"processId": "deaf"})
        )
        .await?,
        json!({"running": true})
    );
    // The end of the pipe may be noticed before the end of the program.
    let closed = Ok(json!({"status": "stdinClosed"}));
    let failed = Err(json!({"code": -32603, "message": "failed to write to process stdin"}));
    for id in &ids[131..] {
        let answer = client.answer(*id).await?;
        assert!(answer == closed || answer == failed, "{answer:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_program_that_closed_its_stdin_says_so() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.session().await?;
    let script = "exec <&-; echo closed; sleep 100";
    start(
        &mut client,
        sh_with("p", script, json!({"pipeStdin": true})),
    )
    .await?;
    event(&mut client, "p").await?;
    for number in 0.. {
        let params = json!({"processId": "p", "chunk": "eA==", "writeId": number.to_string()});
        if ok(&mut client, "process/write", params).await? == json!({"status": "stdinClosed"}) {
            break;
        }
    }
    Ok(())
}
