//! The handshake: `initialize`, `initialized`.

use serde::{Deserialize, Serialize};

use crate::call::{call, notice};
use crate::environment::EnvironmentInfo;
use crate::extension;

call!(
    /// First request of a connection; makes a session or resumes one (`protocol.md` 3).
    Initialize, "initialize", Handshake, InitializeParams => InitializeAnswer
);
notice!(
    /// Second half of the handshake; its params are ignored.
    Initialized, "initialized", Ignored
);

/// Params of `initialize`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    /// Who calls; not interpreted. Ours is `mainstay`.
    pub client_name: String,
    /// The session to resume; a new one when absent.
    #[serde(default)]
    pub resume_session_id: Option<String>,
    /// What the client can do beyond the reference (`design.md` 9).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mainstay: Option<extension::ClientExtension>,
}

/// Answer to `initialize`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeAnswer {
    /// A random UUID v4; the resumed session's id when resuming.
    pub session_id: String,
    /// The same as `environment/info`; absent from older executors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_info: Option<EnvironmentInfo>,
}

/// Params nobody reads: whatever they are, or none. Written as `{}`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Ignored {}

impl<'de> Deserialize<'de> for Ignored {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Ignored {})
    }
}
