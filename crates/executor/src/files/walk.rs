//! `fs/walk`.

use std::collections::{BinaryHeap, HashSet, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use mainstay_wire::fs::WalkKind;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::descent::{Identity, entries_of};
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
    pub(crate) entries: Vec<(PathBuf, WalkKind)>,
    /// What could not be looked at, with the reason.
    pub(crate) errors: Vec<(PathBuf, String)>,
    /// Whether a limit cut the walk short.
    pub(crate) truncated: bool,
    /// Whether it was the one on the answer's bytes.
    pub(crate) answer_full: bool,
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

/// One entry of a directory, ordered by its name as it is told.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Listed {
    /// With U+FFFD for bytes that are not UTF-8.
    name: String,
    is_utf8: bool,
    is_link: bool,
    /// What it is once links are followed, as far as a walk cares.
    kind: Option<Told>,
}

/// What a walk can list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Directory,
    File,
}

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
                Ok(Some(entries)) => {
                    listed += 1;
                    for entry in entries {
                        if !self.visit(&directory, depth, entry) {
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

    /// The first entries of a directory by name, one more than may still be visited; `None` when it was listed before
    /// under another name.
    fn list(&mut self, directory: &Path) -> io::Result<Option<Vec<Listed>>> {
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
        let wanted = usize::try_from(self.options.entries - self.visited)
            .unwrap_or(usize::MAX)
            .saturating_add(1);
        let mut first = BinaryHeap::new();
        for entry in entries_of(&open)? {
            let (name, kind) = entry?;
            // A link that leads nowhere does not count, as `fs/readDirectory` does not list it.
            let Some(followed) = followed_kind(&open, &name, kind) else {
                continue;
            };
            first.push(Listed {
                name: name.to_string_lossy().into_owned(),
                is_utf8: name.to_str().is_ok(),
                is_link: kind == FileType::Symlink,
                kind: match followed {
                    FileType::Directory => Some(Told::Directory),
                    FileType::RegularFile => Some(Told::File),
                    _ => None,
                },
            });
            if first.len() > wanted {
                first.pop();
            }
        }
        Ok(Some(first.into_sorted_vec()))
    }

    /// Takes one entry in; false when a limit is reached.
    fn visit(&mut self, directory: &Path, depth: u64, entry: Listed) -> bool {
        if self.visited == self.options.entries {
            return false;
        }
        self.visited += 1;
        let relative = directory.join(&entry.name);
        let path = self.base.join(&relative);
        if !entry.is_utf8 {
            // The peer cannot name it in this answer; the reference says it so.
            return self.error(path, os_text(&Errno::NOENT.into()));
        }
        let kind = match entry.kind {
            Some(Told::Directory) if entry.is_link && !self.options.follow => return true,
            Some(Told::Directory) => WalkKind::Directory,
            Some(Told::File) if entry.is_link => return true,
            Some(Told::File) => WalkKind::File,
            None => return true,
        };
        if !self.account(path.as_os_str().len()) {
            return false;
        }
        self.found.entries.push((path, kind));
        let hidden = self.options.prune_hidden && entry.name.starts_with('.');
        if kind == WalkKind::Directory && depth < self.options.depth && !hidden {
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
        self.answer = self.answer.saturating_add(bytes + ENTRY_OVERHEAD);
        self.found.answer_full |= self.answer > self.options.answer;
        !self.found.answer_full
    }
}

/// What one entry of the answer takes besides its path: `file://`, the members' names and punctuation.
const ENTRY_OVERHEAD: usize = 48;
