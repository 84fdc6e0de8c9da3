//! How long to wait before the next attempt to be reachable.
//!
//! The reference waits 0.5 to 1 s after the first loss, doubles up to 30 s and forgets that only after a connection that
//! held for two minutes (noise-relay.md 6.4). Meanwhile nobody reaches the executor, so ours comes back at once after a
//! loss, spread over a quarter of a second, and forgets earlier losses after ten good seconds; only repeated failures
//! wait as long as the reference. A fresh registration is dialled at once, not after the delay. An announced restart is spread over the window it names.

use std::time::Duration;

use tokio::time::sleep;

/// The first wait is anywhere up to this.
const FIRST: Duration = Duration::from_millis(250);

/// The second wait is between half of this and this; every further one doubles.
const BASE: Duration = Duration::from_secs(1);

/// No wait is longer, unless a peer asks for it.
const LONGEST: Duration = Duration::from_secs(30);

/// A connection that held for this long makes earlier failures forgotten.
const GOOD: Duration = Duration::from_secs(10);

/// What a peer may ask for at most.
const LONGEST_ASKED: Duration = Duration::from_secs(60);

/// Failures in a row.
#[derive(Debug)]
pub(super) struct Pace {
    failures: u32,
}

/// What a peer asked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Hint {
    /// To wait at least this long.
    After(Duration),
    /// To come back anywhere within this time.
    Within(Duration),
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { failures: 0 }
    }

    /// A connection ended after this time.
    pub(super) fn held(&mut self, time: Duration) {
        if time >= GOOD {
            self.failures = 0;
        }
    }

    /// Waits before the next attempt. Dropped early, it counts all the same.
    pub(super) fn pause(&mut self, hint: Option<Hint>) -> impl Future<Output = ()> + use<> {
        let wait = self.next(hint, share());
        sleep(wait)
    }

    /// The next wait; `share` in 0..1 says where in its range.
    fn next(&mut self, hint: Option<Hint>, share: f64) -> Duration {
        let failures = self.failures;
        self.failures = failures.saturating_add(1);
        let own = match failures.checked_sub(1) {
            None => FIRST.mul_f64(share),
            Some(doublings) => {
                let most = BASE.saturating_mul(1 << doublings.min(16)).min(LONGEST);
                most.mul_f64(0.5 + share / 2.0)
            }
        };
        match hint {
            None => own,
            Some(Hint::After(asked)) => own.max(asked.min(LONGEST_ASKED)),
            Some(Hint::Within(window)) => window.min(LONGEST_ASKED).mul_f64(share),
        }
    }
}

/// A random number in 0..1; the middle if the system has no randomness to give.
fn share() -> f64 {
    let bits = getrandom::u32().unwrap_or(u32::MAX / 2);
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(share: f64, count: usize) -> Vec<f64> {
        let mut pace = Pace::new();
        (0..count)
            .map(|_| pace.next(None, share).as_secs_f64())
            .collect()
    }

    #[test]
    fn comes_back_at_once_and_then_as_the_reference() {
        assert_eq!(
            waits(0.0, 9),
            [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 15.0]
        );
        let most = waits(0.999_999, 9);
        for (wait, limit) in most
            .iter()
            .zip([0.25, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0])
        {
            assert!(*wait <= limit && *wait > limit * 0.99, "{wait} {limit}");
        }
    }

    #[test]
    fn forgets_failures_after_a_good_connection_only() {
        let mut pace = Pace::new();
        pace.next(None, 0.0);
        pace.held(GOOD - Duration::from_millis(1));
        assert_eq!(pace.next(None, 0.0), BASE / 2);
        pace.held(GOOD);
        assert_eq!(pace.next(None, 0.0), Duration::ZERO);
    }

    #[test]
    fn a_peer_may_ask_within_bounds() {
        let seconds = Duration::from_secs;
        let mut pace = Pace::new();
        assert_eq!(pace.next(Some(Hint::After(seconds(7))), 0.5), seconds(7));
        assert_eq!(
            pace.next(Some(Hint::After(seconds(3600))), 0.5),
            LONGEST_ASKED
        );
        assert_eq!(pace.next(Some(Hint::Within(seconds(8))), 0.5), seconds(4));
        assert_eq!(
            pace.next(Some(Hint::Within(seconds(3600))), 0.5),
            seconds(30)
        );
    }
}
