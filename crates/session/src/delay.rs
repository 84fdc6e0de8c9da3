//! How long to wait before the next try (5.4). Randomness and the errors' hints come from the caller.

use std::time::Duration;

use crate::cause::Class;
use crate::config::{Config, Delays, Transport};
use crate::effect::Wait;
use crate::siphash::siphash13;

/// What the shell knows about a [`Wait`] and the machine does not.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    /// The reference's formula hashes it: the session id for a recovery, a random text per attempt otherwise.
    pub key: &'a str,
    /// How executors are reached.
    pub transport: Transport,
    /// `Retry-After` of the failure's error.
    pub retry_after: Option<Duration>,
    /// Window of the announced restart.
    pub restart_window: Option<Duration>,
    /// Retention of the session at the peer, from [`retention`].
    pub retention: Duration,
    /// Time until the recovery's deadline, if one runs.
    pub remaining: Option<Duration>,
    /// 64 fresh random bits.
    pub random: u64,
}

/// The duration of a wait.
#[must_use]
pub fn duration(wait: Wait, config: &Config, now: &Circumstances<'_>) -> Duration {
    let uncut = match wait {
        Wait::RecoveryDeadline => return recovery_deadline(config, now.retention),
        Wait::PanicWindow => return config.panic_window,
        Wait::Restart(_) => uniform(
            now.restart_window.unwrap_or(config.restart_window),
            now.random,
        ),
        Wait::Backoff { after, earlier } => match (config.delays, now.transport) {
            (Delays::Ours, _) => {
                let floor = now
                    .retry_after
                    .map(|floor| floor.min(config.retry_after_max));
                backoff(after.class, earlier, floor, now.random)
            }
            (Delays::Reference, Transport::Noise) => reference_backoff(now.key, earlier),
            (Delays::Reference, Transport::WebSocket | Transport::Accepted | Transport::Once) => {
                config.plain_retry
            }
        },
    };
    now.remaining
        .map_or(uncut, |remaining| uncut.min(remaining))
}

/// Ours: `floor + uniform(0, min(cap, base·2^earlier))`, by cause (W1); `retry_after` replaces the floor (W4).
#[must_use]
pub fn backoff(class: Class, earlier: u32, retry_after: Option<Duration>, random: u64) -> Duration {
    let (floor, base, cap) = curve(class);
    let grown = base.saturating_mul(1_u32.checked_shl(earlier).unwrap_or(u32::MAX));
    retry_after.unwrap_or(floor) + uniform(grown.min(cap), random)
}

/// Floor, base and cap of a cause's delay.
fn curve(class: Class) -> (Duration, Duration, Duration) {
    let millis = |floor, base, cap| {
        (
            Duration::from_millis(floor),
            Duration::from_millis(base),
            Duration::from_millis(cap),
        )
    };
    match class {
        // Over as soon as the executor has read the old socket's end.
        Class::AlreadyAttached => millis(5, 10, 250),
        Class::Closed | Class::Dial | Class::Unauthorized => millis(0, 50, 2_000),
        // Deliberately slow: every handshake costs the executor a key agreement.
        Class::Handshake => millis(1_000, 500, 4_000),
        Class::Registry | Class::Offline | Class::Provisioning => millis(0, 500, 5_000),
        Class::Crashed => millis(0, 500, 5_000),
        // Not retried within a recovery; between attempts of callers that insist (W16).
        Class::Denied | Class::Terminal => millis(0, 500, 5_000),
    }
}

/// The reference's: `base + (H(key, earlier) mod (base/2 + 1))` ms with `base = min(500·2^min(earlier, 4), 5000)` ms.
#[must_use]
pub fn reference_backoff(key: &str, earlier: u32) -> Duration {
    let base = (500_u64 << earlier.min(4)).min(5_000);
    let mut hashed = key.as_bytes().to_vec();
    hashed.push(0xff);
    hashed.extend_from_slice(&earlier.to_le_bytes());
    Duration::from_millis(base + siphash13(&hashed) % (base / 2 + 1))
}

/// The recovery deadline: as configured, else 5 s less than the peer keeps a detached session, but at least half of that (W6).
#[must_use]
pub fn recovery_deadline(config: &Config, retention: Duration) -> Duration {
    let margin = Duration::from_secs(5);
    config
        .recovery_deadline
        .unwrap_or_else(|| retention.saturating_sub(margin).max(retention / 2))
}

/// How long a peer keeps a detached session: what it announced, else what its version is known to do (W6).
#[must_use]
pub fn retention(
    config: &Config,
    announced: Option<Duration>,
    executor_version: Option<&str>,
) -> Duration {
    /// Since this version the reference keeps sessions 80 s (measured).
    const LONG: (u64, u64, u64) = (0, 171, 0);
    let known = executor_version
        .and_then(version)
        .is_some_and(|version| version >= LONG);
    announced.unwrap_or(if known {
        Duration::from_secs(80)
    } else {
        config.assumed_retention
    })
}

fn version(text: &str) -> Option<(u64, u64, u64)> {
    let core = text.split(['-', '+']).next()?;
    let mut parts = core.split('.').map(|part| part.parse().ok());
    let version = (parts.next()??, parts.next()??, parts.next()??);
    parts.next().is_none().then_some(version)
}

/// A duration from 0 to `limit`, both included.
fn uniform(limit: Duration, random: u64) -> Duration {
    // The product of two 64-bit numbers fits 128 bits; limits are far below 2^64 ns.
    let nanos = (limit.as_nanos() * u128::from(random)) >> 64;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).min(limit)
}
