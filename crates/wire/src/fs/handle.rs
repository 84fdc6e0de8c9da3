//! Open files read and written in blocks, and the watch for missing paths (`protocol.md` 9.2 and 9.4).

use serde::{Deserialize, Serialize};

use crate::base64::Base64;
use crate::call::{call, notice};
use crate::sandbox::Sandbox;
use crate::{Empty, PathUri};

call!(
    /// Opens a file under a name of the client's choice.
    Open, "fs/open", Filesystem, OpenParams => OpenAnswer
);
call!(
    /// Reads a block.
    ReadBlock, "fs/readBlock", Filesystem, ReadBlockParams => ReadBlockAnswer
);
call!(
    /// Writes a block; a gap becomes zeros.
    WriteBlock, "fs/writeBlock", Filesystem, WriteBlockParams => Empty
);
call!(
    /// Closes a file; an unknown handle is no error.
    Close, "fs/close", Filesystem, CloseParams => Empty
);
call!(
    /// Watches for something missing to appear; one live watch per connection.
    WatchMissing, "fs/watchMissing", Filesystem, WatchMissingParams => WatchMissingAnswer
);
notice!(
    /// Something a watch is about may exist now. Fires once.
    MissingChanged, "fs/missingChanged", MissingChangedParams
);

/// Params of `fs/open`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenParams {
    /// The client's choice.
    pub handle_id: String,
    /// Which file.
    pub path: PathUri,
    /// What for; reading when absent.
    #[serde(default, deserialize_with = "crate::nullable::or_default")]
    pub mode: OpenMode,
    /// What may be touched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// What a file is opened for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OpenMode {
    /// Reading.
    #[default]
    Read,
    /// Writing, after creating or emptying it.
    Replace,
}

/// Answer to `fs/open`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenAnswer {
    /// As asked.
    pub handle_id: String,
}

/// Params of `fs/readBlock`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadBlockParams {
    /// Which file.
    pub handle_id: String,
    /// From where.
    pub offset: u64,
    /// 1 to 1 MiB.
    pub len: u64,
}

/// Answer to `fs/readBlock`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadBlockAnswer {
    /// The bytes.
    pub chunk: Base64,
    /// Whether fewer bytes came than asked.
    pub eof: bool,
}

/// Params of `fs/writeBlock`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteBlockParams {
    /// Which file.
    pub handle_id: String,
    /// Where to.
    pub offset: u64,
    /// 1 byte to 1 MiB.
    pub chunk: Base64,
}

/// Params of `fs/close`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CloseParams {
    /// Which file.
    pub handle_id: String,
}

/// Params of `fs/watchMissing`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WatchMissingParams {
    /// Higher than every one before on the connection.
    pub watch_id: u64,
    /// At most 64 paths; none cancels the watch.
    pub missing: Vec<PathUri>,
    /// A path whose change or removal counts too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub present: Option<PathUri>,
}

/// Answer to `fs/watchMissing`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchMissingAnswer {
    /// Whether the watch stands.
    pub watching: bool,
}

/// Params of `fs/missingChanged`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MissingChangedParams {
    /// Which watch.
    pub watch_id: u64,
}
