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

/// How often a directory is emptied again because somebody keeps filling it.
const PASSES: u32 = 16;

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

/// One directory on the way down: its name in the one above, and what of it is still to be removed.
struct Level {
    name: CString,
    rest: Names,
    passes: u32,
}

/// Removes everything in the directory `name` of `parent`, which stays itself.
fn empty(parent: &OwnedFd, name: &CString) -> Result<(), FileError> {
    let Some(root) = open_child(parent, name)? else {
        // Replaced by something else a moment ago; what `rmdir` says about that is the answer.
        return Ok(());
    };
    let mut levels = vec![Level {
        name: name.clone(),
        rest: Names::read(&root)?,
        passes: 1,
    }];
    let mut descent = Descent::new(root)?;
    while let Some(level) = levels.last_mut() {
        if let Some((name, kind)) = level.rest.next() {
            if let Some(child) = unlink_or_open(descent.directory(), &name, kind)? {
                let rest = Names::read(&child)?;
                descent.enter(child)?;
                levels.push(Level {
                    name,
                    rest,
                    passes: 1,
                });
            }
            continue;
        }
        // Something may have been added behind us.
        let again = Names::read(descent.directory())?;
        if !again.is_empty() {
            if level.passes == PASSES {
                return Err(Errno::NOTEMPTY.into());
            }
            level.passes += 1;
            level.rest = again;
            continue;
        }
        let inside = descent.leave()?;
        let done = levels.pop();
        if let (true, Some(done)) = (inside, done) {
            match rustix::fs::unlinkat(descent.directory(), &done.name, AtFlags::REMOVEDIR) {
                // Gone or swapped for another thing: the pass over the level above sees to that.
                Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::NOTEMPTY) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
    Ok(())
}

/// Removes `name`, or opens it when it is a directory.
fn unlink_or_open(
    parent: impl AsFd,
    name: &CString,
    kind: FileType,
) -> Result<Option<OwnedFd>, FileError> {
    if matches!(kind, FileType::Directory | FileType::Unknown)
        && let Some(child) = open_child(&parent, name)?
    {
        return Ok(Some(child));
    }
    match rustix::fs::unlinkat(&parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(None),
        // It became a directory since it was listed.
        Err(errno @ (Errno::ISDIR | Errno::PERM)) => {
            Ok(Some(open_child(parent, name)?.ok_or(errno)?))
        }
        Err(errno) => Err(errno.into()),
    }
}
