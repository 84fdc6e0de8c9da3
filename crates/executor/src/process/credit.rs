//! How much output a client that grants credit may be sent (docs/protocol-extensions.md, `mainstayCredit`).

use mainstay_wire::limits;

/// Output bytes granted and used on the current attachment.
#[derive(Debug)]
pub(crate) struct Credit {
    window: usize,
    sent: usize,
}

impl Default for Credit {
    fn default() -> Self {
        Self {
            window: limits::CREDIT_INITIAL_WINDOW,
            sent: 0,
        }
    }
}

impl Credit {
    /// Whether a chunk of this size may be sent. A window smaller than a chunk lets a single one pass, as `maxBytes`
    /// of `process/read` does; a window of 0 lets nothing pass.
    pub(crate) fn allows(&self, bytes: usize) -> bool {
        self.sent + bytes <= self.window || (self.sent == 0 && self.window > 0)
    }

    /// A chunk was sent.
    pub(crate) fn spend(&mut self, bytes: usize) {
        self.sent += bytes;
    }

    /// Sent chunks were acknowledged, and the window is this from now on.
    pub(crate) fn grant(&mut self, acknowledged: usize, window: u64) {
        self.sent = self.sent.saturating_sub(acknowledged);
        self.window = usize::try_from(window).unwrap_or(usize::MAX / 2);
    }

    /// A new attachment begins: nothing was sent on it. The window stays as last granted.
    pub(crate) fn restart(&mut self) {
        self.sent = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_what_may_be_unacknowledged() {
        let mut credit = Credit::default();
        credit.grant(0, 100);
        assert!(credit.allows(100));
        credit.spend(60);
        assert!(credit.allows(40) && !credit.allows(41));
        credit.grant(60, 100);
        assert!(credit.allows(100));
    }

    #[test]
    fn a_small_window_lets_one_chunk_pass_and_none_lets_nothing() {
        let mut credit = Credit::default();
        credit.grant(0, 1);
        assert!(credit.allows(1000));
        credit.spend(1000);
        assert!(!credit.allows(1));
        credit.grant(1000, 0);
        assert!(!credit.allows(1));
        credit.grant(0, u64::MAX);
        credit.spend(usize::MAX / 4);
        assert!(credit.allows(usize::MAX / 8));
    }
}
