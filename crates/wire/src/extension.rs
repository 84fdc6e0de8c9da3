//! What Mainstay adds to the protocol. Used only when both sides announced it (`docs/protocol-extensions.md`).

use serde::{Deserialize, Serialize};

use crate::Empty;
use crate::call::{call, notice};
use crate::process::WriteAnswer;

/// Capability bits, as they stand in `environmentInfo.capabilities` and `initialize.params.mainstay.capabilities`.
pub mod capability {
    /// `mainstay/closeStdin`.
    pub const STDIN_CLOSE: &str = "mainstayStdinClose";
    /// `mainstay/credit`; only in use when the client announced it too.
    pub const CREDIT: &str = "mainstayCredit";
    /// A number: how long a detached session lives, in ms.
    pub const RETENTION_MS: &str = "mainstayRetentionMs";
    /// Writes of one process are applied in arrival order, so that they may be pipelined.
    pub const ORDERED_WRITES: &str = "mainstayOrderedWrites";
    /// `initialize.params.mainstay.takeOver`.
    pub const TAKE_OVER: &str = "mainstayTakeOver";
    /// `mainstayFirstSeq` in answers to `process/read`.
    pub const FIRST_SEQ: &str = "mainstayFirstSeq";
    /// `mainstay/resize` and the initial terminal size.
    pub const RESIZE: &str = "mainstayResize";
    /// More signals than `interrupt`.
    pub const SIGNALS: &str = "mainstaySignals";
    /// `graceMs` of `process/terminate`.
    pub const TERMINATE_GRACE: &str = "mainstayTerminateGrace";
    /// `mainstay/processes`.
    pub const PROCESS_LIST: &str = "mainstayProcessList";
    /// `mainstay/endSession`.
    pub const END_SESSION: &str = "mainstayEndSession";
    /// `mainstay/cancelHttp`.
    pub const HTTP_CANCEL: &str = "mainstayHttpCancel";
}

call!(
    /// Ends standard input after everything written before; idempotent.
    CloseStdin, "mainstay/closeStdin", Exec, CloseStdinParams => WriteAnswer
);
call!(
    /// Changes the size of a terminal.
    Resize, "mainstay/resize", Exec, ResizeParams => Empty
);
call!(
    /// Lists the session's processes.
    Processes, "mainstay/processes", Exec, crate::NoParams => ProcessesAnswer
);
call!(
    /// Kills the session's processes and forgets the session.
    EndSession, "mainstay/endSession", Exec, crate::NoParams => Empty
);
call!(
    /// Cancels an HTTP request.
    CancelHttp, "mainstay/cancelHttp", Http, CancelHttpParams => Empty
);
notice!(
    /// Acknowledges output and grants more, client to executor.
    Credit, "mainstay/credit", CreditParams
);

/// `initialize.params.mainstay`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientExtension {
    /// What the client can do.
    #[serde(default, deserialize_with = "crate::nullable::or_default")]
    pub capabilities: Vec<String>,
    /// Whether a session attached elsewhere is to be taken over.
    #[serde(
        default,
        deserialize_with = "crate::nullable::or_default",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub take_over: bool,
}

impl ClientExtension {
    /// Whether the client announced `name`.
    pub fn has(&self, name: &str) -> bool {
        self.capabilities
            .iter()
            .any(|capability| capability == name)
    }
}

/// `mainstay` of `process/start`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartExtension {
    /// Initial size of the terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
}

/// Size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Columns.
    pub cols: u16,
}

/// `data.mainstayMissing` of a failed start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Missing {
    /// The working directory.
    Cwd,
    /// The program.
    Program,
}

/// Params of `mainstay/closeStdin`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CloseStdinParams {
    /// Which process.
    pub process_id: String,
}

/// Params of `mainstay/credit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreditParams {
    /// Which process.
    pub process_id: String,
    /// Everything up to here is with the consumer and may be forgotten.
    pub ack_seq: u64,
    /// Decoded output bytes beyond `ack_seq` that may be sent as notifications.
    pub window: u64,
}

/// Params of `mainstay/resize`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResizeParams {
    /// Which process.
    pub process_id: String,
    /// Lines.
    pub rows: u16,
    /// Columns.
    pub cols: u16,
}

/// Answer to `mainstay/processes`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessesAnswer {
    /// Running and retained ones, oldest first.
    pub processes: Vec<ProcessEntry>,
}

/// One process of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessEntry {
    /// Its id.
    pub process_id: String,
    /// What was started.
    pub argv: Vec<String>,
    /// Whether it has a terminal.
    pub tty: bool,
    /// The next seq it will use.
    pub next_seq: u64,
    /// Whether it ended.
    pub exited: bool,
    /// How it ended.
    pub exit_code: Option<i32>,
    /// Whether it ended and its streams did.
    pub closed: bool,
}

/// Params of `mainstay/cancelHttp`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelHttpParams {
    /// The request.
    pub request_id: String,
}
