//! Commands that the reference's agent stops: by what is typed, and by ending them.

use anyhow::{Context, Result, ensure};
use mainstay_testkit::{
    reference::Reference,
    responses_api::{ResponsesApi, Step, outputs},
};
use serde_json::json;
use tempfile::TempDir;

use crate::{
    agent::{Destination, pairs, session_of, turn},
    matrix::Outcome,
};

/// One command is interrupted in its terminal and cleans up; another one is terminated from outside the turn.
pub(crate) async fn stopped(reference: Reference, destination: Destination) -> Result<Outcome> {
    let directory = TempDir::new()?;
    let alive = directory.path().join("alive");
    let fifo = std::process::Command::new("mkfifo").arg(&alive).status()?;
    ensure!(fifo.success(), "mkfifo");
    let endless = format!("exec 3> {}; echo up >&3; exec sleep 1000", alive.display());
    let model = ResponsesApi::start(move |request| {
        let outputs = outputs(request);
        match outputs.len() {
            0 => Step::call(
                "exec_command",
                json!({"cmd": "trap 'echo cleaned; exit 9' INT; echo ready; while :; do sleep 0.01; done", "tty": true, "yield_time_ms": 500}),
            ),
            1 => match session_of(&outputs[0]) {
                Some(session) => Step::call(
                    "write_stdin",
                    json!({"session_id": session, "chars": "\u{3}", "yield_time_ms": 5000}),
                ),
                None => Step::Say("no session".to_owned()),
            },
            2 => Step::call("exec_command", json!({"cmd": endless, "yield_time_ms": 300})),
            _ => Step::Say("done".to_owned()),
        }
    })
    .await?;
    let mut client = reference
        .app_server(&pairs(&destination), &model.config())
        .await?;
    let thread = json!({"cwd": client.work.path(), "approvalPolicy": "never", "sandbox": "danger-full-access"});
    let thread = client
        .call("thread/start", thread)
        .await?
        .map_err(|e| anyhow::anyhow!("thread: {e}"))?;
    let id = thread["thread"]["id"].clone();
    // Ends when nobody has the other end of the pipe any more.
    let ended = tokio::spawn(async move { tokio::fs::read(&alive).await });
    turn(&mut client, &id).await?;
    let outputs = model.outputs();
    let interrupted = outputs.get(1).context("not interrupted")?;
    ensure!(
        interrupted.contains("cleaned") && interrupted.contains("exited with code 9"),
        "{outputs:?}"
    );
    ensure!(!ended.is_finished(), "ended by itself: {outputs:?}");
    client
        .call("thread/backgroundTerminals/clean", json!({"threadId": id}))
        .await?
        .map_err(|e| anyhow::anyhow!("clean: {e}"))?;
    ensure!(ended.await?? == b"up\n", "another end of the pipe");
    Ok(Outcome::Pass)
}
