//! `capabilities/discoverV2`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mainstay_wire::capabilities::{DiscoverAnswer, DiscoveryRoot, Plugin, Skill};
use mainstay_wire::{PathUri, limits};
use serde_json::{Value, json};

use super::manifest;
use super::scan::{self, Reader};
use super::skill::{Additions, FrontMatter, METADATA};
use crate::config_read::ConfigFiles;
use crate::files::error::FileError;

/// The one warning: what exactly is wrong is nothing a peer could act on.
const INCOMPLETE: &str =
    "some capability metadata could not be loaded; discovery may be incomplete";

/// Looks at the plugins and skills installed for the user.
pub(super) fn discover(files: &ConfigFiles) -> DiscoverAnswer {
    let mut search = Search {
        answer: DiscoverAnswer::default(),
        room: limits::WALK_ANSWER,
        incomplete: false,
    };
    search.plugins(&files.codex_home.join("plugins/cache"));
    search.root("codex-home-skills", &files.codex_home.join("skills"));
    if let Some(home) = &files.home {
        search.root("user-agent-skills", &home.join(".agents/skills"));
    }
    if search.incomplete {
        search.answer.warnings.push(INCOMPLETE.to_owned());
    }
    search.answer
}

struct Search {
    answer: DiscoverAnswer,
    /// Bytes still allowed in the answer.
    room: usize,
    incomplete: bool,
}

/// A skill before it is told.
struct Found {
    name: String,
    front: FrontMatter,
    additions: Additions,
    path: PathUri,
}

impl Search {
    fn root(&mut self, id: &str, root: &Path) {
        let Ok(path) = PathUri::from_native(root) else {
            return;
        };
        let discovery_root = DiscoveryRoot {
            id: id.to_owned(),
            path,
        };
        for found in self.skills(root) {
            let skill = Skill {
                name: found.name,
                description: found.front.description,
                short_description: found.front.short_description,
                path: found.path,
                discovery_root: discovery_root.clone(),
                dependencies: found.additions.dependencies.and_then(told),
                policy: found.additions.policy.and_then(told),
            };
            self.answer.skills.push(skill);
        }
    }

    /// The plugins of a cache: `marketplace/name/version`.
    fn plugins(&mut self, cache: &Path) {
        for (marketplace, directory) in directories(cache) {
            for (name, directory) in directories(&directory) {
                let Some((version, root)) = newest(directories(&directory)) else {
                    continue;
                };
                match self.plugin(format!("{name}@{marketplace}"), version, &root) {
                    Some(plugin) => self.answer.plugins.push(plugin),
                    None => self.incomplete = true,
                }
            }
        }
    }

    fn plugin(&mut self, id: String, version: String, root: &Path) -> Option<Plugin> {
        let mut reader = Reader::new(&mut self.room);
        let files = manifest::plugin(root, &mut reader)?;
        let name = manifest::name(&files.manifest)?;
        let display_name = manifest::display_name(&files.manifest).unwrap_or(name);
        self.incomplete |= !reader.into_warnings().is_empty();
        let skills = self.skills(&root.join("skills")).into_iter().map(|found| {
            json!({
                "name": found.name,
                "description": found.front.description,
                "shortDescription": found.front.short_description,
                "path": found.path,
                "dependencies": found.additions.dependencies.and_then(told),
                "policy": found.additions.policy.and_then(told),
            })
        });
        Some(Plugin {
            id,
            display_name: Some(display_name),
            remote_plugin_id: None,
            version: Some(version),
            root: PathUri::from_native(root).ok()?,
            skills: skills.collect(),
            files: told(files)?,
        })
    }

    /// The skills below a directory, as far as they can be understood and told.
    fn skills(&mut self, root: &Path) -> Vec<Found> {
        let files = match scan::skills(root) {
            Ok(found) => {
                self.incomplete |= found.truncated || !found.errors.is_empty();
                found.files
            }
            Err(FileError::Os(error)) if error.kind() == std::io::ErrorKind::NotFound => {
                return Vec::new();
            }
            Err(_) => {
                self.incomplete = true;
                return Vec::new();
            }
        };
        let mut namespaces = BTreeMap::new();
        let mut skills = Vec::new();
        for file in files {
            let known = self.answer.skills.len() + self.answer.plugins.len() + skills.len();
            match (known < limits::CAPABILITIES)
                .then(|| self.skill(&file, &mut namespaces))
                .flatten()
            {
                Some(found) => skills.push(found),
                None => self.incomplete = true,
            }
        }
        skills
    }

    /// One skill; a name that is not told falls back to its directory's, and a plugin's name comes before it.
    fn skill(
        &mut self,
        file: &Path,
        namespaces: &mut BTreeMap<PathBuf, Option<String>>,
    ) -> Option<Found> {
        let directory = file.parent()?;
        // What is read is not told, only what is made of it.
        let mut unlimited = usize::MAX;
        let mut reader = Reader::new(&mut unlimited);
        let front = FrontMatter::parse(&reader.read(file)?.contents)?;
        let additions = reader.read(&directory.join(METADATA));
        let additions = additions
            .map(|metadata| Additions::parse(&metadata.contents))
            .unwrap_or_default();
        let base = match &front.name {
            Some(name) => name.clone(),
            None => directory.file_name()?.to_string_lossy().into_owned(),
        };
        let namespace = manifest::plugin_above(directory).and_then(|plugin| {
            let named = namespaces.entry(plugin.clone());
            named
                .or_insert_with(|| manifest::name(&manifest::find(&plugin, &mut reader)?))
                .clone()
        });
        let name = match namespace {
            Some(namespace) => format!("{namespace}:{base}"),
            None => base,
        };
        let short = front.short_description.as_ref().map_or(0, String::len);
        let size = name.len() + front.description.len() + short + file.as_os_str().len();
        self.room = self.room.checked_sub(size)?;
        Some(Found {
            name,
            front,
            additions,
            path: PathUri::from_native(file).ok()?,
        })
    }
}

fn told(value: impl serde::Serialize) -> Option<Value> {
    serde_json::to_value(value).ok()
}

/// The directories in a directory, sorted by name; none when it cannot be read.
fn directories(parent: &Path) -> Vec<(String, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return Vec::new();
    };
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            entry.path().is_dir().then(|| (name, entry.path()))
        })
        .take(limits::CAPABILITIES)
        .collect();
    found.sort_unstable();
    found
}

/// The version that counts: `local`, or the highest one.
fn newest(versions: Vec<(String, PathBuf)>) -> Option<(String, PathBuf)> {
    let order = |version: &str| {
        let parts: Vec<(Option<u64>, String)> = version
            .split(['.', '-', '+'])
            .map(|part| (part.parse().ok(), part.to_owned()))
            .collect();
        (version == "local", parts)
    };
    versions
        .into_iter()
        .max_by_key(|(version, _)| order(version))
}
