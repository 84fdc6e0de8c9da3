//! `fs/remove`.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use super::descent::{Descent, Names, open_child};
use super::error::FileError;
use super::open::{Links, open_parent};

/// Entries of a directory that are looked at together.
const BATCH: usize = 4096;

/// How often in a row a directory is looked at again though nothing of it could be removed, because somebody keeps
/// putting things into it that are gone when we come to them.
const FRUITLESS: u32 = 16;

/// What `fs/remove` asks for besides the path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Removal {
    pub(crate) recursive: bool,
    /// A missing path is a success.
    pub(crate) force: bool,
    pub(crate) links: Links,
}

/// Removes a file, a link (never what it points to) or a directory.
///
/// A tree is removed by descriptors, so that nothing outside it is touched whatever happens to it meanwhile.
pub(crate) fn remove(path: &Path, removal: Removal) -> Result<(), FileError> {
    match remove_present(path, removal) {
        Err(FileError::Os(error)) if removal.force && error.kind() == io::ErrorKind::NotFound => {
            Ok(())
        }
        outcome => outcome,
    }
}

fn remove_present(path: &Path, removal: Removal) -> Result<(), FileError> {
    let (parent, name) = open_parent(path, removal.links)?;
    let stat = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink if removal.links == Links::Refuse => {
            Err(FileError::refused("path contains a symbolic link"))
        }
        FileType::Directory => {
            let name = CString::new(name.as_encoded_bytes()).map_err(|_| Errno::INVAL)?;
            if removal.recursive {
                empty(&parent, &name)?;
            }
            Ok(rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR)?)
        }
        _ => Ok(rustix::fs::unlinkat(&parent, name, AtFlags::empty())?),
    }
}

/// One directory on the way down: its name in the one above, and what of it is to be removed next.
struct Level {
    name: CString,
    batch: Names,
    /// Whether something was removed since the directory was last looked at.
    fruitful: bool,
    fruitless: u32,
}

impl Level {
    fn new(name: CString, directory: impl AsFd) -> io::Result<Self> {
        Ok(Self {
            name,
            batch: Names::first(directory, BATCH)?,
            fruitful: false,
            fruitless: 0,
        })
    }
}

/// Removes everything in the directory `name` of `parent`, which stays itself.
fn empty(parent: &OwnedFd, name: &CString) -> Result<(), FileError> {
    let Some(root) = open_child(parent, name)? else {
        // Replaced by something else a moment ago; what `rmdir` says about that is the answer.
        return Ok(());
    };
    let mut levels = vec![Level::new(name.clone(), &root)?];
    let mut descent = Descent::new(root)?;
    while let Some(level) = levels.last_mut() {
        if let Some((name, kind)) = level.batch.next() {
            match remove_or_open(descent.directory(), &name, kind)? {
                Removed::Gone => {}
                Removed::Now => level.fruitful = true,
                Removed::Is(directory) => {
                    let below = Level::new(name, &directory)?;
                    descent.enter(directory)?;
                    levels.push(below);
                }
            }
            continue;
        }
        // The next batch, or what was added behind us.
        level.batch = Names::first(descent.directory(), BATCH)?;
        if level.batch.len() > 0 {
            level.fruitless = if level.fruitful {
                0
            } else {
                level.fruitless + 1
            };
            level.fruitful = false;
            if level.fruitless > FRUITLESS {
                return Err(Errno::NOTEMPTY.into());
            }
            continue;
        }
        let inside = descent.leave()?;
        let done = levels.pop();
        if let (true, Some(done), Some(above)) = (inside, done, levels.last_mut()) {
            match rustix::fs::unlinkat(descent.directory(), &done.name, AtFlags::REMOVEDIR) {
                Ok(()) => above.fruitful = true,
                // Gone or swapped for another thing: the next look at the directory above sees to that.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::NOTEMPTY) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
    Ok(())
}

/// What became of an entry.
enum Removed {
    /// Somebody else removed it.
    Gone,
    Now,
    /// It is a directory, which has to be emptied first.
    Is(OwnedFd),
}

/// Removes `name`, or opens it when it is a directory.
fn remove_or_open(parent: impl AsFd, name: &CString, kind: FileType) -> Result<Removed, FileError> {
    if matches!(kind, FileType::Directory | FileType::Unknown)
        && let Some(directory) = open_child(&parent, name)?
    {
        return Ok(Removed::Is(directory));
    }
    match rustix::fs::unlinkat(&parent, name, AtFlags::empty()) {
        Ok(()) => Ok(Removed::Now),
        Err(Errno::NOENT) => Ok(Removed::Gone),
        // It became a directory since it was listed.
        Err(errno @ (Errno::ISDIR | Errno::PERM)) => {
            Ok(Removed::Is(open_child(parent, name)?.ok_or(errno)?))
        }
        Err(errno) => Err(errno.into()),
    }
}
