//! The process family: `process/…` (`protocol.md` 6 and 7).

mod output;
mod start;

use serde::{Deserialize, Serialize};

use crate::Empty;
use crate::base64::Base64;
use crate::call::{call, notice};

pub use output::{OutputNotice, parse_output, write_closed, write_exited, write_output};
pub use start::{
    EnvPolicy, Inherit, Metadata, SandboxType, ShellSnapshot, SpawnErrorData, SpawnErrorKind,
    StartAnswer, StartParams,
};

call!(
    /// Starts a program.
    Start, "process/start", Exec, StartParams => StartAnswer
);
call!(
    /// Reads retained output, waiting for some if asked to.
    Read, "process/read", Exec, ReadParams => ReadAnswer
);
call!(
    /// Writes to standard input or the terminal.
    Write, "process/write", Exec, WriteParams => WriteAnswer
);
call!(
    /// Sends a signal to the process group, or the terminal's foreground job.
    SignalCall, "process/signal", Exec, SignalParams => Empty
);
call!(
    /// Kills the process group.
    Terminate, "process/terminate", Exec, TerminateParams => TerminateAnswer
);
notice!(
    /// A chunk of output.
    Output, "process/output", OutputParams
);
notice!(
    /// The program ended.
    Exited, "process/exited", ExitedParams
);
notice!(
    /// The program ended and both output streams did.
    Closed, "process/closed", ClosedParams
);

/// Params of `process/read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadParams {
    /// Which process.
    pub process_id: String,
    /// Only chunks with a higher seq; 0 when absent.
    #[serde(default)]
    pub after_seq: Option<u64>,
    /// Decoded bytes at most, but always one chunk; unlimited when absent.
    #[serde(default)]
    pub max_bytes: Option<u64>,
    /// How long to wait for something to report, in ms; 0 when absent.
    #[serde(default)]
    pub wait_ms: Option<u64>,
}

/// Answer to `process/read`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadAnswer {
    /// Retained chunks, ascending.
    pub chunks: Vec<Chunk>,
    /// Without `max_bytes` the next seq the process will use; with it, the last returned seq + 1.
    pub next_seq: u64,
    /// Whether the program ended.
    pub exited: bool,
    /// Its exit code.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// Whether it ended and both streams did.
    pub closed: bool,
    /// Always null from the reference.
    #[serde(default)]
    pub failure: Option<String>,
    /// A guess about sandboxed programs.
    #[serde(default)]
    pub sandbox_denied: bool,
    /// First retained seq (`mainstayFirstSeq`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mainstay_first_seq: Option<u64>,
}

/// One chunk of retained output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Its place in the process's history.
    pub seq: u64,
    /// Where it came out.
    pub stream: Stream,
    /// The bytes.
    pub chunk: Base64,
}

/// Where output comes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// The terminal.
    Pty,
}

impl Stream {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
            Stream::Pty => "pty",
        }
    }
}

/// Params of `process/write`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteParams {
    /// Which process.
    pub process_id: String,
    /// The bytes.
    pub chunk: Base64,
    /// Makes a repeat harmless; must not be empty.
    pub write_id: String,
}

/// Answer to `process/write` and `mainstay/closeStdin`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteAnswer {
    /// What became of it.
    pub status: WriteStatus,
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WriteStatus {
    /// Queued, or known from before.
    Accepted,
    /// No such process.
    UnknownProcess,
    /// The process has no standard input, or it is closed.
    StdinClosed,
    /// The process is not started yet.
    Starting,
}

/// Params of `process/signal`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalParams {
    /// Which process.
    pub process_id: String,
    /// Which signal.
    pub signal: Signal,
}

/// Signals; the reference knows only `interrupt`, the others need `mainstaySignals`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
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

/// Params of `process/terminate`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TerminateParams {
    /// Which process.
    pub process_id: String,
    /// SIGTERM now, SIGKILL after so many ms (`mainstayTerminateGrace`); SIGKILL at once when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
}

/// Answer to `process/terminate`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminateAnswer {
    /// Whether a signal was sent.
    pub running: bool,
}

/// Params of `process/output`, owned. The hot path uses [`OutputNotice`] and [`write_output`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputParams {
    /// Which process.
    pub process_id: String,
    /// Its place in the process's history.
    pub seq: u64,
    /// Where it came out.
    pub stream: Stream,
    /// The bytes.
    pub chunk: Base64,
}

/// Params of `process/exited`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExitedParams {
    /// Which process.
    pub process_id: String,
    /// Its place in the process's history.
    pub seq: u64,
    /// 128 + n after signal n; -1 when the status was lost.
    pub exit_code: i32,
    /// A guess about sandboxed programs; absent from older executors.
    #[serde(default)]
    pub sandbox_denied: bool,
}

/// Params of `process/closed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClosedParams {
    /// Which process.
    pub process_id: String,
    /// The highest seq of the process.
    pub seq: u64,
}
