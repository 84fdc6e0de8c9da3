//! The three ways a command can be run, each with real processes of the `mainstay` binary.

use std::{net::SocketAddr, path::PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;
use tokio::process::Command;

use crate::{
    program::{Mainstay, Server, finish},
    reference::{FAR, FAR_HOME},
};

/// The environment every registry here knows.
pub const ENVIRONMENT: &str = "build";

/// A running registry with a token of each role.
#[derive(Debug)]
pub struct RegistryPlace {
    binary: Mainstay,
    directory: TempDir,
    /// The process.
    pub server: Server,
    /// Token of the executor role.
    pub executor_token: String,
    /// Token of the harness role.
    pub harness_token: String,
}

impl RegistryPlace {
    /// Makes the tokens and starts the registry on a free port.
    ///
    /// # Errors
    /// When one of the programs fails.
    pub async fn start(binary: Mainstay) -> Result<Self> {
        let directory = TempDir::new()?;
        let file = directory.path().join("tokens.json");
        let executor_token = issue(binary, &file, "executor").await?;
        let harness_token = issue(binary, &file, "harness").await?;
        let args = ["registry", "--listen", "127.0.0.1:0", "--tokens"].map(Into::into);
        let mut command = binary.command(args.into_iter().chain([file.into_os_string()]));
        let server = Server::start(&mut command).await?;
        Ok(Self {
            binary,
            directory,
            server,
            executor_token,
            harness_token,
        })
    }

    /// Its base URL.
    pub fn url(&self) -> &str {
        &self.server.first_line
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When its first line was none of its own.
    pub fn addr(&self) -> Result<SocketAddr> {
        addr(self.url())
    }

    /// The file of digests.
    pub fn tokens_file(&self) -> PathBuf {
        self.directory.path().join("tokens.json")
    }

    /// Registers an executor of ours, at `url` instead of the registry itself where a front or a proxy stands before it.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn executor_at(&self, url: &str) -> Result<Server> {
        let mut command = self.binary.command(["executor"]);
        command
            .env("MAINSTAY_REGISTRY", url)
            .env("MAINSTAY_ENVIRONMENT", ENVIRONMENT);
        Server::start(
            command
                .env("MAINSTAY_TOKEN", &self.executor_token)
                .env(FAR, "far")
                .env("CODEX_HOME", FAR_HOME)
                .env("HOME", FAR_HOME),
        )
        .await
    }
}

async fn issue(binary: Mainstay, file: &std::path::Path, role: &str) -> Result<String> {
    let args = [
        "registry",
        "token",
        "--environment",
        ENVIRONMENT,
        "--role",
        role,
        "--tokens",
    ]
    .map(Into::into);
    let token = finish(
        &mut binary.command(args.into_iter().chain([file.as_os_str().to_owned()])),
        b"",
    )
    .await?;
    anyhow::ensure!(token.code == Some(0), "no token: {}", token.stderr);
    Ok(String::from_utf8(token.stdout)?.trim().to_owned())
}

/// An executor of ours with its own listener.
///
/// # Errors
/// When it does not come up.
pub async fn listening_executor(binary: Mainstay, flags: &[&str]) -> Result<Server> {
    let args = ["executor", "--listen", "ws://127.0.0.1:0"]
        .iter()
        .chain(flags);
    let mut command = binary.command(args);
    command.env("CODEX_HOME", FAR_HOME).env("HOME", FAR_HOME);
    Server::start(command.env(FAR, "far")).await
}

/// A way to run commands.
#[derive(Debug)]
pub struct Place {
    binary: Mainstay,
    /// For messages.
    pub name: &'static str,
    flags: Vec<String>,
    variables: Vec<(&'static str, String)>,
    /// The executor's own process, where there is one.
    pub executor: Option<Server>,
    /// The registry, where there is one of its own.
    pub registry: Option<RegistryPlace>,
}

impl Place {
    /// Everything inside `run` itself.
    pub fn embedded(binary: Mainstay) -> Self {
        Self {
            binary,
            name: "embedded",
            flags: Vec::new(),
            variables: Vec::new(),
            executor: None,
            registry: None,
        }
    }

    /// Whatever executor listens at this URL.
    pub fn at(binary: Mainstay, url: &str) -> Self {
        Self {
            name: "direct",
            flags: vec!["--url".to_owned(), url.to_owned()],
            ..Self::embedded(binary)
        }
    }

    /// An executor with its own listener.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn direct(binary: Mainstay) -> Result<Self> {
        Self::direct_with(binary, &[]).await
    }

    /// The same, with more flags for the executor.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn direct_with(binary: Mainstay, flags: &[&str]) -> Result<Self> {
        let executor = listening_executor(binary, flags).await?;
        Ok(Self {
            executor: Some(executor),
            ..Self::at(binary, "")
        }
        .with_url_of_executor())
    }

    /// Registry and executor as programs of their own.
    ///
    /// # Errors
    /// When one does not come up.
    pub async fn separate(binary: Mainstay) -> Result<Self> {
        let registry = RegistryPlace::start(binary).await?;
        let executor = registry.executor_at(registry.url()).await?;
        let variables = vec![
            ("MAINSTAY_REGISTRY", registry.url().to_owned()),
            ("MAINSTAY_ENVIRONMENT", ENVIRONMENT.to_owned()),
            ("MAINSTAY_TOKEN", registry.harness_token.clone()),
        ];
        Ok(Self {
            name: "separate",
            variables,
            executor: Some(executor),
            registry: Some(registry),
            ..Self::embedded(binary)
        })
    }

    /// All three.
    ///
    /// # Errors
    /// When a program does not come up.
    pub async fn all(binary: Mainstay) -> Result<[Self; 3]> {
        Ok([
            Self::embedded(binary),
            Self::direct(binary).await?,
            Self::separate(binary).await?,
        ])
    }

    /// `mainstay run` there, with these arguments after the destination.
    pub fn run(&self, args: &[&str]) -> Command {
        let flags = self.flags.iter().map(String::as_str);
        let mut command = self.binary.command(
            std::iter::once("run")
                .chain(flags)
                .chain(args.iter().copied()),
        );
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Where its executor listens.
    ///
    /// # Errors
    /// When it has none with a listener.
    pub fn executor_addr(&self) -> Result<SocketAddr> {
        addr(
            &self
                .executor
                .as_ref()
                .context("no executor of its own")?
                .first_line,
        )
    }

    fn with_url_of_executor(mut self) -> Self {
        self.flags = vec!["--url".to_owned()];
        self.flags.extend(
            self.executor
                .iter()
                .map(|executor| executor.first_line.clone()),
        );
        self
    }
}

fn addr(url: &str) -> Result<SocketAddr> {
    let (_, rest) = url
        .split_once("://")
        .with_context(|| format!("not a URL: {url}"))?;
    Ok(rest.trim_end_matches('/').parse()?)
}
