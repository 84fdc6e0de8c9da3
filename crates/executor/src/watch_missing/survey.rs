//! What there is of some paths at one moment.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::files::descent::Identity;
use crate::files::open::LOOKUP;

/// What there is of the paths of a watch. Two equal ones mean that nothing a watch is about has changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Survey {
    pub(super) missing: Vec<Missing>,
    pub(super) present: Option<Present>,
}

/// A path that does not exist.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Missing {
    /// The directories on the way that exist, the root first.
    pub(super) directories: Vec<Directory>,
    /// The first component that does not exist, in the last of them.
    pub(super) name: OsString,
}

/// A path that exists.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Present {
    pub(super) path: PathBuf,
    /// The directories on the way, the root first.
    pub(super) directories: Vec<Directory>,
    state: State,
}

/// A directory on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Directory {
    pub(super) path: PathBuf,
    identity: Identity,
}

/// What changes when a file is written, replaced or given other attributes. The modification time of a directory is
/// left out: it changes with every file made in it.
#[derive(Debug, PartialEq, Eq)]
struct State {
    identity: Identity,
    mode: u32,
    owner: (u32, u32),
    content: Option<(i64, i64, u64)>,
}

impl Survey {
    /// Looks; `None` when a path that should be missing exists, `present` does not, or a path cannot be watched.
    pub(super) fn take(missing: &[PathBuf], present: Option<&Path>) -> io::Result<Option<Self>> {
        let mut survey = Self {
            missing: Vec::new(),
            present: None,
        };
        for path in missing {
            match follow(path)? {
                Way::Missing(missing) => survey.missing.push(missing),
                Way::Present(_) | Way::Unsure => return Ok(None),
            }
        }
        if let Some(path) = present {
            match follow(path)? {
                Way::Present(present) => survey.present = Some(present),
                Way::Missing(_) | Way::Unsure => return Ok(None),
            }
        }
        Ok(Some(survey))
    }
}

enum Way {
    Missing(Missing),
    Present(Present),
    /// It leads through a link or a file. What the link points to could change unseen.
    Unsure,
}

fn follow(path: &Path) -> io::Result<Way> {
    let names: Vec<&OsStr> = path
        .components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name),
            _ => None,
        })
        .collect();
    let mut at = rustix::fs::open("/", LOOKUP, Mode::empty())?;
    let mut directories = vec![Directory {
        path: PathBuf::from("/"),
        identity: Identity::of(&at)?,
    }];
    let mut here = PathBuf::from("/");
    for (index, name) in names.iter().enumerate() {
        let stat = match rustix::fs::statat(&at, *name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => {
                return Ok(Way::Missing(Missing {
                    directories,
                    name: (*name).to_owned(),
                }));
            }
            Err(_) => return Ok(Way::Unsure),
        };
        here.push(name);
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind == FileType::Symlink {
            return Ok(Way::Unsure);
        }
        if index + 1 == names.len() {
            let content = (kind != FileType::Directory).then_some((
                stat.st_size,
                stat.st_mtime,
                stat.st_mtime_nsec,
            ));
            let state = State {
                identity: Identity::from_stat(&stat),
                mode: stat.st_mode,
                owner: (stat.st_uid, stat.st_gid),
                content,
            };
            return Ok(Way::Present(Present {
                path: here,
                directories,
                state,
            }));
        }
        match rustix::fs::openat(&at, *name, LOOKUP | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(below) => at = below,
            Err(_) => return Ok(Way::Unsure),
        }
        directories.push(Directory {
            path: here.clone(),
            identity: Identity::of(&at)?,
        });
    }
    // The root itself.
    Ok(Way::Unsure)
}
