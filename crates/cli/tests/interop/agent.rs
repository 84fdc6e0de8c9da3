//! What the reference's client can be made to do: its own questions, and whole turns of its agent.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use mainstay_testkit::{
    fault_proxy::{FaultProxy, Mode},
    reference::{AppServer, Reference},
    registry_front::{Call, RegistryFront, error},
    responses_api::{ResponsesApi, Step, outputs},
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::matrix::Outcome;

/// Where the reference's client is sent, as its environment variables say it.
pub(crate) type Destination = Vec<(&'static str, String)>;

pub(crate) fn pairs(destination: &Destination) -> Vec<(&str, &str)> {
    destination
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect()
}

/// `environment/status` and `environment/info` of its program for editors.
pub(crate) async fn status_and_info(
    reference: Reference,
    destination: Destination,
) -> Result<Outcome> {
    let mut client = reference.app_server(&pairs(&destination), "").await?;
    let asked = json!({"environmentId": "remote"});
    let info = client
        .call("environment/info", asked.clone())
        .await?
        .map_err(|e| anyhow::anyhow!("info: {e}"))?;
    ensure!(
        info["shell"]["path"].is_string() && info["cwd"].is_string(),
        "info: {info}"
    );
    let status = client
        .call("environment/status", asked)
        .await?
        .map_err(|e| anyhow::anyhow!("status: {e}"))?;
    ensure!(status == json!({"status": "ready"}), "status: {status}");
    Ok(Outcome::Pass)
}

/// Its session comes back after the link was cut.
pub(crate) async fn reconnects(
    reference: Reference,
    destination: Destination,
    proxy: &FaultProxy,
) -> Result<Outcome> {
    let mut client = reference.app_server(&pairs(&destination), "").await?;
    for round in 0..3 {
        proxy.until(|now| now.open > 0).await;
        until_status(&mut client, "ready")
            .await
            .with_context(|| format!("after {round} cuts"))?;
        proxy.cut_and_wait(Mode::Abort).await;
    }
    Ok(Outcome::Pass)
}

/// A turn: a command with output and a code.
pub(crate) async fn command(reference: Reference, destination: Destination) -> Result<Outcome> {
    let model = ResponsesApi::play(vec![Step::exec(
        "echo out; echo err >&2; echo at-$MAINSTAY_FAR; exit 3",
    )])
    .await?;
    reference
        .turn(&pairs(&destination), &model.config())
        .await?;
    let output = model.outputs().pop().context("the command did not run")?;
    ensure!(output.contains("exited with code 3"), "{output}");
    ensure!(
        output.contains("out\n") && output.contains("err\n"),
        "{output}"
    );
    ensure!(
        output.contains("at-far\n"),
        "it ran somewhere else: {output}"
    );
    Ok(Outcome::Pass)
}

/// The environment's status, asked again and again until it is `wanted`; how it comes back or fails is its own affair.
async fn until_status(client: &mut AppServer, wanted: &str) -> Result<Value> {
    loop {
        let asked = json!({"environmentId": "remote"});
        let status = client
            .call("environment/status", asked)
            .await?
            .map_err(|e| anyhow::anyhow!("status: {e}"))?;
        if status["status"] == wanted {
            return Ok(status);
        }
    }
}

/// Offline at first, then online.
pub(crate) async fn comes_online(
    reference: Reference,
    destination: Destination,
    front: &RegistryFront,
) -> Result<Outcome> {
    front.set_offline(true);
    let mut client = reference.app_server(&pairs(&destination), "").await?;
    front.until_calls(Call::Connect, 2).await;
    front.set_offline(false);
    until_status(&mut client, "ready").await?;
    Ok(Outcome::Pass)
}

/// Limited and failing answers of the registry, in a burst.
pub(crate) async fn registry_trouble(
    reference: Reference,
    destination: Destination,
    front: &RegistryFront,
) -> Result<Outcome> {
    front.answer_next(Call::Connect, 2, &error(429, ""));
    front.answer_next(Call::Connect, 1, &error(500, ""));
    let mut client = reference.app_server(&pairs(&destination), "").await?;
    until_status(&mut client, "ready").await?;
    ensure!(
        front.calls(Call::Connect) == 4,
        "{} lookups",
        front.calls(Call::Connect)
    );
    Ok(Outcome::Pass)
}

/// A registry that refuses the token.
pub(crate) async fn refused_token(
    reference: Reference,
    destination: Destination,
    front: &RegistryFront,
) -> Result<Outcome> {
    front.answer_next(Call::Connect, 1, &error(401, ""));
    let mut client = reference.app_server(&pairs(&destination), "").await?;
    let status = until_status(&mut client, "disconnected").await?;
    ensure!(
        status["error"]
            .as_str()
            .is_some_and(|text| text.contains("401")),
        "{status}"
    );
    Ok(Outcome::Pass)
}

/// A registry that tells the executor that this client may not come in.
pub(crate) async fn refused_key(
    reference: Reference,
    destination: Destination,
    front: &RegistryFront,
) -> Result<Outcome> {
    front.answer_next(Call::Validate, 8, &error(403, ""));
    let mut client = reference.app_server(&pairs(&destination), "").await?;
    let status = until_status(&mut client, "disconnected").await?;
    ensure!(
        status["error"]
            .as_str()
            .is_some_and(|text| text.contains("Noise")),
        "{status}"
    );
    Ok(Outcome::Pass)
}

/// A turn: a running command is continued through its standard input.
pub(crate) async fn continued(reference: Reference, destination: Destination) -> Result<Outcome> {
    let model = ResponsesApi::start(|request| {
        let outputs = outputs(request);
        match outputs.len() {
            0 => Step::call(
                "exec_command",
                json!({"cmd": "echo ask; read line; echo got-$line; exit 4", "tty": true, "yield_time_ms": 500}),
            ),
            1 => {
                match session_of(&outputs[0]) {
                    Some(session) => {
                        Step::call("write_stdin", json!({"session_id": session, "chars": "hello\n", "yield_time_ms": 5000}))
                    }
                    None => Step::Say("no session".to_owned()),
                }
            }
            _ => Step::Say("done".to_owned()),
        }
    })
    .await?;
    reference
        .turn(&pairs(&destination), &model.config())
        .await?;
    let outputs = model.outputs();
    let last = outputs
        .get(1)
        .with_context(|| format!("not continued: {outputs:?}"))?;
    ensure!(
        last.contains("got-hello") && last.contains("exited with code 4"),
        "{outputs:?}"
    );
    Ok(Outcome::Pass)
}

/// The number of a running command, as the agent's tool tells it.
pub(crate) fn session_of(output: &str) -> Option<u64> {
    let rest = output.split("session ID ").nth(1)?;
    rest.split_whitespace().next()?.parse().ok()
}

/// A turn: the link is cut while a command runs, which then writes more.
pub(crate) async fn cut(
    reference: Reference,
    destination: Destination,
    proxy: &FaultProxy,
) -> Result<Outcome> {
    let directory = TempDir::new()?;
    let (started, released) = (
        directory.path().join("started"),
        directory.path().join("released"),
    );
    for fifo in [&started, &released] {
        ensure!(
            std::process::Command::new("mkfifo")
                .arg(fifo)
                .status()?
                .success(),
            "mkfifo"
        );
    }
    let script = format!(
        "seq 1 500; echo > {}; read x < {}; seq 501 1000; exit 6",
        started.display(),
        released.display()
    );
    let model = ResponsesApi::play(vec![Step::call(
        "exec_command",
        json!({"cmd": script, "yield_time_ms": 20000, "max_output_tokens": 100_000}),
    )])
    .await?;
    let turn = tokio::spawn({
        let (reference, config) = (reference.clone(), model.config());
        async move { reference.turn(&pairs(&destination), &config).await }
    });
    tokio::fs::read(&started).await?;
    let before = proxy.counters();
    proxy.cut_and_wait(Mode::Abort).await;
    proxy.until(|now| now.accepted > before.accepted).await;
    tokio::fs::write(&released, "go\n").await?;
    turn.await??;
    let output = model.outputs().pop().context("the command did not run")?;
    let numbers: String = (1..=1000).map(|n| format!("{n}\n")).collect();
    ensure!(output.contains("exited with code 6"), "{output}");
    ensure!(
        output.contains(&numbers),
        "output is not complete: {output}"
    );
    Ok(Outcome::Pass)
}

/// A turn: a file is made and changed by the agent's patch tool.
pub(crate) async fn patch(reference: Reference, destination: Destination) -> Result<Outcome> {
    let (home, work) = (TempDir::new()?, TempDir::new()?);
    let add = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: made.txt\n+one\n+two\n*** End Patch\nEOF";
    let change = "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: made.txt\n@@\n one\n-two\n+three\n*** End Patch\nEOF";
    let model = ResponsesApi::play(vec![Step::exec(add), Step::exec(change)]).await?;
    let events = reference
        .turn_in(&pairs(&destination), &model.config(), &home, work.path())
        .await?;
    let made = read(&work.path().join("made.txt"));
    ensure!(
        made.as_deref() == Ok("one\nthree\n"),
        "{made:?} {:?}",
        model.outputs()
    );
    ensure!(
        events
            .iter()
            .any(|event| event["item"]["type"] == "file_change"),
        "not through its patch tool: {events:?}"
    );
    Ok(Outcome::Pass)
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

/// Two turns of one thread; between them the executor is replaced by another.
pub(crate) async fn two_turns(
    reference: Reference,
    destination: Destination,
    replace: impl Future<Output = Result<()>>,
) -> Result<Outcome> {
    let command = || Step::exec("echo at-$MAINSTAY_FAR-$PPID");
    let steps = vec![
        command(),
        Step::Say("first".to_owned()),
        command(),
        Step::Say("second".to_owned()),
    ];
    let model = ResponsesApi::play(steps).await?;
    let mut client = reference
        .app_server(&pairs(&destination), &model.config())
        .await?;
    let thread = json!({"cwd": client.work.path(), "approvalPolicy": "never", "sandbox": "danger-full-access"});
    let thread = client
        .call("thread/start", thread)
        .await?
        .map_err(|e| anyhow::anyhow!("thread: {e}"))?;
    let id = thread["thread"]["id"].clone();
    turn(&mut client, &id).await?;
    replace.await?;
    turn(&mut client, &id).await?;
    let outputs = model.outputs();
    ensure!(outputs.len() == 2, "{outputs:?}");
    let parents: Vec<_> = outputs
        .iter()
        .filter_map(|output| output.split("at-far-").nth(1))
        .collect();
    ensure!(
        parents.len() == 2 && parents[0] != parents[1],
        "not two executors: {outputs:?}"
    );
    Ok(Outcome::Pass)
}

pub(crate) async fn turn(client: &mut AppServer, thread: &Value) -> Result<()> {
    let input = json!([{"type": "text", "text": "go"}]);
    client
        .call("turn/start", json!({"threadId": thread, "input": input}))
        .await?
        .map_err(|e| anyhow::anyhow!("turn: {e}"))?;
    let done = client
        .until(|message| message["method"] == "turn/completed")
        .await?;
    ensure!(done["params"]["turn"]["status"] == "completed", "{done}");
    Ok(())
}
