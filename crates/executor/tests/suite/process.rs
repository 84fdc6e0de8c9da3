//! The process family (protocol.md 6, 7).

use anyhow::Result;
use mainstay_executor::Config;
use serde_json::{Value, json};

use crate::support::{
    Fifo, Rig, decode, encode, event, follow, ok, refused, run, sh, sh_with, sha256, start,
    until_output,
};

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

#[tokio::test]
async fn t14_terminals() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.session().await?;
    let script = "stty size; read x; echo got:$x; cat";
    start(&mut client, sh_with("tty", script, json!({"tty": true}))).await?;
    let first = event(&mut client, "tty").await?;
    assert_eq!(first["params"]["stream"], "pty");
    assert_eq!(decode(&first["params"]["chunk"])?, b"24 80\r\n");
    for (text, seen) in [
        ("hello\n", "hello\r\ngot:hello\r\n"),
        // That cat runs: a shell that is about to start it would lose the interrupt.
        ("ping\n", "ping\r\nping\r\n"),
    ] {
        let params = json!({"processId": "tty", "chunk": encode(text), "writeId": text});
        ok(&mut client, "process/write", params).await?;
        until_output(&mut client, "tty", seen).await?;
    }
    let interrupt = json!({"processId": "tty", "signal": "interrupt"});
    ok(&mut client, "process/signal", interrupt).await?;
    let story = follow(&mut client, "tty").await?;
    assert_eq!((story.exit, story.shape.as_str()), (Some(130), "xc"));
    Ok(())
}

#[tokio::test]
async fn a_terminal_has_the_size_it_was_given_and_follows_it() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.session().await?;
    let script = "trap 'stty size' WINCH; stty size; while :; do sleep 0.01; done";
    let members = json!({"tty": true, "mainstay": {"size": {"rows": 50, "cols": 132}}});
    start(&mut client, sh_with("tty", script, members)).await?;
    assert_eq!(
        decode(&event(&mut client, "tty").await?["params"]["chunk"])?,
        b"50 132\r\n"
    );
    ok(
        &mut client,
        "mainstay/resize",
        json!({"processId": "tty", "rows": 10, "cols": 20}),
    )
    .await?;
    assert_eq!(
        decode(&event(&mut client, "tty").await?["params"]["chunk"])?,
        b"10 20\r\n"
    );
    Ok(())
}

#[tokio::test]
async fn closing_a_terminals_stdin_types_end_of_file() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.session().await?;
    start(
        &mut client,
        sh_with(
            "tty",
            "stty -echo; echo ready; cat; echo end",
            json!({"tty": true}),
        ),
    )
    .await?;
    event(&mut client, "tty").await?;
    let params = json!({"processId": "tty", "chunk": encode("line\n"), "writeId": "w"});
    ok(&mut client, "process/write", params).await?;
    assert_eq!(
        ok(
            &mut client,
            "mainstay/closeStdin",
            json!({"processId": "tty"})
        )
        .await?,
        json!({"status": "accepted"})
    );
    let story = follow(&mut client, "tty").await?;
    assert_eq!(
        (String::from_utf8(story.pty)?.as_str(), story.exit),
        ("line\r\nend\r\n", Some(0))
    );
    Ok(())
}

#[tokio::test]
async fn t14_interrupt_terminate_and_exit_codes() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.session().await?;
    let loop_with = |trap: &str| format!("trap {trap}; echo ready; while :; do sleep 0.01; done");
    start(&mut client, sh("int", &loop_with("'echo INT; exit 9' INT"))).await?;
    event(&mut client, "int").await?;
    ok(
        &mut client,
        "process/signal",
        json!({"processId": "int", "signal": "interrupt"}),
    )
    .await?;
    let story = follow(&mut client, "int").await?;
    assert_eq!((story.stdout, story.exit), (b"INT\n".to_vec(), Some(9)));

    start(
        &mut client,
        sh("term", &loop_with("'echo TERM; exit 7' TERM")),
    )
    .await?;
    event(&mut client, "term").await?;
    ok(
        &mut client,
        "process/terminate",
        json!({"processId": "term"}),
    )
    .await?;
    let story = follow(&mut client, "term").await?;
    assert_eq!((story.stdout, story.exit), (vec![], Some(137)));

    for (script, code) in [
        ("kill -9 $$", 137),
        ("kill -15 $$", 143),
        ("exit 0", 0),
        ("exit 255", 255),
    ] {
        let story = run(&mut client, script, script).await?;
        assert_eq!(
            (story.exit, story.shape.as_str()),
            (Some(code), "xc"),
            "{script}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn more_signals_for_clients_that_announced_themselves() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig
        .extended(None, json!({"capabilities": ["mainstaySignals"]}))
        .await?;
    let signals = [
        ("terminate", "TERM"),
        ("hangup", "HUP"),
        ("quit", "QUIT"),
        ("user1", "USR1"),
        ("user2", "USR2"),
        ("interrupt", "INT"),
    ];
    for (name, native) in signals {
        let script = format!(
            "trap 'echo {native}; exit 3' {native}; echo ready; while :; do sleep 0.01; done"
        );
        start(&mut client, sh(name, &script)).await?;
        event(&mut client, name).await?;
        ok(
            &mut client,
            "process/signal",
            json!({"processId": name, "signal": name}),
        )
        .await?;
        assert_eq!(
            follow(&mut client, name).await?.stdout,
            format!("{native}\n").into_bytes()
        );
    }
    start(&mut client, sh("p", "echo $$; exec sleep 100")).await?;
    let pid = String::from_utf8(decode(&event(&mut client, "p").await?["params"]["chunk"])?)?;
    for (signal, stopped) in [("stop", true), ("continue", false)] {
        ok(
            &mut client,
            "process/signal",
            json!({"processId": "p", "signal": signal}),
        )
        .await?;
        while (state(pid.trim())? == 'T') != stopped {
            tokio::task::yield_now().await;
        }
    }
    ok(
        &mut client,
        "process/signal",
        json!({"processId": "p", "signal": "kill"}),
    )
    .await?;
    assert_eq!(follow(&mut client, "p").await?.exit, Some(137));
    Ok(())
}

/// The state letter of a process.
fn state(pid: &str) -> Result<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    Ok(stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next())
        .unwrap_or('?'))
}

#[tokio::test]
async fn a_graceful_terminate_asks_first_and_kills_then() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.session().await?;
    let script = |trap: &str| format!("trap {trap} TERM; echo ready; while :; do sleep 0.01; done");
    start(&mut client, sh("polite", &script("'echo bye; exit 5'"))).await?;
    event(&mut client, "polite").await?;
    let params = json!({"processId": "polite", "graceMs": 60_000});
    assert_eq!(
        ok(&mut client, "process/terminate", params).await?,
        json!({"running": true})
    );
    let story = follow(&mut client, "polite").await?;
    assert_eq!((story.stdout, story.exit), (b"bye\n".to_vec(), Some(5)));

    start(&mut client, sh("stubborn", &script("'echo no'"))).await?;
    event(&mut client, "stubborn").await?;
    let params = json!({"processId": "stubborn", "graceMs": 2000});
    assert_eq!(
        ok(&mut client, "process/terminate", params).await?,
        json!({"running": true})
    );
    let story = follow(&mut client, "stubborn").await?;
    assert_eq!((story.stdout, story.exit), (b"no\n".to_vec(), Some(137)));
    Ok(())
}

#[tokio::test]
async fn a_terminate_reaches_the_whole_group() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.session().await?;
    // The children hold the output open: closed means that they are gone, too.
    start(
        &mut client,
        sh(
            "tree",
            "sleep 100 & (sleep 100 & sleep 100) & echo ready; wait",
        ),
    )
    .await?;
    event(&mut client, "tree").await?;
    ok(
        &mut client,
        "process/terminate",
        json!({"processId": "tree"}),
    )
    .await?;
    let story = follow(&mut client, "tree").await?;
    assert_eq!((story.exit, story.shape.as_str()), (Some(137), "xc"));
    Ok(())
}

#[tokio::test]
async fn a_terminate_reaches_what_has_left_the_group() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.session().await?;
    for (id, script, tty) in [
        (
            "setsid",
            "setsid -w sleep 100 & setsid -w sh -c 'sleep 100; :' & echo ready; wait",
            false,
        ),
        (
            "jobs",
            "set -m; sleep 100 & (trap '' HUP; sleep 100; :) & echo ready; wait",
            true,
        ),
    ] {
        start(&mut client, sh_with(id, script, json!({"tty": tty}))).await?;
        event(&mut client, id).await?;
        ok(&mut client, "process/terminate", json!({"processId": id})).await?;
        let story = follow(&mut client, id).await?;
        assert_eq!((story.exit, story.shape.ends_with("xc")), (Some(137), true));
    }
    Ok(())
}

#[tokio::test]
async fn t15_a_background_child_delays_the_close_only() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.session().await?;
    let fifo = Fifo::new()?;
    let script = format!(
        "echo a; (cat {} >/dev/null; echo late) & exit 0",
        fifo.path()
    );
    start(&mut client, sh("bg", &script)).await?;
    assert_eq!(event(&mut client, "bg").await?["method"], "process/output");
    assert_eq!(event(&mut client, "bg").await?["method"], "process/exited");
    let read = ok(
        &mut client,
        "process/read",
        json!({"processId": "bg", "afterSeq": 1, "waitMs": 60_000}),
    )
    .await?;
    assert_eq!(
        (&read["exited"], &read["closed"], &read["nextSeq"]),
        (&json!(true), &json!(false), &json!(3))
    );
    let waiting = client
        .send(
            "process/read",
            json!({"processId": "bg", "afterSeq": 2, "waitMs": 60_000}),
        )
        .await?;
    ok(&mut client, "environment/status", json!({})).await?;
    fifo.release()?;
    let answer = client.answer(waiting).await?.expect("read");
    assert_eq!(
        answer["chunks"][0],
        json!({"seq": 3, "stream": "stdout", "chunk": encode("late\n")})
    );
    let story = follow(&mut client, "bg").await?;
    assert_eq!((story.shape.as_str(), story.seqs), ("oc", vec![3, 4]));
    Ok(())
}

#[tokio::test]
async fn t16_a_long_poll_returns_with_the_first_news_or_when_time_is_over() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.session().await?;
    let fifo = Fifo::new()?;
    start(
        &mut client,
        sh("lp", &format!("cat {} >/dev/null; echo tick", fifo.path())),
    )
    .await?;
    let nothing = ok(
        &mut client,
        "process/read",
        json!({"processId": "lp", "waitMs": 20}),
    )
    .await?;
    assert_eq!(
        (&nothing["chunks"], &nothing["nextSeq"], &nothing["exited"]),
        (&json!([]), &json!(1), &json!(false))
    );
    let params = json!({"processId": "lp", "waitMs": u64::MAX});
    let polls = [
        client.send("process/read", params.clone()).await?,
        client.send("process/read", params).await?,
    ];
    ok(&mut client, "environment/status", json!({})).await?;
    fifo.release()?;
    for poll in polls {
        let answer = client.answer(poll).await?.expect("read");
        assert_eq!(answer["chunks"][0]["chunk"], json!(encode("tick\n")));
    }
    let mut after = 1;
    loop {
        let params = json!({"processId": "lp", "afterSeq": after, "waitMs": 60_000});
        let answer = ok(&mut client, "process/read", params).await?;
        if answer["closed"] == true {
            assert_eq!(
                (&answer["exitCode"], &answer["nextSeq"]),
                (&json!(0), &json!(4))
            );
            return Ok(());
        }
        after = answer["nextSeq"].as_u64().unwrap_or(0) - 1;
    }
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

#[tokio::test]
async fn a_client_that_does_not_read_stops_the_program_and_loses_nothing() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.session().await?;
    let (mut observer, _) = rig.session().await?;
    let marker = tempfile::tempdir()?;
    let done = marker.path().join("done");
    let script = format!(
        "head -c 67108864 /dev/zero | tr '\\0' x; echo $$ > {}",
        done.display()
    );
    client.send("process/start", sh("flood", &script)).await?;
    // Meanwhile others are served; the program cannot have ended, nobody takes its 64 MiB.
    for number in 0..200 {
        run(&mut observer, &number.to_string(), "true").await?;
        ok(&mut observer, "environment/status", json!({})).await?;
    }
    assert!(!done.exists());
    let mut total = 0;
    loop {
        let event = event(&mut client, "flood").await?;
        match event["method"].as_str() {
            Some("process/output") => total += decode(&event["params"]["chunk"])?.len(),
            Some("process/closed") => break,
            _ => {}
        }
    }
    assert_eq!(total, 67_108_864);
    Ok(())
}

#[tokio::test]
async fn lanes_t72_long_polls_hold_up_nobody() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let (mut client, _) = rig.session().await?;
    start(&mut client, sh("h", "exec sleep 100")).await?;
    let params = json!({"processId": "h", "waitMs": u64::MAX});
    let mut polls = Vec::new();
    for _ in 0..2048 {
        polls.push(client.send("process/read", params.clone()).await?);
    }
    // The bound is reached: one more is refused, at once.
    let (code, text) = refused(&mut client, "process/read", params).await?;
    assert!(
        code == -32603 && text.starts_with("too many requests in flight"),
        "{text}"
    );
    // A poll that ends makes room; the session's other work never stopped.
    let (mut second, _) = rig.session().await?;
    ok(&mut second, "environment/status", json!({})).await?;
    Ok(())
}
