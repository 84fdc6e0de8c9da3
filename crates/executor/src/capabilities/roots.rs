//! `capabilityRoots/discoverV1`.

use std::collections::BTreeSet;
use std::path::Path;

use mainstay_wire::capabilities::{DiscoverRootsAnswer, RootAnswer, RootRequest, RootSkill};
use mainstay_wire::{PathUri, limits};

use super::manifest;
use super::scan::{self, Reader};
use crate::files::error::os_text;
use crate::sandbox::{Touch, permit_files};

/// Looks at each root in turn; one that fails leaves the others alone.
pub(super) fn discover(roots: Vec<RootRequest>) -> DiscoverRootsAnswer {
    let mut room = limits::CAPABILITY_ANSWER;
    DiscoverRootsAnswer {
        roots: roots
            .into_iter()
            .map(|root| look(root, &mut room))
            .collect(),
    }
}

fn look(root: RootRequest, room: &mut usize) -> RootAnswer {
    let mut answer = RootAnswer {
        id: root.id,
        path: root.path,
        plugin: None,
        skills: Vec::new(),
        namespace_manifests: Vec::new(),
        warnings: Vec::new(),
        error: None,
    };
    let uri = answer.path.clone();
    let looked = permit_files(root.sandbox.as_ref(), Touch::Read)
        .map_err(|error| error.message)
        .and_then(|()| uri.to_native().map_err(|error| error.to_string()))
        .and_then(|path| match std::fs::metadata(&path) {
            Ok(metadata) => Ok((path, metadata.is_dir())),
            Err(error) => Err(os_text(&error)),
        });
    match looked {
        Ok((path, true)) => fill(&mut answer, &path, room),
        Ok((_, false)) => answer.error = Some(format!("capability root {uri} is not a directory")),
        Err(reason) => {
            answer.error = Some(format!("failed to inspect capability root {uri}: {reason}"))
        }
    }
    answer
}

fn fill(answer: &mut RootAnswer, root: &Path, room: &mut usize) {
    let mut reader = Reader::new(room);
    answer.plugin = manifest::plugin(root, &mut reader);
    match scan::skills(root) {
        Ok(found) => {
            if found.truncated {
                reader.warn(format!(
                    "capability scan reached its traversal limit (root: {})",
                    answer.path
                ));
            }
            for (path, reason) in &found.errors {
                let path = PathUri::from_native(path)
                    .map(|uri| uri.to_string())
                    .unwrap_or_default();
                reader.warn(format!(
                    "failed to list capability directory {path}: {reason}"
                ));
            }
            let mut plugins = BTreeSet::from_iter(manifest::plugin_above(root));
            for skill in &found.files {
                let Some(directory) = skill.parent() else {
                    continue;
                };
                let Some(instructions) = reader.read(skill) else {
                    continue;
                };
                let metadata = reader.read(&directory.join(super::skill::METADATA));
                answer.skills.push(RootSkill {
                    instructions,
                    metadata,
                });
                plugins.extend(manifest::plugin_above(directory));
            }
            for plugin in plugins {
                answer
                    .namespace_manifests
                    .extend(manifest::find(&plugin, &mut reader));
            }
        }
        Err(error) => {
            answer.error = Some(format!(
                "failed to inspect capability root {}: {error}",
                answer.path
            ));
        }
    }
    answer.warnings = reader.into_warnings();
}
