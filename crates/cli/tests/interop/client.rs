//! What our client does with an executor that is not ours.

use std::{future::Future, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use futures_util::StreamExt;
use mainstay::{
    Command, ConnState, Decision, Environment, Exit, HttpRequest, Network, PolicyTarget, Process,
    ProcessEvent, ProxyMode, ProxyRules, Signal, StreamKind, TtySize,
};
use mainstay_testkit::{
    fault_proxy::{FaultProxy, Mode},
    http_server::HttpServer,
    registry_front::{Call, RegistryFront, error},
};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;

use crate::matrix::Outcome;

fn shell(script: &str) -> Command {
    Command::new("sh").arg("-c").arg(script)
}

async fn code(environment: &Environment, command: Command) -> Result<(i32, Vec<u8>, Vec<u8>)> {
    let output = environment.exec(command).await?.wait_with_output().await?;
    match output.exit {
        Exit::Exited(status) => Ok((status.code, output.stdout.to_vec(), output.stderr.to_vec())),
        Exit::Lost(cause) => bail!("lost: {cause}"),
    }
}

/// Output, errors and code of a process.
pub(crate) async fn process(environment: Environment) -> Result<Outcome> {
    let done = code(
        &environment,
        shell("echo out; echo err >&2; echo at-$MAINSTAY_FAR; exit 3"),
    )
    .await?;
    ensure!(
        done == (3, b"out\nat-far\n".to_vec(), b"err\n".to_vec()),
        "{done:?}"
    );
    Ok(Outcome::Pass)
}

/// Connect, status, info, and what it announces.
pub(crate) async fn status_and_info(environment: Environment) -> Result<Outcome> {
    let session = environment.session().await?;
    session.status().await?;
    let info = session.ask_info().await?;
    ensure!(!info.shell.path.is_empty(), "{info:?}");
    Ok(Outcome::Pass)
}

/// Files: whole ones, the tree, and handles.
pub(crate) async fn files(environment: Environment) -> Result<Outcome> {
    let directory = TempDir::new()?;
    let root = directory.path().to_str().context("plain")?;
    let files = environment.files();
    let (tree, file) = (format!("{root}/a/b"), format!("{root}/a/b/file"));
    files.create_dir_all(&tree).await?;
    files.write(&file, "hello").await?;
    ensure!(files.read(&file).await? == "hello", "read what was written");
    ensure!(files.metadata(&file).await?.size == 5, "size");
    files.copy(&file, &format!("{root}/a/copy"), false).await?;
    let mut names: Vec<_> = files
        .read_dir(&format!("{root}/a"))
        .await?
        .into_iter()
        .map(|entry| entry.file_name)
        .collect();
    names.sort();
    ensure!(names == ["b", "copy"], "{names:?}");
    let big = vec![7; 3_000_000];
    let mut writer = files.create(&format!("{root}/big")).await?;
    writer.write(big.clone()).await?;
    writer.finish().await?;
    let mut reader = files.open(&format!("{root}/big")).await?;
    ensure!(reader.read_to_end().await? == big, "blocks");
    files.remove_all(&format!("{root}/a")).await?;
    let gone = files
        .metadata(&tree)
        .await
        .err()
        .context("removed, but there")?;
    ensure!(gone.code() == Some(-32004), "{gone}");
    Ok(Outcome::Pass)
}

/// HTTP from the executor's machine, buffered and streamed.
pub(crate) async fn http(environment: Environment) -> Result<Outcome> {
    let server = HttpServer::start().await?;
    let answer = environment
        .http(
            HttpRequest::new("POST", server.url("/echo"))
                .header("x-a", "1")
                .body("body!"),
        )
        .await?;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    ensure!(
        answer.status == 201 && text.contains(r#"["x-a", "1"]"#) && text.contains("body!"),
        "{text}"
    );
    let mut stream = environment
        .http_stream(HttpRequest::new("GET", server.url("/stream")))
        .await?;
    let mut body = Vec::new();
    while let Some(bytes) = stream.body.next().await {
        body.extend_from_slice(&bytes?);
    }
    ensure!(body == b"part0;part1;part2;", "{body:?}");
    Ok(Outcome::Pass)
}

/// A connection that no rule decides is our decision.
pub(crate) async fn policy(environment: Environment) -> Result<Outcome> {
    let rules = ProxyRules {
        enabled: true,
        enable_socks5: true,
        enable_socks5_udp: false,
        allow_upstream_proxy: false,
        dangerously_allow_all_unix_sockets: false,
        mode: ProxyMode::Full,
        domains: None,
        unix_sockets: None,
        allow_local_binding: false,
        review_domains: None,
        transparent_tcp: None,
    };
    let (asked, mut hosts) = tokio::sync::mpsc::unbounded_channel();
    let decide = move |target: PolicyTarget, _| {
        let _ = asked.send(target.host);
        async {
            Decision::Deny {
                reason: "not today".to_owned(),
            }
        }
    };
    let network = Network::proxy(rules)
        .enforce(true)
        .decider(decide, Duration::from_secs(5));
    let script = "exec 3<>/dev/tcp/127.0.0.1/${HTTP_PROXY##*:}; \
        printf 'GET http://policy.example.test/ HTTP/1.1\\r\\nhost: policy.example.test\\r\\n\\r\\n' >&3; head -n 1 <&3";
    let command = Command::new("bash").arg("-c").arg(script).network(network);
    let (_, stdout, stderr) = code(&environment, command).await?;
    let text = String::from_utf8_lossy(&stdout).into_owned();
    ensure!(
        text.contains("403"),
        "{text} {}",
        String::from_utf8_lossy(&stderr)
    );
    ensure!(
        hosts.recv().await.as_deref() == Some("policy.example.test"),
        "asked about another host"
    );
    Ok(Outcome::Pass)
}

/// Standard input; the reference's executor cannot close it, so the command ends by itself.
pub(crate) async fn stdin(environment: Environment) -> Result<Outcome> {
    let mut process = environment
        .exec(shell("head -c 1000000 | sha256sum").pipe_stdin())
        .await?;
    let mut stdin = process.stdin.take().context("no standard input")?;
    stdin.write_all(&vec![b'x'; 1_000_000]).await?;
    stdin.flush().await?;
    let output = read(&mut process, |_| ()).await?;
    ensure!(
        output.starts_with("6f5a0a7b") || output.len() == 68,
        "{output}"
    );
    Ok(Outcome::Pass)
}

/// The end of standard input.
pub(crate) async fn stdin_end(environment: Environment) -> Result<Outcome> {
    let mut process = environment.exec(shell("cat").pipe_stdin()).await?;
    let stdin = process.stdin.take().context("no standard input")?;
    let closes = stdin.can_close();
    process.terminate().await?;
    ensure!(!closes, "the reference announces what it does not have");
    Ok(Outcome::Differs(
        "it has no way to close standard input; `mainstay run` says so on standard error",
    ))
}

/// A terminal: size, echo, and what is typed.
pub(crate) async fn terminal(environment: Environment) -> Result<Outcome> {
    let command = shell("stty size; read line; echo got-$line").tty(TtySize { rows: 24, cols: 80 });
    let mut process = environment.exec(command).await?;
    let mut stdin = process.stdin.take().context("no standard input")?;
    stdin.write_all(b"typed\n").await?;
    stdin.flush().await?;
    let output = read(&mut process, |_| ()).await?;
    ensure!(
        output.contains("24 80") && output.contains("got-typed"),
        "{output}"
    );
    Ok(Outcome::Pass)
}

/// Interrupt and terminate.
pub(crate) async fn signals(environment: Environment) -> Result<Outcome> {
    let mut process = environment
        .exec(shell(
            "trap 'exit 9' INT; echo ready; while :; do sleep 0.01; done",
        ))
        .await?;
    let mut events = process.events();
    ensure!(
        matches!(events.next().await, Some(ProcessEvent::Output { .. })),
        "no output"
    );
    process.signal(Signal::Interrupt).await?;
    ensure!(exit_of(&mut events).await? == 9, "interrupt");

    let mut process = environment
        .exec(shell("echo ready; exec sleep 1000"))
        .await?;
    let mut events = process.events();
    ensure!(
        matches!(events.next().await, Some(ProcessEvent::Output { .. })),
        "no output"
    );
    ensure!(process.terminate().await?, "it was running");
    ensure!(exit_of(&mut events).await? == 137, "terminate");
    Ok(Outcome::Pass)
}

/// A long output while the link is cut three times, byte for byte.
pub(crate) async fn cuts(environment: Environment, proxy: &FaultProxy) -> Result<Outcome> {
    let directory = TempDir::new()?;
    let step = directory.path().join("step");
    ensure!(
        std::process::Command::new("mkfifo")
            .arg(&step)
            .status()?
            .success(),
        "mkfifo"
    );
    // Below what the reference keeps for a client that is away.
    let script = format!(
        "for i in 0 1 2 3; do seq $((i*20000)) $((i*20000+19999)); read x < {}; done",
        step.display()
    );
    let mut process = environment.exec(shell(&script)).await?;
    let mut events = process.events();
    // Open for as long as the program runs: a `read` that comes while a writer is about to close would see an end.
    let mut step = tokio::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&step)
        .await?;
    let mut output = Vec::new();
    for part in 1..=4_u32 {
        let wanted = part * 20_000;
        while output.iter().filter(|byte| **byte == b'\n').count() < wanted as usize {
            match events.next().await.context("no more events")? {
                ProcessEvent::Output {
                    stream: StreamKind::Stdout,
                    bytes,
                } => output.extend_from_slice(&bytes),
                other => bail!("{other:?} after {} bytes", output.len()),
            }
        }
        if part < 4 {
            proxy
                .cut_and_wait(if part == 2 { Mode::Close } else { Mode::Abort })
                .await;
        }
        step.write_all(b"\n").await?;
        step.flush().await?;
    }
    ensure!(exit_of(&mut events).await? == 0, "exit code");
    let expected: String = (0..80_000).map(|n| format!("{n}\n")).collect();
    ensure!(
        output == expected.as_bytes(),
        "{} bytes of {}",
        output.len(),
        expected.len()
    );
    Ok(Outcome::Pass)
}

/// The executor is replaced; refresh finds the new one and the old process is lost.
pub(crate) async fn replaced(
    environment: Environment,
    replace: impl Future<Output = Result<()>>,
) -> Result<Outcome> {
    // It ends with its executor, which leaves behind what it started when it is killed.
    let before = environment.exec(shell("read x").pipe_stdin()).await?;
    let session = environment.snapshot().await?;
    replace.await?;
    environment.refresh().await?;
    let now = environment.snapshot().await?;
    ensure!(now.registration != session.registration, "{now:?}");
    ensure!(before.terminate().await.is_err(), "the old session is over");
    process(environment).await
}

/// Offline at first, then online.
pub(crate) async fn comes_online(
    environment: Environment,
    front: &RegistryFront,
) -> Result<Outcome> {
    front.set_offline(true);
    let refused = environment.exec(shell("true")).await;
    let text = refused
        .err()
        .context("offline, but it started")?
        .to_string();
    ensure!(text.contains("409"), "{text}");
    front.set_offline(false);
    process(environment).await
}

/// Refused, limited and failing answers of the registry, in bursts.
pub(crate) async fn registry_trouble(
    environment: Environment,
    front: &RegistryFront,
) -> Result<Outcome> {
    front.answer_next(Call::Connect, 2, &error(429, ""));
    front.answer_next(Call::Connect, 1, &error(500, ""));
    process(environment.clone()).await?;
    environment.shutdown().await;
    Ok(Outcome::Pass)
}

/// A registry that refuses the token.
pub(crate) async fn refused_token(
    environment: Environment,
    front: &RegistryFront,
) -> Result<Outcome> {
    front.answer_next(Call::Connect, 1, &error(401, ""));
    let calls = front.calls(Call::Connect);
    let text = environment
        .exec(shell("true"))
        .await
        .err()
        .context("it started all the same")?
        .to_string();
    ensure!(text.contains("401"), "{text}");
    ensure!(
        front.calls(Call::Connect) == calls + 1,
        "asked again after 401"
    );
    Ok(Outcome::Pass)
}

/// An executor that is told that this client may not come in.
pub(crate) async fn refused_key(
    environment: Environment,
    front: &RegistryFront,
) -> Result<Outcome> {
    for _ in 0..8 {
        front.answer_next(Call::Validate, 1, &error(403, ""));
    }
    let refused =
        tokio::time::timeout(Duration::from_secs(30), environment.exec(shell("true"))).await?;
    let text = refused
        .err()
        .context("it started all the same")?
        .to_string();
    ensure!(
        text.to_lowercase().contains("noise") || text.contains("handshake"),
        "{text}"
    );
    Ok(Outcome::Pass)
}

/// The state watch over one cut: recovering, then connected.
pub(crate) async fn watch(environment: Environment, proxy: &FaultProxy) -> Result<Outcome> {
    process(environment.clone()).await?;
    let mut watch = environment.watch().await?;
    ensure!(
        *watch.borrow_and_update() == ConnState::Connected,
        "connected"
    );
    proxy.cut(Mode::Abort);
    watch
        .wait_for(|state| *state == ConnState::Recovering)
        .await?;
    watch
        .wait_for(|state| *state == ConnState::Connected)
        .await?;
    process(environment).await
}

async fn read(process: &mut Process, mut each: impl FnMut(&ProcessEvent)) -> Result<String> {
    let mut events = process.events();
    let mut output = Vec::new();
    while let Some(event) = events.next().await {
        each(&event);
        match event {
            ProcessEvent::Output { bytes, .. } => output.extend_from_slice(&bytes),
            ProcessEvent::Gap { first, last } => bail!("output {first} to {last} is missing"),
            ProcessEvent::Lost(cause) => bail!("lost: {cause}"),
            ProcessEvent::Exited(_) | ProcessEvent::Closed => {}
        }
    }
    Ok(String::from_utf8_lossy(&output).into_owned())
}

async fn exit_of(events: &mut mainstay::Events) -> Result<i32> {
    let mut code = None;
    while let Some(event) = events.next().await {
        match event {
            ProcessEvent::Exited(status) => code = Some(status.code),
            ProcessEvent::Lost(cause) => bail!("lost: {cause}"),
            ProcessEvent::Output { .. } | ProcessEvent::Gap { .. } | ProcessEvent::Closed => {}
        }
    }
    code.context("no exit")
}
