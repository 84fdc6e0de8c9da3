//! The reference's own programs, as real processes.
//!
//! `.ci/reference` fetches them into the ignored folder `.reference`; `MAINSTAY_REFERENCE` names another one. Without them a test
//! says so and passes, unless `MAINSTAY_REQUIRE_REFERENCE=1`.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

/// Set to `far` in every executor's environment, so that a command can tell where it runs.
pub const FAR: &str = "MAINSTAY_FAR";

/// A home directory with one skill, for executors: a client that lists it has asked them.
pub const FAR_HOME: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/far-home");

/// Where the reference's program is.
#[derive(Clone, Debug)]
pub struct Reference {
    program: PathBuf,
}

impl Reference {
    /// The program, if it is here. Prints how to get it otherwise.
    ///
    /// # Panics
    /// When it is missing and `MAINSTAY_REQUIRE_REFERENCE` is set.
    pub fn find() -> Option<Self> {
        let found = match std::env::var_os("MAINSTAY_REFERENCE") {
            Some(program) => Some(behind_script(PathBuf::from(program))),
            None => {
                let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
                root.and_then(|root| installed(&root.join(".reference/node_modules/@openai")))
            }
        };
        if let Some(program) = found {
            return Some(Self { program });
        }
        let how = "the reference's program is not here; `.ci/reference` (or `just interop`) fetches it with npm";
        assert!(
            std::env::var_os("MAINSTAY_REQUIRE_REFERENCE").is_none(),
            "{how}"
        );
        eprintln!("skipped: {how}");
        None
    }

    /// Its version, as it says itself.
    ///
    /// # Errors
    /// When it cannot be run.
    pub async fn version(&self) -> Result<String> {
        let output = Command::new(&self.program)
            .arg("--version")
            .output()
            .await?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Its executor with a listener of its own, on a free loopback port.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn executor(&self) -> Result<ReferenceExecutor> {
        self.executor_with(&[]).await
    }

    /// The same, with variables of the caller's in its environment.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn executor_with(&self, variables: &[(&str, &str)]) -> Result<ReferenceExecutor> {
        let home = far_home()?;
        let mut command = self.command(&home);
        command.args([
            "exec-server",
            "--concurrent-requests",
            "8",
            "--listen",
            "ws://127.0.0.1:0",
        ]);
        command.env(FAR, "far").envs(variables.iter().copied());
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("no standard output")?;
        let mut lines = BufReader::new(stdout).lines();
        let url = lines
            .next_line()
            .await?
            .context("the reference's executor ended before it listened")?;
        Ok(ReferenceExecutor {
            url,
            child,
            _home: home,
            _lines: Some(lines),
        })
    }

    /// Its executor registered at a registry.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn registered_executor(
        &self,
        registry: &str,
        environment: &str,
        token: &str,
    ) -> Result<ReferenceExecutor> {
        let home = far_home()?;
        let mut command = self.command(&home);
        command.args([
            "exec-server",
            "--concurrent-requests",
            "8",
            "--remote",
            registry,
            "--environment-id",
            environment,
        ]);
        let child = command
            .env("CODEX_API_KEY", token)
            .env(FAR, "far")
            .spawn()?;
        Ok(ReferenceExecutor {
            url: String::new(),
            child,
            _home: home,
            _lines: None,
        })
    }

    /// Its client, as the program that editors talk to; dials the executor that `destination` names.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn app_server(
        &self,
        destination: &[(&str, &str)],
        config: &str,
    ) -> Result<AppServer> {
        let home = TempDir::new()?;
        std::fs::write(home.path().join("config.toml"), config)?;
        let mut command = self.command(&home);
        let work = TempDir::new()?;
        command
            .arg("app-server")
            .envs(destination.iter().copied())
            .current_dir(work.path());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take().context("no standard input")?;
        let lines = BufReader::new(child.stdout.take().context("no standard output")?).lines();
        let mut server = AppServer {
            stdin,
            lines,
            next_id: 1,
            seen: Vec::new(),
            _child: child,
            _home: home,
            work,
        };
        let info = json!({"clientInfo": {"name": "testkit", "title": null, "version": "0"}, "capabilities": {"experimentalApi": true}});
        server
            .call("initialize", info)
            .await?
            .map_err(|error| anyhow::anyhow!("initialize: {error}"))?;
        server.notify("initialized").await?;
        Ok(server)
    }

    /// One whole turn of its agent: `codex exec PROMPT` in a fresh directory. Returns the events it printed.
    ///
    /// # Errors
    /// When the agent fails.
    pub async fn turn(&self, destination: &[(&str, &str)], config: &str) -> Result<Vec<Value>> {
        let home = TempDir::new()?;
        let work = TempDir::new()?;
        self.turn_in(destination, config, &home, work.path()).await
    }

    /// The same, with a home and a directory of the caller's.
    ///
    /// # Errors
    /// When the agent fails.
    pub async fn turn_in(
        &self,
        destination: &[(&str, &str)],
        config: &str,
        home: &TempDir,
        work: &Path,
    ) -> Result<Vec<Value>> {
        std::fs::write(home.path().join("config.toml"), config)?;
        let mut command = self.command(home);
        command.args([
            "exec",
            "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox",
            "--json",
            "go",
        ]);
        let output = command
            .envs(destination.iter().copied())
            .current_dir(work)
            .stderr(Stdio::piped())
            .output()
            .await?;
        if !output.status.success() {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            bail!(
                "the reference's agent: {}\n{}\n{}",
                output.status,
                text(&output.stdout),
                text(&output.stderr)
            );
        }
        Ok(output
            .stdout
            .split(|byte| *byte == b'\n')
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect())
    }

    fn command(&self, home: &TempDir) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env("CODEX_HOME", home.path())
            // Its agent's commands run in a login shell: not with the profile of whoever runs the test.
            .env("HOME", home.path())
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        for name in std::env::vars_os().map(|(name, _)| name) {
            let text = name.to_string_lossy();
            if (text.starts_with("CODEX_") && text != "CODEX_HOME") || text.starts_with("OPENAI_") {
                command.env_remove(name);
            }
        }
        command
    }
}

/// A home of its own, because it writes there, with what is in [`FAR_HOME`].
fn far_home() -> Result<TempDir> {
    let home = TempDir::new()?;
    let skill = "skills/far/SKILL.md";
    std::fs::create_dir_all(home.path().join("skills/far"))?;
    std::fs::copy(Path::new(FAR_HOME).join(skill), home.path().join(skill))?;
    Ok(home)
}

/// The program itself, not the script that npm links: a killed script would leave its program running.
fn behind_script(named: PathBuf) -> PathBuf {
    let script = std::fs::canonicalize(&named)
        .ok()
        .filter(|path| path.extension().is_some_and(|kind| kind == "js"));
    // …/@openai/codex/bin/codex.js
    let packages = script
        .as_deref()
        .and_then(|script| script.ancestors().nth(3));
    packages.and_then(installed).unwrap_or(named)
}

/// The program in npm's folder of the publisher's packages.
fn installed(packages: &Path) -> Option<PathBuf> {
    let packages = std::fs::read_dir(packages).ok()?;
    let vendors = packages
        .flatten()
        .filter_map(|package| std::fs::read_dir(package.path().join("vendor")).ok());
    vendors
        .flatten()
        .flatten()
        .map(|target| target.path().join("bin/codex"))
        .find(|program| program.is_file())
}

/// A running executor of the reference; killed when dropped.
#[derive(Debug)]
pub struct ReferenceExecutor {
    /// Its WebSocket URL; empty when it is registered instead.
    pub url: String,
    child: Child,
    _home: TempDir,
    _lines: Option<Lines<BufReader<ChildStdout>>>,
}

impl ReferenceExecutor {
    /// Kills it and waits until it is gone.
    pub async fn kill(mut self) {
        let _ = self.child.kill().await;
    }
}

/// A running client of the reference, driven over its standard input and output; killed when dropped.
#[derive(Debug)]
pub struct AppServer {
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    next_id: i64,
    seen: Vec<Value>,
    _child: Child,
    _home: TempDir,
    /// Its working directory.
    pub work: TempDir,
}

impl AppServer {
    /// Asks and waits for the answer: the result or the error object. Notifications until then are kept for [`AppServer::until`].
    ///
    /// # Errors
    /// When the program ends first.
    pub async fn call(&mut self, method: &str, params: Value) -> Result<Result<Value, Value>> {
        let id = self.next_id;
        self.next_id += 1;
        self.send(json!({"id": id, "method": method, "params": params}))
            .await?;
        loop {
            let message = self.read().await?;
            if message["id"] == id && message.get("method").is_none() {
                return Ok(match message.get("error") {
                    Some(error) => Err(error.clone()),
                    None => Ok(message["result"].clone()),
                });
            }
            self.seen.push(message);
        }
    }

    /// Waits for a message that satisfies `wanted`; earlier ones are dropped.
    ///
    /// # Errors
    /// When the program ends first.
    pub async fn until(&mut self, mut wanted: impl FnMut(&Value) -> bool) -> Result<Value> {
        for message in std::mem::take(&mut self.seen) {
            if wanted(&message) {
                return Ok(message);
            }
        }
        loop {
            let message = self.read().await?;
            if wanted(&message) {
                return Ok(message);
            }
        }
    }

    async fn notify(&mut self, method: &str) -> Result<()> {
        self.send(json!({"method": method})).await
    }

    async fn send(&mut self, message: Value) -> Result<()> {
        self.stdin
            .write_all(format!("{message}\n").as_bytes())
            .await
            .context("the reference's client is gone")
    }

    async fn read(&mut self) -> Result<Value> {
        let line = self
            .lines
            .next_line()
            .await?
            .context("the reference's client ended")?;
        serde_json::from_str(&line).with_context(|| format!("not JSON: {line}"))
    }
}
