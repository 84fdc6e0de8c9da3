//! Opening paths, with or without links on the way.
//!
//! A path that must not contain links is resolved by the kernel in one step (`openat2` with `RESOLVE_NO_SYMLINKS`), or,
//! where that call is missing, component by component on directory descriptors. Either way nothing is looked at first
//! and opened later, so that a link put in between is refused too.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// What a component of a path that is a symbolic link means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Links {
    /// It is followed.
    Follow,
    /// The path is refused.
    Refuse,
}

impl Links {
    /// From the wire's `followSymlinks`.
    pub(crate) fn from_follow(follow: bool) -> Self {
        if follow { Self::Follow } else { Self::Refuse }
    }
}

/// Opens a normalised absolute path; `O_CLOEXEC` is added.
///
/// # Errors
/// With [`Links::Refuse`], a link in the last place is `ELOOP` and one before it `ENOTDIR` (protocol.md 9.1, T30).
pub(crate) fn open(path: &Path, links: Links, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    open_in(CWD, path, links, flags, mode)
}

/// As [`open`], for a path that starts at an open directory.
pub(crate) fn open_in(
    directory: impl AsFd,
    path: &Path,
    links: Links,
    flags: OFlags,
    mode: Mode,
) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    match links {
        Links::Follow => Ok(rustix::fs::openat(directory, path, flags, mode)?),
        Links::Refuse => open_without_links(directory, path, flags, mode),
    }
}

/// The directory that holds `path`'s last component, opened for lookups, and that component.
///
/// The last component need not exist. With [`Links::Refuse`] it may still be a link: only the way to it has none.
///
/// # Errors
/// `EBUSY` for the root, which has no parent.
pub(crate) fn open_parent(path: &Path, links: Links) -> io::Result<(OwnedFd, &OsStr)> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::BUSY.into());
    };
    let flags = match links {
        Links::Follow => LOOKUP,
        Links::Refuse => STEP,
    };
    Ok((open(parent, links, flags, Mode::empty())?, name))
}

/// A directory opened only to look names up in it.
pub(crate) const LOOKUP: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// One component on the way: a link here fails with `ENOTDIR`, as does a file.
const STEP: OFlags = LOOKUP.union(OFlags::NOFOLLOW);

fn open_without_links(
    directory: impl AsFd,
    path: &Path,
    flags: OFlags,
    mode: Mode,
) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(&directory, path, flags, mode, resolve) {
        Ok(file) => Ok(file),
        // The refusal stands; this only finds out which of the two it was.
        Err(Errno::LOOP) => match walk_to_parent(&directory, path) {
            Ok(_) => Err(Errno::LOOP.into()),
            Err(error) => Err(error),
        },
        // An old kernel, or a seccomp filter that does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => open_by_steps(directory, path, flags, mode),
        Err(errno) => Err(errno.into()),
    }
}

/// [`open_without_links`] for kernels before 5.6.
fn open_by_steps(
    directory: impl AsFd,
    path: &Path,
    flags: OFlags,
    mode: Mode,
) -> io::Result<OwnedFd> {
    let parent = walk_to_parent(directory, path)?;
    let name = path.file_name().unwrap_or(OsStr::new("."));
    Ok(rustix::fs::openat(
        parent,
        name,
        flags | OFlags::NOFOLLOW,
        mode,
    )?)
}

/// Opens each component before the last without following links.
fn walk_to_parent(directory: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let start = if path.has_root() {
        Path::new("/")
    } else {
        Path::new(".")
    };
    let mut at = rustix::fs::openat(directory, start, LOOKUP, Mode::empty())?;
    for component in path.parent().into_iter().flat_map(Path::components) {
        if let Component::Normal(name) = component {
            at = rustix::fs::openat(&at, name, STEP, Mode::empty())?;
        }
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    type Open = fn(OwnedFd, &Path) -> io::Result<OwnedFd>;

    /// Both ways of refusing links must agree, as only one of them runs on a given kernel.
    const WAYS: [Open; 2] = [
        |at, path| open_without_links(at, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()),
        |at, path| open_by_steps(at, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()),
    ];

    #[test]
    fn a_link_is_refused_in_every_place() {
        let tree = tempfile::tempdir().unwrap();
        let root = tree.path().canonicalize().unwrap();
        fs::create_dir(root.join("sub")).unwrap();
        fs::write(root.join("sub/file"), "x").unwrap();
        symlink("sub", root.join("dlink")).unwrap();
        symlink("sub/file", root.join("flink")).unwrap();
        symlink("nowhere", root.join("broken")).unwrap();

        for way in WAYS {
            let errno = |path: &str| {
                let slash = rustix::fs::open("/", LOOKUP, Mode::empty()).unwrap();
                let absolute = way(slash, &root.join(path))
                    .err()
                    .and_then(|error| error.raw_os_error());
                let base = rustix::fs::open(&root, LOOKUP, Mode::empty()).unwrap();
                let relative = way(base, Path::new(path))
                    .err()
                    .and_then(|error| error.raw_os_error());
                assert_eq!(absolute, relative, "{path}");
                absolute.map(Errno::from_raw_os_error)
            };
            assert_eq!(errno("sub/file"), None);
            assert_eq!(errno("sub"), None);
            assert_eq!(errno("flink"), Some(Errno::LOOP));
            assert_eq!(errno("broken"), Some(Errno::LOOP));
            assert_eq!(errno("dlink"), Some(Errno::LOOP));
            assert_eq!(errno("dlink/file"), Some(Errno::NOTDIR));
            assert_eq!(errno("dlink/none"), Some(Errno::NOTDIR));
            assert_eq!(errno("broken/x"), Some(Errno::NOTDIR));
            assert_eq!(errno("sub/none"), Some(Errno::NOENT));
            assert_eq!(errno("sub/file/x"), Some(Errno::NOTDIR));
        }
    }
}
