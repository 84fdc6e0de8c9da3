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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn below(descent: &Descent, name: &CStr) -> OwnedFd {
        open_child(descent.directory(), name).unwrap().unwrap()
    }

    fn start(path: &Path) -> Descent {
        Descent::new(rustix::fs::open(path, DIRECTORY, Mode::empty()).unwrap()).unwrap()
    }

    #[test]
    fn a_descent_holds_few_descriptors_and_comes_back_the_way_it_went() {
        let depth = 3 * OPEN_LEVELS;
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join(vec!["d"; depth].join("/"))).unwrap();
        let mut descent = start(folder.path());
        let mut way = vec![Identity::of(descent.directory()).unwrap()];
        for _ in 0..depth {
            let child = below(&descent, c"d");
            way.push(Identity::of(&child).unwrap());
            descent.enter(child).unwrap();
            assert!(descent.open.len() <= OPEN_LEVELS);
        }
        assert!(way.iter().all(|directory| descent.contains(*directory)));
        while let Some(here) = way.pop() {
            assert_eq!(Identity::of(descent.directory()).unwrap(), here);
            assert_eq!(descent.leave().unwrap(), !way.is_empty());
        }
    }

    #[test]
    fn a_directory_that_was_moved_away_does_not_lead_out_of_the_tree() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        fs::create_dir_all(tree.join(vec!["d"; OPEN_LEVELS + 1].join("/"))).unwrap();
        let mut descent = start(&tree);
        for _ in 0..=OPEN_LEVELS {
            descent.enter(below(&descent, c"d")).unwrap();
        }
        // The lowest one whose parent is no longer open.
        fs::rename(tree.join("d/d"), folder.path().join("elsewhere")).unwrap();
        for _ in 0..OPEN_LEVELS - 1 {
            assert!(descent.leave().unwrap());
        }
        assert!(
            descent
                .leave()
                .unwrap_err()
                .to_string()
                .contains("moved away")
        );
    }
}
