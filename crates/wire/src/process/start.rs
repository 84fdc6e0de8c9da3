//! Params and answer of `process/start`, and the facts about a failed one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::extension::StartExtension;
use crate::network::{ManagedNetwork, NetworkProxy};
use crate::sandbox::Sandbox;
use crate::{PathUri, nullable};

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
        deserialize_with = "nullable::or_default",
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
        deserialize_with = "nullable::or_default",
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
    /// HOME, LANG, PATH, SHELL and their like.
    Core,
    /// The executor's whole environment.
    All,
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
