//! Programs in a terminal (protocol.md 6, `mainstay/resize`).

use anyhow::Result;
use mainstay_executor::Config;
use serde_json::json;

use crate::support::{Rig, decode, encode, event, follow, ok, sh_with, start, until_output};

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
