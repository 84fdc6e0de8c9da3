//! The executor under test: a program of its own, so that its working directory, its environment and its standard
//! streams are those of the recording. It is this test program again, running nothing but [`run`].
//!
//! With `MAINSTAY_CONFORMANCE_AGAINST=PATH` the reference's program at PATH is tested instead: that is how this harness
//! itself is tested.

use std::process::Stdio;

use anyhow::{Context, Result};
use mainstay_executor::{Config, Executor};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::place::Place;

/// Tells the program started by [`Server::start`] what to be. To the test harness in it, it is one more filter: the
/// environment has to be the recording's.
const ROLE: &str = "as=";
/// The reference's program, to be tested in our executor's place.
pub(crate) const AGAINST: &str = "MAINSTAY_CONFORMANCE_AGAINST";

pub(crate) struct Server {
    pub(crate) url: String,
    child: Child,
    /// Closing it ends the program.
    _stdin: ChildStdin,
    _stdout: BufReader<ChildStdout>,
}

/// An executor on its standard streams.
pub(crate) struct StdioServer {
    pub(crate) child: Child,
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: BufReader<ChildStdout>,
}

impl Server {
    /// Starts an executor in `place` and waits for its URL.
    pub(crate) async fn start(place: &Place) -> Result<Self> {
        let (child, stdin, mut stdout) = spawn(place, "listen")?;
        let mut line = String::new();
        loop {
            line.clear();
            anyhow::ensure!(
                stdout.read_line(&mut line).await? > 0,
                "the executor ended before it listened"
            );
            if line.starts_with("ws://") {
                let url = line.trim().to_owned();
                return Ok(Self {
                    url,
                    child,
                    _stdin: stdin,
                    _stdout: stdout,
                });
            }
        }
    }

    /// Ends the executor.
    pub(crate) async fn stop(mut self) -> Result<()> {
        drop(self._stdin);
        if std::env::var_os(AGAINST).is_some() {
            self.child.start_kill()?;
        }
        self.child.wait().await?;
        Ok(())
    }
}

impl StdioServer {
    pub(crate) fn start(place: &Place) -> Result<Self> {
        let (child, stdin, stdout) = spawn(place, "stdio")?;
        Ok(Self {
            child,
            stdin,
            stdout,
        })
    }
}

fn spawn(place: &Place, role: &str) -> Result<(Child, ChildStdin, BufReader<ChildStdout>)> {
    let mut command = match std::env::var_os(AGAINST) {
        Some(reference) => {
            let mut command = Command::new(reference);
            let listen = if role == "stdio" {
                "stdio"
            } else {
                "ws://127.0.0.1:0"
            };
            command.args([
                "exec-server",
                "--concurrent-requests",
                "8",
                "--listen",
                listen,
            ]);
            command
        }
        None => {
            let mut command = Command::new(std::env::current_exe()?);
            command.args([
                "--exact",
                "executor_program",
                "--nocapture",
                &format!("{ROLE}{role}"),
            ]);
            command
        }
    };
    command.env_clear().current_dir(place.workspace());
    command
        .env("PATH", "/usr/bin:/bin")
        .env("LANG", "C.UTF-8")
        .env("SHELL", "/bin/bash");
    command
        .env("HOME", place.home())
        .env("CODEX_HOME", place.home().join(".codex"));
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let mut child = command.spawn()?;
    let stdin = child.stdin.take().context("no standard input")?;
    let stdout = BufReader::new(child.stdout.take().context("no standard output")?);
    Ok((child, stdin, stdout))
}

/// What the program of [`Server::start`] does; nothing in an ordinary test run.
pub(crate) fn run() -> Result<()> {
    let Some(role) =
        std::env::args().find_map(|argument| argument.strip_prefix(ROLE).map(str::to_owned))
    else {
        return Ok(());
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let executor = Executor::start(Config::default()).await?;
        if role == "stdio" {
            executor.serve_stdio().await;
        } else {
            println!("{}", executor.listen("127.0.0.1:0".parse()?).await?);
            tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
        }
        executor.shutdown(std::time::Duration::ZERO).await;
        Ok(())
    })
}
