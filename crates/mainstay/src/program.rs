//! An executor that is started as a program and spoken to over its standard input and output.

use std::path::PathBuf;
use std::process::Stdio;

use mainstay_link::Link;
use tokio::process::{Child, Command};

use crate::error::{Error, ErrorKind};

/// What to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Looked up on the local `PATH`.
    pub program: String,
    /// Arguments.
    pub args: Vec<String>,
    /// Added to the host's own environment.
    pub env: Vec<(String, String)>,
    /// Working directory; the host's own when absent.
    pub cwd: Option<PathBuf>,
}

impl Program {
    /// Starts it. The child is killed when it is dropped.
    pub(crate) fn start(&self) -> Result<(Link, Child), Error> {
        let failed = |text: &dyn std::fmt::Display| {
            Error::from(ErrorKind::Spawn {
                program: self.program.clone(),
                text: text.to_string(),
            })
        };
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .envs(self.env.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        let mut child = command.spawn().map_err(|error| failed(&error))?;
        match (child.stdout.take(), child.stdin.take()) {
            (Some(stdout), Some(stdin)) => Ok((mainstay_link::stdio(stdout, stdin), child)),
            (None, _) | (_, None) => Err(failed(&"it has no standard input and output")),
        }
    }
}
