//! The one place that reads the wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970; expiries are compared in them.
pub(crate) fn unix_now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
