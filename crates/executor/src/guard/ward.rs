//! The ward's side: one thread that hears from the guard, and ends everything when the guard is gone.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{self, Signal};
use tokio::sync::watch;

use crate::descent;

/// How long the programs may take to die of SIGKILL when the guard is gone.
const CLEAN_UP: Duration = Duration::from_secs(5);

/// Exit code of a ward that lost its guard.
const UNGUARDED: i32 = 125;

/// Per signal number, how often the guard was sent it.
pub(crate) type Counts = [u64; 32];

static FORWARDED: OnceLock<watch::Receiver<Counts>> = OnceLock::new();

/// One bit per signal number that somebody in this process listens for.
static CLAIMED: AtomicU32 = AtomicU32::new(0);

/// One-way mark: the guard is gone and everything is being killed.
static DYING: AtomicBool = AtomicBool::new(false);

/// Becomes a ward: a subreaper that listens to its guard.
pub(super) fn watch(pipe: OwnedFd) -> io::Result<()> {
    process::set_child_subreaper(Some(process::getpid()))?;
    let (counts, forwarded) = watch::channel([0; 32]);
    if FORWARDED.set(forwarded).is_err() {
        return Err(io::Error::other("guarded twice"));
    }
    std::thread::Builder::new()
        .name("guard".to_owned())
        .spawn(move || listen(&pipe, &counts))?;
    Ok(())
}

/// How often the guard was sent each signal; `None` without a guard.
pub(crate) fn forwarded() -> Option<watch::Receiver<Counts>> {
    FORWARDED.get().cloned()
}

/// Somebody listens for this signal from now on: the guard's no longer gets the default action.
pub(crate) fn claim(number: i32) {
    CLAIMED.fetch_or(bit(number), Ordering::SeqCst);
}

/// Whether no program may be started any more.
pub(crate) fn is_dying() -> bool {
    DYING.load(Ordering::SeqCst)
}

fn bit(number: i32) -> u32 {
    u32::try_from(number)
        .ok()
        .and_then(|number| 1_u32.checked_shl(number))
        .unwrap_or(0)
}

fn listen(pipe: &OwnedFd, counts: &watch::Sender<Counts>) {
    let mut byte = [0];
    loop {
        match rustix::io::read(pipe, &mut byte) {
            Ok(1) => heard(i32::from(byte[0]), counts),
            Err(rustix::io::Errno::INTR) => {}
            Ok(_) | Err(_) => break,
        }
    }
    DYING.store(true, Ordering::SeqCst);
    // A start that looked at the mark before it was set has its child by the second pass.
    for _ in 0..3 {
        descent::end_descendants(CLEAN_UP);
        std::thread::sleep(Duration::from_millis(10));
    }
    std::process::exit(UNGUARDED)
}

fn heard(number: i32, counts: &watch::Sender<Counts>) {
    if CLAIMED.load(Ordering::SeqCst) & bit(number) == 0 {
        // Nobody here wants to know: as if it had been sent to us.
        if let Some(signal) = Signal::from_named_raw(number) {
            let _ = process::kill_process(process::getpid(), signal);
        }
        return;
    }
    counts.send_modify(|counts| {
        if let Some(count) = usize::try_from(number)
            .ok()
            .and_then(|number| counts.get_mut(number))
        {
            *count += 1;
        }
    });
}
