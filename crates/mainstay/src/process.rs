//! A started process: what callers hold of it.

use bytes::Bytes;

use crate::error::{Delivery, Error};
use crate::stdin::Stdin;
use crate::stream::{Events, OutputStream};

/// How a process ended, as far as it is known. Never invented: without an exit fact it is `Lost`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited.
    Exited(ExitStatus),
    /// Its fate is not known, and will not be: why.
    Lost(Error),
}

/// The exit fact of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitStatus {
    /// Exit code; 128 + n after signal n.
    pub code: i32,
    /// The executor's guess that its sandbox denied something; `None` if it does not say.
    pub sandbox_denied: Option<bool>,
}

/// Everything a process wrote, and how it ended.
#[derive(Clone, Debug)]
pub struct Output {
    /// How it ended.
    pub exit: Exit,
    /// Standard output, or the terminal's output.
    pub stdout: Bytes,
    /// Standard error.
    pub stderr: Bytes,
}

/// A signal for a process group. All but `Interrupt` need an executor that announces `mainstaySignals`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP.
    Hangup,
    /// SIGQUIT.
    Quit,
    /// SIGKILL.
    Kill,
    /// SIGUSR1.
    User1,
    /// SIGUSR2.
    User2,
    /// SIGSTOP.
    Stop,
    /// SIGCONT.
    Continue,
}

/// A process of the current session. It stays valid through recoveries, and fails for ever when its session ends.
/// Dropping it does not end the process.
#[derive(Debug)]
pub struct Process {
    /// Standard input, if the command asked for one. Dropping it closes the remote end where the executor can.
    pub stdin: Option<Stdin>,
    /// Standard output (or the terminal). Dropping it discards what comes.
    pub stdout: Option<OutputStream>,
    /// Standard error. Dropping it discards what comes.
    pub stderr: Option<OutputStream>,
    id: String,
}

impl Process {
    /// Its id within the session.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Takes both output streams and gives everything in one ordered stream instead.
    pub fn events(&mut self) -> Events {
        Events::new(self.stdout.take(), self.stderr.take())
    }

    /// Waits until the process and its output streams have ended. Cancel-safe.
    pub async fn wait(&mut self) -> Exit {
        Exit::Lost(Error::disconnected("not connected", Delivery::NotSent))
    }

    /// Closes standard input, reads everything, waits.
    pub async fn wait_with_output(mut self) -> Result<Output, Error> {
        drop(self.stdin.take());
        Err(Error::disconnected("not connected", Delivery::NotSent))
    }

    /// Sends a signal to the process group (in a terminal: to its foreground job).
    pub async fn signal(&self, _signal: Signal) -> Result<(), Error> {
        Err(Error::disconnected("not connected", Delivery::NotSent))
    }

    /// Kills the process group. `true` if a kill was sent.
    pub async fn terminate(&self) -> Result<bool, Error> {
        Err(Error::disconnected("not connected", Delivery::NotSent))
    }

    /// Terminates politely, where the executor announces `mainstayTerminateGrace`: TERM, then KILL after `grace`.
    pub async fn terminate_after(&self, _grace: std::time::Duration) -> Result<bool, Error> {
        Err(Error::disconnected("not connected", Delivery::NotSent))
    }

    /// Changes the terminal's size, where the executor announces `mainstayResize`.
    pub async fn resize(&self, _size: crate::TtySize) -> Result<(), Error> {
        Err(Error::disconnected("not connected", Delivery::NotSent))
    }
}
