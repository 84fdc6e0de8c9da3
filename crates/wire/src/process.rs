//! The process family: `process/…` (`protocol.md` 6 and 7).

mod output;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::base64::Base64;
use crate::call::{call, notice};
use crate::extension::StartExtension;
use crate::network::{ManagedNetwork, NetworkProxy};
use crate::sandbox::Sandbox;
use crate::{Empty, PathUri};

pub use output::{OutputNotice, parse_output, write_closed, write_exited, write_output};

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

/// Params of `process/start`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartParams {
    /// Chosen by the client, unique in its session.
    pub process_id: String,
    /// Program and arguments; must not be empty.
    pub argv: Vec<String>,
    /// Working directory.
    pub cwd: PathUri,
    /// The environment, or what overrides it when `env_policy` is there.
    pub env: BTreeMap<String, String>,
    /// Whether it runs in a terminal.
    pub tty: bool,
    /// What the program sees as its own name.
    #[serde(default)]
    pub arg0: Option<String>,
    /// Keeps standard input open when not in a terminal.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub pipe_stdin: bool,
    /// Which of the executor's own variables the program gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_policy: Option<EnvPolicy>,
    /// What the program may touch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
    /// Whether the program must go through the managed network.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub enforce_managed_network: bool,
    /// What stays reachable beside the proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_network: Option<ManagedNetwork>,
    /// A private proxy for this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_proxy: Option<NetworkProxy>,
    /// Telemetry only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// Unix only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell_snapshot: Option<ShellSnapshot>,
    /// What only Mainstay's executors understand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mainstay: Option<StartExtension>,
}

impl StartParams {
    /// The required members; everything else as when absent.
    pub fn new(process_id: impl Into<String>, argv: Vec<String>, cwd: PathUri) -> Self {
        Self {
            process_id: process_id.into(),
            argv,
            cwd,
            env: BTreeMap::new(),
            tty: false,
            arg0: None,
            pipe_stdin: false,
            env_policy: None,
            sandbox: None,
            enforce_managed_network: false,
            managed_network: None,
            network_proxy: None,
            metadata: None,
            shell_snapshot: None,
            mainstay: None,
        }
    }
}

/// `null` is the default, as absence is.
pub(crate) fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// How the executor's own environment is filtered; all members required.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvPolicy {
    /// What to start from.
    pub inherit: Inherit,
    /// Keeps `*KEY*`, `*SECRET*` and `*TOKEN*`.
    pub ignore_default_excludes: bool,
    /// Patterns to remove: case-insensitive globs.
    pub exclude: Vec<String>,
    /// Added after the exclusions.
    pub set: BTreeMap<String, String>,
    /// Patterns to keep, when not empty.
    pub include_only: Vec<String>,
}

/// What an environment starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Inherit {
    /// The executor's whole environment.
    All,
    /// HOME, LANG, PATH, SHELL and their like.
    Core,
    /// Nothing.
    None,
}

/// Telemetry identifiers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// A UUID; a malformed one is a shape error.
    #[serde(
        default,
        deserialize_with = "uuid_text",
        skip_serializing_if = "Option::is_none"
    )]
    pub thread_id: Option<String>,
    /// Free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

fn uuid_text<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    if let Some(text) = &text {
        uuid::Uuid::parse_str(text).map_err(serde::de::Error::custom)?;
    }
    Ok(text)
}

/// A captured shell state to start from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShellSnapshot {
    /// What it belongs to.
    pub scope_id: String,
    /// Which shell.
    pub shell: crate::environment::Shell,
}

/// Answer to `process/start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StartAnswer {
    /// The id of the request.
    pub process_id: String,
    /// Absent from older executors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_type: Option<SandboxType>,
}

/// What confines the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SandboxType {
    /// Nothing.
    None,
    /// Seccomp and namespaces.
    LinuxSeccomp,
    /// Seatbelt.
    MacosSeatbelt,
    /// A restricted token.
    WindowsRestrictedToken,
    /// MXC.
    WindowsMxc,
    /// A kind a newer executor knows.
    #[serde(untagged)]
    Other(String),
}

/// `data.kind` of a failed start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SpawnErrorKind {
    /// Program or working directory missing.
    SpawnNotFound,
    /// Everything else.
    SpawnFailed,
    /// No permission to run the program.
    SpawnPermissionDenied,
    /// The asked sandbox does not exist here.
    SandboxUnavailable,
    /// The sandbox could not be set up.
    SandboxPreparation,
    /// A kind a newer executor knows.
    #[serde(untagged)]
    Other(String),
}

/// `data` of the error that ends a failed start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpawnErrorData {
    /// What failed.
    pub kind: SpawnErrorKind,
    /// Which of the two is missing; only Mainstay's executors say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mainstay_missing: Option<crate::extension::Missing>,
}

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
