//! `fs/getMetadata` and `fs/canonicalize`.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags};

use super::error::FileError;
use super::open::{Links, open};

/// What `fs/getMetadata` tells. Everything but `is_symlink` is about what a link points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Metadata {
    pub(crate) kind: FileType,
    pub(crate) is_symlink: bool,
    /// Bytes.
    pub(crate) size: u64,
    /// Milliseconds since 1970; 0 when unknown.
    pub(crate) created_at_ms: i64,
    /// Milliseconds since 1970; 0 when unknown.
    pub(crate) modified_at_ms: i64,
}

pub(crate) fn metadata(path: &Path, links: Links) -> Result<Metadata, FileError> {
    let file = open(path, links, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())?;
    let itself = of_open(&file)?;
    if itself.kind != FileType::Symlink {
        return Ok(itself);
    }
    match links {
        Links::Refuse => Err(FileError::refused("path contains a symbolic link")),
        Links::Follow => {
            let target = open(path, links, OFlags::PATH, Mode::empty())?;
            Ok(Metadata {
                is_symlink: true,
                ..of_open(target)?
            })
        }
    }
}

fn of_open(file: impl AsFd) -> io::Result<Metadata> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let statx = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, wanted)?;
    let milliseconds = |flag: StatxFlags, time: rustix::fs::StatxTimestamp| {
        let known = statx.stx_mask & flag.bits() != 0;
        if known {
            time.tv_sec
                .saturating_mul(1000)
                .saturating_add(i64::from(time.tv_nsec / 1_000_000))
        } else {
            0
        }
    };
    Ok(Metadata {
        kind: FileType::from_raw_mode(statx.stx_mode.into()),
        is_symlink: false,
        size: statx.stx_size,
        created_at_ms: milliseconds(StatxFlags::BTIME, statx.stx_btime),
        modified_at_ms: milliseconds(StatxFlags::MTIME, statx.stx_mtime),
    })
}

/// The path without links; it must exist.
pub(crate) fn canonicalize(path: &Path) -> Result<PathBuf, FileError> {
    Ok(std::fs::canonicalize(path)?)
}
