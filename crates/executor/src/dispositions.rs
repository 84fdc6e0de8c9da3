//! What programs must not inherit: a shell starts its background jobs with SIGINT and SIGQUIT ignored, and a program that
//! starts with a signal ignored cannot be interrupted by it, nor can a shell script trap it (POSIX, `trap`).

use tokio::signal::unix::{SignalKind, signal};

/// The ones a shell ignores for its background jobs.
const IGNORED_BY_SHELLS: [SignalKind; 2] = [SignalKind::interrupt(), SignalKind::quit()];

/// Hears the signals of [`IGNORED_BY_SHELLS`] that this process ignores, and does nothing about them: for this process
/// nothing changes, but a handler, unlike *ignored*, does not pass to the programs it starts. Must run inside a runtime.
pub(crate) fn keep_from_programs() {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else {
        return;
    };
    let ignored = ignored(&status);
    for kind in IGNORED_BY_SHELLS {
        if ignored & mask(kind) != 0
            && let Err(error) = signal(kind)
        {
            tracing::warn!(
                signal = kind.as_raw_value(),
                %error,
                "programs will start with this signal ignored"
            );
        }
    }
}

/// The `SigIgn` mask of a `/proc/PID/status`; 0 without one.
fn ignored(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// Signal n is bit n - 1.
fn mask(kind: SignalKind) -> u64 {
    1 << (kind.as_raw_value() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_found() {
        let status = "Name:\tx\nSigBlk:\t0000000000000002\nSigIgn:\t0000000000001006\n";
        assert_ne!(ignored(status) & mask(SignalKind::interrupt()), 0);
        assert_ne!(ignored(status) & mask(SignalKind::quit()), 0);
        assert_eq!(ignored(status) & mask(SignalKind::terminate()), 0);
        assert_eq!(ignored("Name:\tx\n"), 0);
    }
}
