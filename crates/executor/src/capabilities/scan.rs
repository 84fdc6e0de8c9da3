//! Finding and reading the files of capabilities.

use std::path::{Path, PathBuf};

use mainstay_wire::capabilities::TextFile;
use mainstay_wire::fs::WalkKind;
use mainstay_wire::{PathUri, limits};

use crate::files::error::FileError;
use crate::files::read_bytes;
use crate::files::walk::{Options, walk};

/// The name of a file that makes its directory a skill.
const SKILL: &str = "SKILL.md";

/// Where a plugin's manifest may be, the first one counts.
pub(super) const MANIFESTS: [&str; 3] = [
    ".codex-plugin/plugin.json",
    ".claude-plugin/plugin.json",
    ".cursor-plugin/plugin.json",
];

/// Skills below a directory.
#[derive(Debug, Default)]
pub(super) struct Skills {
    /// The `SKILL.md` files, sorted by path.
    pub(super) files: Vec<PathBuf>,
    /// Whether a limit cut the scan short.
    pub(super) truncated: bool,
    /// Directories that could not be listed, with the reason.
    pub(super) errors: Vec<(PathBuf, String)>,
}

/// Looks for skills in a directory and below, links to directories included.
pub(super) fn skills(root: &Path) -> Result<Skills, FileError> {
    let options = Options {
        depth: limits::CAPABILITY_DEPTH,
        directories: limits::CAPABILITY_DIRECTORIES,
        entries: limits::CAPABILITY_ENTRIES,
        follow: true,
        prune_hidden: false,
        answer: usize::MAX,
    };
    let found = walk(root, options)?;
    let skill = |(path, kind): (PathBuf, WalkKind)| {
        (kind == WalkKind::File && path.file_name().is_some_and(|name| name == SKILL))
            .then_some(path)
    };
    let mut files: Vec<_> = found.entries.into_iter().filter_map(skill).collect();
    files.sort_unstable_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
    Ok(Skills {
        files,
        truncated: found.truncated,
        errors: found.errors,
    })
}

/// Reads files of one root, as far as they may be told, and gathers warnings about the others.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    /// Bytes still allowed for the root.
    bundle: usize,
    /// Bytes still allowed for the whole answer.
    answer: &'a mut usize,
    full: bool,
    warnings: Vec<String>,
    left_out: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(answer: &'a mut usize) -> Self {
        Self {
            bundle: limits::CAPABILITY_BUNDLE,
            answer,
            full: false,
            warnings: Vec::new(),
            left_out: 0,
        }
    }

    /// The text of a file; `None` when there is none, or with a warning.
    pub(super) fn read(&mut self, path: &Path) -> Option<TextFile> {
        let uri = PathUri::from_native(path).ok()?;
        let bytes = match read_bytes(path, limits::CAPABILITY_FILE) {
            Ok(bytes) => bytes,
            Err(FileError::Os(error)) if is_missing(&error) => return None,
            Err(FileError::TooLarge(limit)) => {
                self.warn(format!(
                    "capability file {uri} exceeds the {limit}-byte limit"
                ));
                return None;
            }
            Err(error) => {
                self.warn(format!("failed to read capability file {uri}: {error}"));
                return None;
            }
        };
        let contents = match String::from_utf8(bytes) {
            Ok(contents) => contents,
            Err(error) => {
                self.warn(format!(
                    "capability file {uri} is not UTF-8: {}",
                    error.utf8_error()
                ));
                return None;
            }
        };
        if contents.len() > self.bundle || contents.len() > *self.answer {
            if !self.full {
                self.full = true;
                let limit = limits::CAPABILITY_BUNDLE;
                self.warn(format!(
                    "capability root bundle exceeds the {limit}-byte limit"
                ));
            }
            return None;
        }
        self.bundle -= contents.len();
        *self.answer -= contents.len();
        Some(TextFile {
            path: uri,
            contents,
        })
    }

    /// Adds a warning, unless there are too many.
    pub(super) fn warn(&mut self, warning: String) {
        if self.warnings.len() + 1 < limits::CAPABILITY_WARNINGS {
            self.warnings.push(warning);
        } else {
            self.left_out += 1;
        }
    }

    pub(super) fn into_warnings(mut self) -> Vec<String> {
        if self.left_out > 0 {
            self.warnings
                .push(format!("and {} warnings more", self.left_out));
        }
        self.warnings
    }
}

fn is_missing(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
    )
}
