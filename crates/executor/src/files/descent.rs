//! Going down a directory tree by descriptors.
//!
//! Removing and copying trees must neither leave the tree through a link that somebody puts in the way, nor run out of
//! descriptors or stack in a very deep one. So they hold a chain of open directories, enter each by name from the one
//! above without following links, and keep only the lowest few open: one that was closed is opened again through `..`
//! and must then be the same directory as before.

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Descriptors one descent may hold; deeper trees cost one more `open` per level on the way up.
const OPEN_LEVELS: usize = 32;

/// What tells one directory from every other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    pub(crate) fn of(file: impl AsFd) -> io::Result<Self> {
        Ok(Self::from_stat(&rustix::fs::fstat(file)?))
    }

    pub(crate) fn from_stat(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
        }
    }
}

/// The way from a root directory to the directory being worked in.
#[derive(Debug)]
pub(crate) struct Descent {
    /// The identity of every level; the root first.
    levels: Vec<Identity>,
    /// The open ones of them: the lowest, never empty.
    open: VecDeque<OwnedFd>,
}

impl Descent {
    /// Starts at an open directory.
    pub(crate) fn new(root: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            levels: vec![Identity::of(&root)?],
            open: VecDeque::from([root]),
        })
    }

    /// Goes down into a directory that was opened from [`Self::directory`].
    pub(crate) fn enter(&mut self, child: OwnedFd) -> io::Result<()> {
        self.levels.push(Identity::of(&child)?);
        self.open.push_back(child);
        if self.open.len() > OPEN_LEVELS {
            self.open.pop_front();
        }
        Ok(())
    }

    /// Goes up one level; false at the root.
    ///
    /// # Errors
    /// When the directory has been moved to another place meanwhile: what is above it is none of this tree.
    pub(crate) fn leave(&mut self) -> io::Result<bool> {
        let [.., above, _] = self.levels[..] else {
            return Ok(false);
        };
        if self.open.len() == 1 {
            let parent = rustix::fs::openat(self.directory(), "..", DIRECTORY, Mode::empty())?;
            if Identity::of(&parent)? != above {
                return Err(io::Error::other(
                    "a directory was moved away during the operation",
                ));
            }
            self.open.push_front(parent);
        }
        self.levels.pop();
        self.open.pop_back();
        Ok(true)
    }

    /// The directory being worked in.
    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        // `open` is never empty: `new` and `enter` push, `leave` pops only what another one lies above.
        self.open[self.open.len() - 1].as_fd()
    }

    /// Whether a directory is on the way.
    pub(crate) fn contains(&self, directory: Identity) -> bool {
        self.levels.contains(&directory)
    }
}

/// A directory opened to be listed, never through a link in the last place.
pub(crate) const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// The entries of a directory but `.` and `..`, with the kind the directory gives them (which may be unknown).
pub(crate) fn entries_of(
    directory: impl AsFd,
) -> io::Result<impl Iterator<Item = io::Result<(CString, FileType)>>> {
    let entries = Dir::read_from(directory)?.map(|entry| {
        let entry = entry?;
        Ok((entry.file_name().to_owned(), entry.file_type()))
    });
    Ok(entries.filter(|entry| {
        let name = entry.as_ref().ok().map(|(name, _)| name.to_bytes());
        !matches!(name, Some(b"." | b".."))
    }))
}

/// Entries of a directory that are still to be worked on, in no order.
#[derive(Debug, Default)]
pub(crate) struct Names(Vec<(CString, FileType)>);

impl Names {
    /// Reads the first entries, at most `count`.
    pub(crate) fn first(directory: impl AsFd, count: usize) -> io::Result<Self> {
        Ok(Self(
            entries_of(directory)?
                .take(count)
                .collect::<Result<_, _>>()?,
        ))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Iterator for Names {
    type Item = (CString, FileType);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.pop()
    }
}

/// Opens the directory `name` of `parent`; `None` when it is no directory or is gone.
pub(crate) fn open_child(parent: impl AsFd, name: &CStr) -> io::Result<Option<OwnedFd>> {
    match rustix::fs::openat(parent, name, DIRECTORY, Mode::empty()) {
        Ok(child) => Ok(Some(child)),
        Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}
