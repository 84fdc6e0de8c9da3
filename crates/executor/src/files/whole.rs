//! `fs/readFile` and `fs/writeFile`.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, Stat};

use super::error::FileError;
use super::open::{Links, open};

/// Reads a regular file of at most `limit` bytes.
pub(crate) fn read_file(path: &Path, links: Links, limit: u64) -> Result<Vec<u8>, FileError> {
    let (file, stat) = open_to_read(path, links)?;
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    if size > limit {
        return Err(FileError::TooLarge(limit));
    }
    // The size is a guess: files of /proc have none, and others grow.
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
    File::from(file).take(limit + 1).read_to_end(&mut content)?;
    if content.len() as u64 > limit {
        return Err(FileError::TooLarge(limit));
    }
    Ok(content)
}

/// Creates or replaces a file; its directory must exist.
pub(crate) fn write_file(path: &Path, links: Links, content: &[u8]) -> Result<(), FileError> {
    // Not blocking: a pipe that nobody reads is refused at once (ENXIO) instead of waited for.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = open(path, links, flags, NEW_FILE)?;
    Ok(File::from(file).write_all(content)?)
}

/// Opens a regular file for reading. Anything else is refused, also a pipe without a writer, at once.
pub(crate) fn open_to_read(path: &Path, links: Links) -> Result<(OwnedFd, Stat), FileError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = open(path, links, flags, Mode::empty())?;
    let stat = require_regular(path, &file)?;
    Ok((file, stat))
}

/// Opens a regular file for writing, made or emptied.
pub(crate) fn open_to_replace(path: &Path, links: Links) -> Result<OwnedFd, FileError> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = open(path, links, flags, NEW_FILE)?;
    require_regular(path, &file)?;
    rustix::fs::ftruncate(&file, 0)?;
    Ok(file)
}

/// What the umask is applied to.
const NEW_FILE: Mode = Mode::RUSR
    .union(Mode::WUSR)
    .union(Mode::RGRP)
    .union(Mode::WGRP)
    .union(Mode::ROTH)
    .union(Mode::WOTH);

fn require_regular(path: &Path, file: &OwnedFd) -> Result<Stat, FileError> {
    let stat = rustix::fs::fstat(file)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
        Ok(stat)
    } else {
        Err(FileError::refused(format!(
            "path `{}` is not a file",
            path.display()
        )))
    }
}
