//! Ways out: signals, deaths, and what is left behind.

use std::{process::Stdio, time::Duration};

use anyhow::{Context, Result};
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdout};

use mainstay_testkit::{
    place::Place,
    program::{HANG, finish, marked, signal, tree, until_gone},
};

use crate::BIN;

/// A run whose command says `ready` first; returns it with the rest of its output.
async fn ready(
    place: &Place,
    flags: &[&str],
    script: &str,
) -> Result<(Child, BufReader<ChildStdout>)> {
    let args = [flags, &["--", "sh", "-c", script]].concat();
    let mut child = place
        .run(&args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut output = BufReader::new(child.stdout.take().context("no output")?);
    let mut line = String::new();
    tokio::time::timeout(HANG, output.read_line(&mut line))
        .await
        .context("hangs")??;
    anyhow::ensure!(line == "ready\n", "{line:?}");
    Ok((child, output))
}

/// What a killed executor leaves is gone within 30 ms on an idle machine; this one may be busy.
const CLEAN_UP: Duration = Duration::from_secs(3);

/// A number of seconds that nobody else sleeps for.
fn mark(number: u32) -> String {
    format!("4242{:07}.{number}", std::process::id())
}

/// The mark as the shell makes it: the command lines of `run` and of the shell do not carry it, only the marked process does.
fn hidden(mark: &str) -> String {
    let (head, tail) = mark.split_at(4);
    format!("{head}''{tail}")
}

async fn code(child: &mut Child) -> Result<Option<i32>> {
    Ok(tokio::time::timeout(HANG, child.wait())
        .await
        .context("hangs")??
        .code())
}

async fn errors(child: &mut Child) -> Result<String> {
    let mut text = String::new();
    child
        .stderr
        .as_mut()
        .context("no errors")?
        .read_to_string(&mut text)
        .await?;
    Ok(text)
}

#[tokio::test]
async fn the_first_interrupt_is_the_commands_the_second_ends_it() -> Result<()> {
    let place = Place::direct(BIN).await?;
    let (mut child, mut output) = ready(
        &place,
        &[],
        "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.01; done",
    )
    .await?;
    signal(child.id().context("running")?, Signal::INT);
    assert_eq!(code(&mut child).await?, Some(9), "the command decides");
    let mut rest = String::new();
    output.read_to_string(&mut rest).await?;
    assert_eq!(rest, "caught\n");

    let mark = &mark(1);
    let (mut child, mut output) = ready(
        &place,
        &[],
        &format!(
            "trap 'echo no' INT; echo ready; while :; do sleep {hidden}; done",
            hidden = hidden(mark)
        ),
    )
    .await?;
    signal(child.id().context("running")?, Signal::INT);
    let mut line = String::new();
    output.read_line(&mut line).await?;
    signal(child.id().context("running")?, Signal::INT);
    assert_eq!(code(&mut child).await?, Some(130));
    until_gone(mark, HANG).await?;
    Ok(())
}

#[tokio::test]
async fn terminate_and_hangup_end_the_command_and_run() -> Result<()> {
    let place = Place::direct(BIN).await?;
    for (number, mark, expected) in [(Signal::TERM, &mark(2), 143), (Signal::HUP, &mark(3), 129)] {
        let (mut child, _) = ready(
            &place,
            &[],
            &format!("echo ready; sleep {hidden} & wait", hidden = hidden(mark)),
        )
        .await?;
        signal(child.id().context("running")?, number);
        assert_eq!(code(&mut child).await?, Some(expected));
        until_gone(mark, HANG).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_terminated_command_may_clean_up() -> Result<()> {
    let place = Place::direct(BIN).await?;
    let (mut child, mut output) = ready(
        &place,
        &[],
        "trap 'echo cleaned; exit 1' TERM; echo ready; while :; do sleep 0.01; done",
    )
    .await?;
    signal(child.id().context("running")?, Signal::TERM);
    assert_eq!(code(&mut child).await?, Some(143));
    let mut rest = String::new();
    output.read_to_string(&mut rest).await?;
    assert_eq!(rest, "cleaned\n");
    Ok(())
}

#[tokio::test]
async fn a_killed_executor_is_a_lost_command() -> Result<()> {
    for place in [Place::direct(BIN).await?, Place::separate(BIN).await?] {
        let mark = &if place.name == "direct" {
            mark(4)
        } else {
            mark(5)
        };
        let (mut child, _) = ready(
            &place,
            &["--recover-for", "3s"],
            &format!("echo ready; exec sleep {hidden}", hidden = hidden(mark)),
        )
        .await?;
        let start = std::time::Instant::now();
        signal(
            place.executor.as_ref().context("its own")?.ward()?,
            Signal::KILL,
        );
        until_gone(mark, CLEAN_UP)
            .await
            .context("the guard leaves nothing behind")?;
        assert_eq!(code(&mut child).await?, Some(125), "{}", place.name);
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "{}: {:?}",
            place.name,
            start.elapsed()
        );
        let text = errors(&mut child).await?;
        assert!(
            text.contains("the command is lost"),
            "{}: {text}",
            place.name
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_killed_guard_takes_everything_with_it() -> Result<()> {
    let place = Place::direct(BIN).await?;
    let mark = &mark(0);
    let script = format!(
        "echo ready; setsid sleep {hidden} & nohup sleep {hidden} & wait",
        hidden = hidden(mark)
    );
    let (mut child, _) = ready(&place, &["--recover-for", "1s"], &script).await?;
    place.executor.context("its own")?.kill().await?;
    until_gone(mark, CLEAN_UP).await?;
    // Whether the client still hears that the command was killed depends on who is faster.
    assert!(matches!(code(&mut child).await?, Some(125 | 137)));
    Ok(())
}

#[tokio::test]
async fn a_killed_run_leaves_nothing_after_retention() -> Result<()> {
    let place = Place::direct_with(BIN, &["--retention", "1s"]).await?;
    let mark = &mark(6);
    let (mut child, _) = ready(
        &place,
        &[],
        &format!("echo ready; sleep {hidden} & wait", hidden = hidden(mark)),
    )
    .await?;
    child.kill().await?;
    until_gone(mark, Duration::from_secs(10)).await?;
    Ok(())
}

#[tokio::test]
async fn a_killed_embedded_run_leaves_nothing() -> Result<()> {
    let place = Place::embedded(BIN);
    let mark = &mark(7);
    let (mut child, _) = ready(
        &place,
        &[],
        &format!(
            "echo ready; setsid sleep {hidden} & nohup sleep {hidden} & wait",
            hidden = hidden(mark)
        ),
    )
    .await?;
    let all = tree(child.id().context("running")?);
    assert!(all.len() >= 2, "guard and executor: {all:?}");
    child.kill().await?;
    until_gone(mark, CLEAN_UP).await?;
    Ok(())
}

#[tokio::test]
async fn executor_and_registry_leave_on_request() -> Result<()> {
    for number in [Signal::TERM, Signal::INT] {
        let place = Place::separate(BIN).await?;
        let mark = &if number == Signal::TERM {
            mark(8)
        } else {
            mark(9)
        };
        let (mut child, _) = ready(
            &place,
            &["--recover-for", "1s"],
            &format!("echo ready; exec sleep {hidden}", hidden = hidden(mark)),
        )
        .await?;
        let executor = place.executor.context("its own")?;
        let registry = place.registry.context("its own")?.server;
        signal(executor.pid(), number);
        assert_eq!(executor.wait().await?, Some(0));
        assert!(marked(mark).is_empty(), "its commands end first");
        assert_eq!(code(&mut child).await?, Some(125));
        signal(registry.pid(), number);
        assert_eq!(registry.wait().await?, Some(0));
    }
    Ok(())
}

#[tokio::test]
async fn a_stdio_executor_ends_with_its_input() -> Result<()> {
    let request = "{\"id\":1,\"method\":\"initialize\",\"params\":{\"clientName\":\"x\"}}\n";
    let done = finish(
        &mut BIN.command(["executor", "--listen", "stdio"]),
        request.as_bytes(),
    )
    .await?;
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(
        String::from_utf8_lossy(&done.stdout).contains("\"sessionId\""),
        "{done:?}"
    );
    Ok(())
}
