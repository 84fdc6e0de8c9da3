//! How many failed handshakes one socket bears (noise-relay.md 6.3).

use mainstay_wire::limits;
use tokio::time::Instant;

/// Counts failures; after the eighth, every new handshake is refused for 10 s, then the count starts anew.
#[derive(Debug, Default)]
pub(super) struct Budget {
    failures: usize,
    refusing_until: Option<Instant>,
}

impl Budget {
    /// A handshake failed.
    pub(super) fn fail(&mut self, now: Instant) {
        if self.refuses(now) {
            return;
        }
        self.failures += 1;
        if self.failures == limits::RELAY_FAILURES {
            self.failures = 0;
            self.refusing_until = Some(now + limits::RELAY_FAILURE_PAUSE);
        }
    }

    /// Whether a new handshake is refused.
    pub(super) fn refuses(&self, now: Instant) -> bool {
        self.refusing_until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_eighth_failure_refuses_for_ten_seconds() {
        let start = Instant::now();
        let mut budget = Budget::default();
        for _ in 0..7 {
            budget.fail(start);
            assert!(!budget.refuses(start));
        }
        budget.fail(start);
        assert!(budget.refuses(start));
        assert!(budget.refuses(start + Duration::from_millis(9_999)));
        let later = start + Duration::from_secs(10);
        assert!(!budget.refuses(later));
        // A fresh budget.
        for _ in 0..7 {
            budget.fail(later);
        }
        assert!(!budget.refuses(later));
        budget.fail(later);
        assert!(budget.refuses(later));
    }

    #[test]
    fn failures_while_refusing_do_not_count() {
        let start = Instant::now();
        let mut budget = Budget::default();
        for _ in 0..20 {
            budget.fail(start);
        }
        let later = start + Duration::from_secs(10);
        budget.fail(later);
        assert!(!budget.refuses(later));
    }
}
