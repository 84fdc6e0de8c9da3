//! Capability discovery: plugins and skills on the executor's disk (`protocol.md` 13).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::PathUri;
use crate::call::call;
use crate::sandbox::Sandbox;

call!(
    /// Plugins and skills of the built-in roots.
    DiscoverV2, "capabilities/discoverV2", CapabilityDiscovery, DiscoverParams => DiscoverAnswer
);
call!(
    /// Plugins and skills of given roots.
    DiscoverRootsV1, "capabilityRoots/discoverV1", CapabilityDiscovery, DiscoverRootsParams => DiscoverRootsAnswer
);

/// Params of `capabilities/discoverV2`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscoverParams {
    /// Whose project is meant; need not exist.
    pub cwd: PathUri,
    /// What may be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// Answer to `capabilities/discoverV2`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DiscoverAnswer {
    /// Installed plugins.
    #[serde(default)]
    pub plugins: Vec<Plugin>,
    /// Skills of the built-in roots.
    #[serde(default)]
    pub skills: Vec<Skill>,
    /// For people.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// An installed plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plugin {
    /// `name@marketplace`.
    pub id: String,
    /// For people.
    #[serde(default)]
    pub display_name: Option<String>,
    /// Where it came from.
    #[serde(default)]
    pub remote_plugin_id: Option<String>,
    /// Its version.
    #[serde(default)]
    pub version: Option<String>,
    /// Where it lies.
    pub root: PathUri,
    /// What belongs to it; not described by the contract, passed on.
    #[serde(default)]
    pub files: Value,
    /// Its skills.
    #[serde(default)]
    pub skills: Vec<Value>,
}

/// A skill.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Skill {
    /// Name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Shorter.
    #[serde(default)]
    pub short_description: Option<String>,
    /// Its `SKILL.md`.
    pub path: PathUri,
    /// The root it was found under.
    pub discovery_root: DiscoveryRoot,
    /// What it needs; not described by the contract, passed on.
    #[serde(default)]
    pub dependencies: Option<Value>,
    /// When it applies; not described by the contract, passed on.
    #[serde(default)]
    pub policy: Option<Value>,
}

/// Where skills are looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscoveryRoot {
    /// `codex-home-skills`, `user-agent-skills`.
    pub id: String,
    /// The directory.
    pub path: PathUri,
}

/// Params of `capabilityRoots/discoverV1`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscoverRootsParams {
    /// Where to look.
    pub roots: Vec<RootRequest>,
}

/// A place to look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootRequest {
    /// Comes back with the answer; need not be unique.
    pub id: String,
    /// The directory.
    pub path: PathUri,
    /// What may be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// Answer to `capabilityRoots/discoverV1`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscoverRootsAnswer {
    /// In the order asked, duplicates kept.
    pub roots: Vec<RootAnswer>,
}

/// What was found in one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RootAnswer {
    /// As asked.
    pub id: String,
    /// As asked.
    pub path: PathUri,
    /// The plugin, when it is one.
    #[serde(default)]
    pub plugin: Option<RootPlugin>,
    /// Skills.
    #[serde(default)]
    pub skills: Vec<RootSkill>,
    /// Manifests that give skills their namespace.
    #[serde(default)]
    pub namespace_manifests: Vec<TextFile>,
    /// For people.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Why nothing was found; leaves the other roots alone.
    #[serde(default)]
    pub error: Option<String>,
}

/// A plugin found in a root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RootPlugin {
    /// `.codex-plugin/plugin.json`.
    pub manifest: TextFile,
    /// MCP servers it brings.
    #[serde(default)]
    pub mcp_config: Option<TextFile>,
    /// Apps it brings.
    #[serde(default)]
    pub apps_config: Option<TextFile>,
}

/// A skill found in a root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootSkill {
    /// Its `SKILL.md`.
    pub instructions: TextFile,
    /// What lies beside it.
    #[serde(default)]
    pub metadata: Option<TextFile>,
}

/// A file with its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextFile {
    /// Where.
    pub path: PathUri,
    /// What.
    pub contents: String,
}
