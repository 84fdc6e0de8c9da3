//! What an executor says about itself: `environment/…`, `environmentConfig/read`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::call;
use crate::{NoParams, PathUri};

call!(
    /// Facts about the executor's host.
    Info, "environment/info", EnvironmentInfo, NoParams => EnvironmentInfo
);
call!(
    /// The liveness probe.
    Status, "environment/status", EnvironmentStatus, NoParams => StatusAnswer
);
call!(
    /// Selected parts of the executor's configuration files.
    ConfigRead, "environmentConfig/read", EnvironmentConfig, ConfigReadParams => ConfigReadAnswer
);

/// Answer to `environment/info`, and part of the answer to `initialize` (`protocol.md` 12).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentInfo {
    /// The user's shell.
    pub shell: Shell,
    /// `0.0.0` when unknown.
    #[serde(default = "unknown_version")]
    pub executor_version: String,
    /// Opaque, `sha256:…` in the reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// Working directory of the executor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathUri>,
    /// Home directory of its user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_home_dir: Option<PathUri>,
    /// `linux`, `macos`, `windows`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform_os: Option<String>,
    /// Directories the executor puts before `PATH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepend_path_dirs: Option<Vec<PathUri>>,
    /// From `TMPDIR`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temporary_directories: Option<Vec<PathUri>>,
    /// Where temporary files go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temp_dir: Option<PathUri>,
    /// What the executor can do.
    #[serde(default)]
    pub capabilities: Capabilities,
}

fn unknown_version() -> String {
    "0.0.0".to_owned()
}

/// A shell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shell {
    /// `bash`, `zsh`, …
    pub name: String,
    /// Native path.
    pub path: String,
}

/// Capability bits: names to values, nearly all booleans. A missing bit is false, an unknown one is kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Capabilities(BTreeMap<String, Value>);

impl Capabilities {
    /// Sets `name` to `value` (a boolean, or a number for `mainstayRetentionMs`).
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// Whether the bit `name` is there and true.
    pub fn has(&self, name: &str) -> bool {
        self.0.get(name) == Some(&Value::Bool(true))
    }

    /// The number at `name`.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.as_u64()
    }

    /// Every entry.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

/// Answer to `environment/status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusAnswer {
    /// `ready` in every observation.
    pub status: String,
}

impl StatusAnswer {
    /// The one status there is.
    pub fn ready() -> Self {
        Self {
            status: "ready".to_owned(),
        }
    }
}

/// Params of `environmentConfig/read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigReadParams {
    /// Whose project configuration is meant.
    pub cwd: PathUri,
    /// Each a literal TOML key path of the configuration.
    pub config_paths: Vec<Vec<String>>,
    /// Each a literal TOML key path of the requirements.
    pub requirements_paths: Vec<Vec<String>>,
}

/// Answer to `environmentConfig/read`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigReadAnswer {
    /// Home directory of the executor's user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_home_dir: Option<PathUri>,
    /// Directory of the configuration files; the name is the reference's.
    pub codex_home_dir: PathUri,
    /// Host name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Configuration layers.
    pub config: ConfigStack,
    /// Requirements layers.
    pub requirements: ConfigStack,
}

/// Layers of one kind of configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigStack {
    /// Lowest precedence first.
    pub layers: Vec<ConfigLayer>,
    /// Where a layer from elsewhere belongs.
    pub cloud_insertion_index: u64,
}

/// One layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigLayer {
    /// Where it is from, for people: `user (/home/user/.codex/config.toml)`.
    pub source: String,
    /// What relative paths in it start from.
    pub base_dir: PathUri,
    /// The selected parts, as TOML.
    pub toml: String,
}
