//! A watch that the kernel keeps.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::Interest as Readiness;
use tokio::io::unix::AsyncFd;

use super::survey::{Directory, Survey};

/// Kernel watches on everything a survey saw.
#[derive(Debug)]
pub(super) struct Inotify {
    events: AsyncFd<OwnedFd>,
    interests: HashMap<i32, Interest>,
    /// It fired before it was run.
    changed: bool,
}

/// What counts in one watched file or directory besides its own disappearance.
#[derive(Debug, Default)]
struct Interest {
    /// Entries that count when they come or go.
    names: HashSet<OsString>,
    /// Whether a change of content or attributes counts.
    content: bool,
}

/// The file itself is gone from where it was.
const GONE: WatchFlags = WatchFlags::DELETE_SELF.union(WatchFlags::MOVE_SELF);

/// A name came or went.
const NAMES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO);

const CONTENT: WatchFlags = WatchFlags::MODIFY.union(WatchFlags::ATTRIB);

impl Inotify {
    /// # Errors
    /// When the system gives no more instances or watches, or a directory went away since the survey.
    pub(super) fn on(survey: &Survey) -> io::Result<Self> {
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let mut watches = Watches {
            fd,
            interests: HashMap::new(),
        };
        for missing in &survey.missing {
            watches.way(&missing.directories, &missing.name)?;
        }
        if let Some(present) = &survey.present {
            let name = present.path.file_name().unwrap_or_default();
            watches.way(&present.directories, name)?;
            watches.interest(&present.path, CONTENT)?.content = true;
        }
        // Its successor is unsafe, for types that may give another descriptor each time; an `OwnedFd` does not.
        #[allow(deprecated)]
        let events = AsyncFd::with_interest(watches.fd, Readiness::READABLE)?;
        Ok(Self {
            events,
            interests: watches.interests,
            changed: false,
        })
    }

    /// The same watch, fired.
    pub(super) fn already_changed(self) -> Self {
        Self {
            changed: true,
            ..self
        }
    }

    /// Waits for a change that counts. A watch that breaks counts as changed: better once too often than never.
    pub(super) async fn changed(self) {
        if self.changed {
            return;
        }
        loop {
            let Ok(mut ready) = self.events.readable().await else {
                return;
            };
            match ready.try_io(|events| self.read(events.get_ref())) {
                Ok(Ok(false)) | Err(_) => {}
                Ok(Ok(true) | Err(_)) => return,
            }
        }
    }

    /// Reads events until one counts (true) or there are no more (`WouldBlock`).
    fn read(&self, fd: &OwnedFd) -> io::Result<bool> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(fd, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) if self.counts(&event) => return Ok(true),
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn counts(&self, event: &inotify::Event<'_>) -> bool {
        let flags = event.events();
        // Lost events, or a watch that the kernel gave up.
        if flags.intersects(ReadFlags::QUEUE_OVERFLOW | ReadFlags::UNMOUNT | ReadFlags::IGNORED) {
            return true;
        }
        let Some(interest) = self.interests.get(&event.wd()) else {
            return false;
        };
        match event.file_name() {
            Some(name) => interest
                .names
                .contains(std::ffi::OsStr::from_bytes(name.to_bytes())),
            None if flags.intersects(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF) => true,
            None => interest.content,
        }
    }
}

struct Watches {
    fd: OwnedFd,
    interests: HashMap<i32, Interest>,
}

impl Watches {
    /// Watches a way: every directory on it for going away, the last one for `name` as well.
    fn way(&mut self, directories: &[Directory], name: &std::ffi::OsStr) -> io::Result<()> {
        for directory in directories {
            self.interest(&directory.path, WatchFlags::ONLYDIR)?;
        }
        if let Some(last) = directories.last() {
            self.interest(&last.path, NAMES | WatchFlags::ONLYDIR)?
                .names
                .insert(name.to_owned());
        }
        Ok(())
    }

    fn interest(&mut self, path: &Path, flags: WatchFlags) -> io::Result<&mut Interest> {
        let flags = flags | GONE | WatchFlags::DONT_FOLLOW | WatchFlags::MASK_ADD;
        let watch = inotify::add_watch(&self.fd, path, flags)?;
        Ok(self.interests.entry(watch).or_default())
    }
}
