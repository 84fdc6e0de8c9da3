//! Reading a program's log, and clients that do not take what they are sent (protocol.md 5, 6).

use anyhow::Result;
use mainstay_executor::Config;
use serde_json::json;

use crate::support::{Fifo, Rig, decode, encode, event, follow, ok, refused, run, sh, start};

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

#[tokio::test]
async fn reads_that_wait_for_room_are_answered_though_their_program_ends_meanwhile() -> Result<()> {
    const BYTES: usize = 6_000_000;
    let rig = Rig::start(Config::default().output_log(8 << 20)).await?;
    let (mut client, _) = rig.session().await?;
    let (mut observer, _) = rig.session().await?;
    let fifo = Fifo::new()?;
    let script = format!(
        "echo $$; head -c {BYTES} /dev/zero; exec cat {}",
        fifo.path()
    );
    start(&mut client, sh("p", &script)).await?;
    let mut seen = Vec::new();
    while seen.iter().filter(|byte| **byte == 0).count() < BYTES {
        seen.extend(decode(&event(&mut client, "p").await?["params"]["chunk"])?);
    }
    let pid = seen.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let pid = std::str::from_utf8(pid)?.parse()?;
    // One of these answers is all there is room for, and nobody takes it.
    let mut reads = Vec::new();
    for _ in 0..2 {
        reads.push(
            client
                .send("process/read", json!({"processId": "p"}))
                .await?,
        );
    }
    ok(&mut observer, "environment/status", json!({})).await?;
    fifo.release()?;
    mainstay_testkit::program::gone(pid, mainstay_testkit::program::HANG).await?;
    // What the executor does about the exit, it does before it has answered all of these.
    for _ in 0..50 {
        ok(&mut observer, "environment/status", json!({})).await?;
    }
    for read in reads {
        let answer = client.answer(read).await?.expect("a log");
        let bytes: Result<Vec<usize>> = answer["chunks"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|chunk| Ok(decode(&chunk["chunk"])?.len()))
            .collect();
        assert!(bytes?.iter().sum::<usize>() > BYTES);
    }
    follow(&mut client, "p").await?;
    Ok(())
}
