//! `fs/copy`.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::descent::{DIRECTORY, Descent, Identity, Names, open_child};
use super::error::FileError;
use super::open::{LOOKUP, Links, open, open_parent};

const ONLY_PLAIN: &str = "fs/copy only supports regular files, directories, and symlinks";
const NEEDS_RECURSIVE: &str = "fs/copy requires recursive: true when sourcePath is a directory";
const INTO_ITSELF: &str = "fs/copy cannot copy a directory to itself or one of its descendants";

/// Copies a file, a link (as a link) or, with `recursive`, a directory.
///
/// Links on the way to either path, and a destination file that is a link, are followed: the caller named them. Inside a
/// tree none is: it is copied as a link, and where the destination already has one, the copy fails instead of writing
/// through it. Other kinds of files inside a tree are left out.
pub(crate) fn copy(source: &Path, destination: &Path, recursive: bool) -> Result<(), FileError> {
    if source.parent().is_none() {
        return copy_root_directory(source, destination, recursive);
    }
    let (parent, name) = open_parent(source, Links::Follow)?;
    let name = c_name(name.as_encoded_bytes())?;
    let stat = rustix::fs::statat(&parent, &name, AtFlags::SYMLINK_NOFOLLOW)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory if !recursive => Err(FileError::refused(NEEDS_RECURSIVE)),
        FileType::Directory => {
            let root = open_child(&parent, &name)?.ok_or(Errno::NOTDIR)?;
            copy_directory(root, destination)
        }
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(&parent, &name, Vec::new())?;
            Ok(rustix::fs::symlinkat(target, rustix::fs::CWD, destination)?)
        }
        FileType::RegularFile => {
            let (file, mode) =
                open_regular(&parent, &name)?.ok_or_else(|| FileError::refused(ONLY_PLAIN))?;
            let create = OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK | OFlags::NOCTTY;
            let target = open(destination, Links::Follow, create, mode)?;
            copy_contents(file, target, mode)
        }
        _ => Err(FileError::refused(ONLY_PLAIN)),
    }
}

fn copy_root_directory(
    source: &Path,
    destination: &Path,
    recursive: bool,
) -> Result<(), FileError> {
    if !recursive {
        return Err(FileError::refused(NEEDS_RECURSIVE));
    }
    copy_directory(
        open(source, Links::Follow, DIRECTORY, Mode::empty())?,
        destination,
    )
}

fn copy_directory(source: OwnedFd, destination: &Path) -> Result<(), FileError> {
    if is_inside(destination, Identity::of(&source)?)? {
        return Err(FileError::refused(INTO_ITSELF));
    }
    std::fs::create_dir_all(destination)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let target = open(destination, Links::Follow, flags, Mode::empty())?;
    // Somebody may move the destination into the source while the copy runs; it is then not entered.
    let target_root = Identity::of(&target)?;

    // What is still to be copied of each directory on the way down.
    let mut levels = vec![names_to_copy(&source)?];
    let mut from = Descent::new(source)?;
    let mut to = Descent::new(target)?;
    while let Some(rest) = levels.last_mut() {
        let Some((name, _)) = rest.next() else {
            levels.pop();
            from.leave()?;
            to.leave()?;
            continue;
        };
        if let Some((child, mode)) = copy_entry(&from, &to, &name)? {
            let identity = Identity::of(&child)?;
            if identity == target_root || to.contains(identity) {
                return Err(FileError::refused(INTO_ITSELF));
            }
            let made = make_directory(to.directory(), &name, mode)?;
            levels.push(names_to_copy(&child)?);
            from.enter(child)?;
            to.enter(made)?;
        }
    }
    Ok(())
}

/// Entries of one directory that a copy takes on: their names are held in memory while it is copied.
const MAX_ENTRIES: usize = 1_000_000;

fn names_to_copy(directory: impl AsFd) -> Result<Names, FileError> {
    let names = Names::first(directory, MAX_ENTRIES + 1)?;
    if names.len() > MAX_ENTRIES {
        return Err(FileError::refused(format!(
            "directory is too large to copy: limit is {MAX_ENTRIES} entries"
        )));
    }
    Ok(names)
}

/// Copies one entry of a tree, or gives it back opened when it is a directory, with its mode.
fn copy_entry(
    from: &Descent,
    to: &Descent,
    name: &CStr,
) -> Result<Option<(OwnedFd, Mode)>, FileError> {
    let stat = match rustix::fs::statat(from.directory(), name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        // Removed since it was listed.
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {
            let child = open_child(from.directory(), name)?.ok_or(Errno::NOTDIR)?;
            let mode = Mode::from_raw_mode(rustix::fs::fstat(&child)?.st_mode);
            Ok(Some((child, mode)))
        }
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(from.directory(), name, Vec::new())?;
            rustix::fs::symlinkat(target, to.directory(), name)?;
            Ok(None)
        }
        FileType::RegularFile => {
            // Swapped for something else since: left out like any other kind.
            if let Some((file, mode)) = open_regular(from.directory(), name)? {
                let create = OFlags::WRONLY
                    | OFlags::CREATE
                    | OFlags::NOFOLLOW
                    | OFlags::NONBLOCK
                    | OFlags::NOCTTY
                    | OFlags::CLOEXEC;
                let target = rustix::fs::openat(to.directory(), name, create, mode)?;
                copy_contents(file, target, mode)?;
            }
            Ok(None)
        }
        _ => Ok(None),
    }
}

/// Makes or enters the directory `name`. The owner may always write into it, as it is about to be filled.
fn make_directory(parent: BorrowedFd<'_>, name: &CStr, mode: Mode) -> Result<OwnedFd, FileError> {
    let mode = (mode & (Mode::RWXU | Mode::RWXG | Mode::RWXO)) | Mode::RWXU;
    match rustix::fs::mkdirat(parent, name, mode) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    Ok(rustix::fs::openat(parent, name, DIRECTORY, Mode::empty())?)
}

/// Opens a regular file with its mode; `None` when it is anything else.
fn open_regular(parent: impl AsFd, name: &CStr) -> io::Result<Option<(OwnedFd, Mode)>> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::LOOP) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let stat = rustix::fs::fstat(&file)?;
    let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    Ok(regular.then(|| (file, Mode::from_raw_mode(stat.st_mode))))
}

fn copy_contents(source: OwnedFd, target: OwnedFd, mode: Mode) -> Result<(), FileError> {
    if Identity::of(&source)? == Identity::of(&target)? {
        // Onto itself. The reference truncates the file here; there is nothing to do.
        return Ok(());
    }
    if FileType::from_raw_mode(rustix::fs::fstat(&target)?.st_mode) == FileType::RegularFile {
        rustix::fs::ftruncate(&target, 0)?;
        rustix::fs::fchmod(&target, mode)?;
    }
    io::copy(&mut File::from(source), &mut File::from(target))?;
    Ok(())
}

/// Whether `path`, or where it would be made, lies in `directory` or is it.
fn is_inside(path: &Path, directory: Identity) -> io::Result<bool> {
    let mut at = existing_ancestor(path)?;
    let mut here = Identity::of(&at)?;
    loop {
        if here == directory {
            return Ok(true);
        }
        at = rustix::fs::openat(&at, "..", LOOKUP, Mode::empty())?;
        let above = Identity::of(&at)?;
        if above == here {
            return Ok(false);
        }
        here = above;
    }
}

/// The lowest directory on the way to `path` that exists.
fn existing_ancestor(path: &Path) -> io::Result<OwnedFd> {
    let mut last = Errno::NOENT.into();
    for ancestor in path.ancestors() {
        match open(ancestor, Links::Follow, LOOKUP, Mode::empty()) {
            Ok(directory) => return Ok(directory),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn c_name(name: &[u8]) -> io::Result<CString> {
    Ok(CString::new(name).map_err(|_| Errno::INVAL)?)
}
