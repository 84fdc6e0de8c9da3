//! Signals and the end of programs, with all that descends from them (protocol.md 6).

use anyhow::Result;
use mainstay_executor::Config;
use serde_json::json;

use crate::support::{Rig, decode, event, follow, ok, run, sh, sh_with, start};

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
