//! `fs/walk`.

use std::collections::{HashSet, VecDeque};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::descent::{Identity, Names};
use super::directory::followed_kind;
use super::error::{FileError, os_text};
use super::open::{Links, open, open_in};

/// How far a walk goes. The maxima are in `wire::limits`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// 0 lists the root's children.
    pub(crate) depth: u64,
    /// Directories listed, the root included.
    pub(crate) directories: u64,
    /// Entries looked at, listed or not.
    pub(crate) entries: u64,
    /// Links to directories are listed and entered, each directory once.
    pub(crate) follow: bool,
    /// Directories whose name starts with a dot are listed but not entered.
    pub(crate) prune_hidden: bool,
    /// Bytes of paths and texts in the answer.
    pub(crate) answer: usize,
}

/// What a walk found, breadth first, each directory sorted by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Regular files and directories only.
    pub(crate) entries: Vec<(PathBuf, Kind)>,
    /// What could not be looked at, with the reason.
    pub(crate) errors: Vec<(PathBuf, String)>,
    /// Whether a limit cut the walk short.
    pub(crate) truncated: bool,
}

/// What a walk lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    File,
}

/// Lists a tree. A root that is a file, or a link when links are not followed, gives an empty list.
pub(crate) fn walk(path: &Path, options: Options) -> Result<Found, FileError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let no_follow = if options.follow {
        OFlags::empty()
    } else {
        OFlags::NOFOLLOW
    };
    let root = match open(path, Links::Follow, flags | no_follow, Mode::empty()) {
        Ok(root) => root,
        Err(error) if error.raw_os_error() == Some(Errno::NOTDIR.raw_os_error()) => {
            // A file, a link, or a path through a file, which is an error.
            std::fs::metadata(path)?;
            return Ok(Found::default());
        }
        Err(error) => return Err(error.into()),
    };
    let mut walk = Walk {
        options,
        base: path,
        seen: HashSet::from([Identity::of(&root)?]),
        root,
        waiting: VecDeque::from([(PathBuf::new(), 0)]),
        visited: 0,
        answer: 0,
        found: Found::default(),
    };
    walk.run();
    Ok(walk.found)
}

/// An open directory and its sorted names.
type Listing = (OwnedFd, Vec<(CString, FileType)>);

struct Walk<'a> {
    options: Options,
    base: &'a Path,
    root: OwnedFd,
    /// Directories entered, so that links make no circles; used only when links are followed.
    seen: HashSet<Identity>,
    /// Directories still to be listed, relative to the root, with their depth.
    waiting: VecDeque<(PathBuf, u64)>,
    visited: u64,
    answer: usize,
    found: Found,
}

impl Walk<'_> {
    fn run(&mut self) {
        let mut listed = 0;
        while let Some((directory, depth)) = self.waiting.pop_front() {
            if listed == self.options.directories {
                self.found.truncated = true;
                return;
            }
            match self.list(&directory) {
                Ok(Some((open, names))) => {
                    listed += 1;
                    for (name, kind) in names {
                        if !self.visit(&open, &directory, depth, &name, kind) {
                            self.found.truncated = true;
                            return;
                        }
                    }
                }
                Ok(None) => {}
                Err(error) => {
                    if !self.error(self.base.join(&directory), os_text(&error)) {
                        self.found.truncated = true;
                        return;
                    }
                }
            }
        }
    }

    /// The sorted names of a directory; `None` when it was listed before under another name.
    fn list(&mut self, directory: &Path) -> io::Result<Option<Listing>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let open = if directory.as_os_str().is_empty() {
            rustix::io::fcntl_dupfd_cloexec(&self.root, 0)?
        } else {
            let links = if self.options.follow {
                Links::Follow
            } else {
                Links::Refuse
            };
            let open = open_in(&self.root, directory, links, flags, Mode::empty())?;
            if self.options.follow && !self.seen.insert(Identity::of(&open)?) {
                return Ok(None);
            }
            open
        };
        let mut names: Vec<_> = Names::read(&open)?.collect();
        // As they are told: bytes that are not UTF-8 replaced.
        names.sort_unstable_by(|(a, _), (b, _)| a.to_string_lossy().cmp(&b.to_string_lossy()));
        Ok(Some((open, names)))
    }

    /// Takes one entry in; false when a limit is reached.
    fn visit(
        &mut self,
        open: &OwnedFd,
        directory: &Path,
        depth: u64,
        name: &CStr,
        kind: FileType,
    ) -> bool {
        let is_link = kind == FileType::Symlink;
        // A link that leads nowhere does not count, as `fs/readDirectory` does not list it.
        let Some(kind) = followed_kind(open, name, kind) else {
            return true;
        };
        if self.visited == self.options.entries {
            return false;
        }
        self.visited += 1;
        let Ok(name) = name.to_str() else {
            let path = self.base.join(directory).join(&*name.to_string_lossy());
            // The peer cannot name it in this answer; the reference says it so.
            return self.error(path, os_text(&Errno::NOENT.into()));
        };
        let relative = directory.join(name);
        let kind = match kind {
            FileType::Directory if is_link && !self.options.follow => return true,
            FileType::Directory => Kind::Directory,
            FileType::RegularFile if is_link => return true,
            FileType::RegularFile => Kind::File,
            _ => return true,
        };
        let path = self.base.join(&relative);
        if !self.account(path.as_os_str().len()) {
            return false;
        }
        self.found.entries.push((path, kind));
        let hidden = self.options.prune_hidden && name.starts_with('.');
        if kind == Kind::Directory && depth < self.options.depth && !hidden {
            self.waiting.push_back((relative, depth + 1));
        }
        true
    }

    fn error(&mut self, path: PathBuf, text: String) -> bool {
        let fits = self.account(path.as_os_str().len() + text.len());
        if fits {
            self.found.errors.push((path, text));
        }
        fits
    }

    /// Counts `bytes` of the answer; false when they no longer fit.
    fn account(&mut self, bytes: usize) -> bool {
        self.answer += bytes + ENTRY_OVERHEAD;
        self.answer <= self.options.answer
    }
}

/// What one entry of the answer takes besides its path: `file://`, the members' names and punctuation.
const ENTRY_OVERHEAD: usize = 48;
