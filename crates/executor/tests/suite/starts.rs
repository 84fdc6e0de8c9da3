//! Starting programs, what they say, and what stays of them (protocol.md 6, 7).

use anyhow::Result;
use mainstay_executor::Config;
use serde_json::{Value, json};

use crate::support::{Fifo, Rig, follow, ok, refused, run, sh, sh_with, start};

#[tokio::test]
async fn t10_output_exit_and_close() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.session().await?;
    let story = run(&mut client, "p", "printf out; printf err >&2; exit 3").await?;
    assert_eq!(
        (story.stdout, story.stderr, story.exit),
        (b"out".to_vec(), b"err".to_vec(), Some(3))
    );
    assert_eq!(story.shape, "oxc");
    assert_eq!(story.seqs, [1, 2, 3, 4]);
    let read = ok(
        &mut client,
        "process/read",
        json!({"processId": "p", "afterSeq": 2}),
    )
    .await?;
    assert_eq!(
        read,
        json!({"chunks": [], "nextSeq": 5, "exited": true, "exitCode": 3, "closed": true, "failure": null,
               "sandboxDenied": false})
    );
    Ok(())
}

#[tokio::test]
async fn t11_failed_starts() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.session().await?;
    let not_found = "No such file or directory (os error 2)";
    let host = "cwd URI `file://host/share` is not valid on this exec-server host: 'file://host/share' is invalid on 'linux'";
    for (members, code, text, data) in [
        (
            json!({"argv": []}),
            -32602,
            "argv must not be empty",
            Value::Null,
        ),
        (
            json!({"argv": ["/no/such"]}),
            -32603,
            not_found,
            json!({"kind": "spawnNotFound", "mainstayMissing": "program"}),
        ),
        (
            json!({"argv": ["no-such"]}),
            -32603,
            not_found,
            json!({"kind": "spawnNotFound", "mainstayMissing": "program"}),
        ),
        (
            json!({"cwd": "file:///no/such"}),
            -32603,
            not_found,
            json!({"kind": "spawnNotFound", "mainstayMissing": "cwd"}),
        ),
        (
            json!({"cwd": "file:///no/such", "tty": true}),
            -32603,
            not_found,
            json!({"kind": "spawnNotFound", "mainstayMissing": "cwd"}),
        ),
        (
            json!({"cwd": "/workspace"}),
            -32602,
            "invalid URI: relative URL without a base",
            Value::Null,
        ),
        (
            json!({"cwd": "http://x/"}),
            -32602,
            "unsupported path URI scheme `http`",
            Value::Null,
        ),
        (
            json!({"cwd": "file://host/share"}),
            -32602,
            host,
            Value::Null,
        ),
        (
            json!({"argv": [""]}),
            -32603,
            "missing program for pipe spawn",
            json!({"kind": "spawnFailed"}),
        ),
        (
            json!({"argv": [""], "tty": true}),
            -32603,
            "missing program for PTY spawn",
            json!({"kind": "spawnFailed"}),
        ),
        (
            json!({"argv": ["/bin/tr\0ue"]}),
            -32603,
            "nul byte found in provided data",
            json!({"kind": "spawnFailed"}),
        ),
        (
            json!({"argv": ["/tmp"]}),
            -32603,
            "Permission denied (os error 13)",
            json!({"kind": "spawnPermissionDenied"}),
        ),
        (
            json!({"cwd": "file:///etc/passwd"}),
            -32603,
            "Not a directory (os error 20)",
            json!({"kind": "spawnFailed"}),
        ),
    ] {
        let answer = client
            .call("process/start", sh_with("e", "", members.clone()))
            .await?;
        let mut expected = json!({"code": code, "message": text});
        if !data.is_null() {
            expected["data"] = data;
        }
        assert_eq!(answer, Err(expected), "{members}");
    }
    // A failed start leaves no trace.
    assert_eq!(
        refused(&mut client, "process/read", json!({"processId": "e"}))
            .await?
            .1,
        "unknown process id e"
    );
    run(&mut client, "e", "true").await?;
    Ok(())
}

#[tokio::test]
async fn t11_an_id_stays_taken_after_the_end() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.session().await?;
    start(&mut client, sh("dup", "sleep 30")).await?;
    let taken = (-32600, "process dup already exists".to_owned());
    assert_eq!(
        refused(&mut client, "process/start", sh("dup", "true")).await?,
        taken
    );
    assert_eq!(
        ok(
            &mut client,
            "process/terminate",
            json!({"processId": "dup"})
        )
        .await?,
        json!({"running": true})
    );
    assert_eq!(follow(&mut client, "dup").await?.exit, Some(137));
    assert_eq!(
        refused(&mut client, "process/start", sh("dup", "true")).await?,
        taken
    );
    assert_eq!(
        ok(
            &mut client,
            "process/terminate",
            json!({"processId": "dup"})
        )
        .await?,
        json!({"running": false})
    );
    Ok(())
}

#[tokio::test]
async fn t12_unknown_processes() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.session().await?;
    let unknown = (-32600, "unknown process id zz".to_owned());
    assert_eq!(
        refused(&mut client, "process/read", json!({"processId": "zz"})).await?,
        unknown
    );
    for (method, params, answer) in [
        (
            "process/write",
            json!({"processId": "zz", "chunk": "eA==", "writeId": "w"}),
            json!({"status": "unknownProcess"}),
        ),
        (
            "process/signal",
            json!({"processId": "zz", "signal": "interrupt"}),
            json!({}),
        ),
        (
            "process/terminate",
            json!({"processId": "zz"}),
            json!({"running": false}),
        ),
    ] {
        assert_eq!(ok(&mut client, method, params).await?, answer);
    }
    for (method, params, text) in [
        (
            "process/signal",
            json!({"processId": "zz", "signal": "kill"}),
            "unknown variant `kill`, expected `interrupt`",
        ),
        (
            "process/signal",
            json!({"processId": "zz"}),
            "missing field `signal`",
        ),
        (
            "process/write",
            json!({"processId": "zz", "chunk": "eA==", "writeId": ""}),
            "writeId must not be empty",
        ),
        (
            "process/write",
            json!({"processId": "zz", "chunk": "!!!notb64", "writeId": "w"}),
            "Invalid symbol 33, offset 0.",
        ),
    ] {
        assert_eq!(
            refused(&mut client, method, params).await?,
            (-32602, text.to_owned())
        );
    }
    Ok(())
}

#[tokio::test]
async fn t17_an_ended_process_is_forgotten_after_its_retention() -> Result<()> {
    let retention = std::time::Duration::from_millis(50);
    let rig = Rig::start(Config::default().process_retention(retention)).await?;
    let (mut client, _) = rig.session().await?;
    run(&mut client, "p", "echo hi").await?;
    while client
        .call("process/read", json!({"processId": "p"}))
        .await?
        .is_ok()
    {}
    assert_eq!(
        refused(&mut client, "process/read", json!({"processId": "p"}))
            .await?
            .1,
        "unknown process id p"
    );
    let write = json!({"processId": "p", "chunk": "eA==", "writeId": "w"});
    assert_eq!(
        ok(&mut client, "process/write", write).await?,
        json!({"status": "unknownProcess"})
    );
    // The id is free, and what runs is not forgotten.
    let fifo = Fifo::new()?;
    start(
        &mut client,
        sh("p", &format!("cat {} > /dev/null", fifo.path())),
    )
    .await?;
    run(&mut client, "q", "echo hi").await?;
    while client
        .call("process/read", json!({"processId": "q"}))
        .await?
        .is_ok()
    {}
    ok(&mut client, "process/read", json!({"processId": "p"})).await?;
    fifo.release()?;
    follow(&mut client, "p").await?;
    Ok(())
}

#[tokio::test]
async fn events_arrive_in_the_order_of_their_numbers_after_the_start_result() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.session().await?;
    for number in 0..200 {
        let id = number.to_string();
        let request = client
            .send(
                "process/start",
                sh(&id, "echo a; echo b >&2; echo c; echo d >&2; exit 1"),
            )
            .await?;
        assert_eq!(client.next().await?["id"], json!(request));
        let story = follow(&mut client, &id).await?;
        let expected: Vec<u64> = (1..=story.seqs.len() as u64).collect();
        assert_eq!((story.seqs, story.shape.as_str()), (expected, "oxc"));
        assert_eq!(
            (story.stdout, story.stderr),
            (b"a\nc\n".to_vec(), b"b\nd\n".to_vec())
        );
    }
    Ok(())
}
