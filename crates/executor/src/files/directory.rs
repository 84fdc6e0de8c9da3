//! `fs/readDirectory` and `fs/createDirectory`.

use std::ffi::CStr;
use std::io;
use std::os::fd::AsFd;
use std::path::{Component, Path};

use mainstay_wire::fs::DirectoryEntry;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::descent::entries_of;
use super::error::FileError;
use super::open::{LOOKUP, Links, open, open_parent};

/// Lists a directory in no order; a link is told as what it points to, one that leads nowhere is left out.
///
/// `None` when the entries take more than `limit` bytes of an answer.
pub(crate) fn read_directory(
    path: &Path,
    limit: usize,
) -> Result<Option<Vec<DirectoryEntry>>, FileError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let directory = open(path, Links::Follow, flags, Mode::empty())?;
    let mut total = 0;
    let mut entries = Vec::new();
    for entry in entries_of(&directory)? {
        let (name, kind) = entry?;
        let Some(kind) = followed_kind(&directory, &name, kind) else {
            continue;
        };
        let file_name = name.to_string_lossy().into_owned();
        total += file_name.len() + ENTRY_OVERHEAD;
        if total > limit {
            return Ok(None);
        }
        entries.push(DirectoryEntry {
            is_directory: kind == FileType::Directory,
            is_file: kind == FileType::RegularFile,
            file_name,
        });
    }
    Ok(Some(entries))
}

/// What one entry of the answer takes besides its name: the members' names, punctuation and two booleans.
const ENTRY_OVERHEAD: usize = 64;

/// What an entry is once links are followed; `None` when it leads nowhere.
pub(crate) fn followed_kind(directory: impl AsFd, name: &CStr, kind: FileType) -> Option<FileType> {
    match kind {
        FileType::Symlink | FileType::Unknown => {
            let stat = rustix::fs::statat(directory, name, AtFlags::empty()).ok()?;
            Some(FileType::from_raw_mode(stat.st_mode))
        }
        known => Some(known),
    }
}

/// Makes a directory, with `recursive` also the ones above it; an existing one is then a success.
pub(crate) fn create_directory(
    path: &Path,
    recursive: bool,
    links: Links,
) -> Result<(), FileError> {
    match (links, recursive) {
        (Links::Follow, true) => Ok(std::fs::create_dir_all(path)?),
        (Links::Refuse, true) => Ok(create_by_steps(path)?),
        (_, false) => {
            let (parent, name) = match open_parent(path, links) {
                // The root, which exists.
                Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
                    return Err(Errno::EXIST.into());
                }
                opened => opened?,
            };
            Ok(rustix::fs::mkdirat(parent, name, NEW_DIRECTORY)?)
        }
    }
}

/// What the umask is applied to.
const NEW_DIRECTORY: Mode = Mode::RWXU.union(Mode::RWXG).union(Mode::RWXO);

/// Makes every missing component, each inside the descriptor of the one before, never through a link.
fn create_by_steps(path: &Path) -> io::Result<()> {
    let mut at = rustix::fs::open("/", LOOKUP, Mode::empty())?;
    for component in path.components() {
        let Component::Normal(name) = component else {
            continue;
        };
        let flags = LOOKUP | OFlags::NOFOLLOW;
        at = match rustix::fs::openat(&at, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => {
                match rustix::fs::mkdirat(&at, name, NEW_DIRECTORY) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno.into()),
                }
                rustix::fs::openat(&at, name, flags, Mode::empty())?
            }
            opened => opened?,
        };
    }
    Ok(())
}
