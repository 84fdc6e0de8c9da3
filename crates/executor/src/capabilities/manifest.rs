//! A plugin's manifest and the files it names.

use std::path::{Component, Path, PathBuf};

use mainstay_wire::capabilities::{RootPlugin, TextFile};
use serde_json::Value;

use super::scan::{MANIFESTS, Reader};

/// The manifest in a directory, if it is a plugin's.
pub(super) fn find(directory: &Path, reader: &mut Reader<'_>) -> Option<TextFile> {
    MANIFESTS
        .iter()
        .find_map(|name| reader.read(&directory.join(name)))
}

/// The lowest directory from `from` upwards that has a manifest.
pub(super) fn plugin_above(from: &Path) -> Option<PathBuf> {
    let has_manifest =
        |directory: &&Path| MANIFESTS.iter().any(|name| directory.join(name).is_file());
    from.ancestors().find(has_manifest).map(Path::to_owned)
}

/// The plugin in a directory with its manifest and configuration files.
pub(super) fn plugin(directory: &Path, reader: &mut Reader<'_>) -> Option<RootPlugin> {
    let manifest = find(directory, reader)?;
    let parsed = serde_json::from_str(&manifest.contents).unwrap_or(Value::Null);
    let mut config = |member: &str, default: &str| match parsed.get(member) {
        None => reader.read(&directory.join(default)),
        Some(Value::String(path)) => match below(directory, path) {
            Ok(path) => reader.read(&path),
            Err(reason) => {
                reader.warn(format!("ignoring {member} in {}: {reason}", manifest.path));
                None
            }
        },
        // Written into the manifest itself, or nonsense.
        Some(_) => None,
    };
    let mcp_config = config("mcpServers", ".mcp.json");
    let apps_config = config("apps", ".app.json");
    Some(RootPlugin {
        manifest,
        mcp_config,
        apps_config,
    })
}

/// What a manifest is called by, if it says so.
pub(super) fn name(manifest: &TextFile) -> Option<String> {
    let parsed: Value = serde_json::from_str(&manifest.contents).ok()?;
    parsed
        .get("name")?
        .as_str()
        .filter(|name| !name.trim().is_empty())
        .map(str::to_owned)
}

/// What a manifest is called by for people.
pub(super) fn display_name(manifest: &TextFile) -> Option<String> {
    let parsed: Value = serde_json::from_str(&manifest.contents).ok()?;
    parsed
        .pointer("/interface/displayName")?
        .as_str()
        .map(str::to_owned)
}

/// A path that a manifest gives, which must stay in the plugin's directory.
fn below(directory: &Path, path: &str) -> Result<PathBuf, &'static str> {
    let Some(relative) = path.strip_prefix("./") else {
        return Err("path must start with `./`");
    };
    let relative = Path::new(relative);
    if relative
        .components()
        .all(|component| matches!(component, Component::Normal(_) | Component::CurDir))
    {
        Ok(directory.join(relative))
    } else {
        Err("path must stay within the plugin")
    }
}
