//! The sandbox object of `process/start` and every `fs/…` method (`protocol.md` 9.3).

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use crate::PathUri;

/// What a program or a file operation may touch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sandbox {
    /// What is allowed.
    pub permissions: Permissions,
    /// What relative parts of the policy start from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathUri>,
    /// Project directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_roots: Option<Vec<PathUri>>,
    /// The user's home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_home_dir: Option<PathUri>,
    /// Temporary directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temporary_directories: Option<Vec<PathUri>>,
    /// Windows only, required everywhere.
    pub windows_sandbox_level: WindowsSandboxLevel,
    /// Windows only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows_sandbox_proxy_settings_mode: Option<WindowsProxySettingsMode>,
    /// Linux only.
    #[serde(
        default,
        deserialize_with = "crate::nullable::or_default",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub use_legacy_landlock: bool,
}

/// What is allowed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Permissions {
    /// The executor confines.
    Managed {
        /// The files.
        file_system: FileSystemAccess,
        /// The network.
        network: NetworkAccess,
    },
    /// Everything.
    Disabled,
    /// Somebody else confines the files.
    External {
        /// The network.
        network: NetworkAccess,
    },
}

/// Whether the network is reachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkAccess {
    /// No.
    Restricted,
    /// Yes.
    Enabled,
}

/// Which files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FileSystemAccess {
    /// Those listed.
    Restricted {
        /// Later entries do not override earlier ones of the same path.
        entries: Vec<FileSystemEntry>,
        /// How deep globs are expanded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        glob_scan_max_depth: Option<NonZeroU64>,
    },
    /// All.
    Unrestricted,
}

/// One rule about files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSystemEntry {
    /// Which.
    pub path: FileSystemPath,
    /// What for.
    pub access: FileAccess,
}

/// Which files a rule is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FileSystemPath {
    /// One path and what is below.
    Path {
        /// The path.
        path: PathUri,
    },
    /// What a glob matches.
    GlobPattern {
        /// The glob.
        pattern: String,
    },
    /// A place with a name.
    Special {
        /// The place.
        value: SpecialPath,
    },
}

/// A place with a name. Further members of the object are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SpecialPath {
    /// `/`.
    Root,
    /// What a program needs to run.
    Minimal,
    /// The working directory.
    CurrentWorkingDirectory,
    /// The project directories.
    ProjectRoots,
    /// `TMPDIR`.
    Tmpdir,
    /// `/tmp`.
    SlashTmp,
    /// A place a newer peer knows.
    Unknown,
}

/// What a rule allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileAccess {
    /// Reading.
    Read,
    /// Reading and writing.
    Write,
    /// Neither, whatever else says.
    Deny,
    /// Neither.
    None,
}

/// Windows only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WindowsSandboxLevel {
    /// None.
    Disabled,
    /// A restricted token.
    RestrictedToken,
    /// An elevated helper.
    Elevated,
    /// MXC.
    Mxc,
}

/// Windows only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowsProxySettingsMode {
    /// Brings them in line.
    Reconcile,
    /// Leaves them.
    Preserve,
}
