//! Starts in progress, by the link they were sent on: a recovery waits for those of the link that died (R14).

use std::collections::HashMap;

use mainstay_session::ids::{Epoch, RecoveryId};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Starts {
    counts: HashMap<Epoch, usize>,
    /// No start on this link or an earlier one is accepted any more.
    drained: Option<Epoch>,
    /// Who waits for them.
    draining: Option<RecoveryId>,
}

impl Starts {
    /// Whether the link is being left.
    pub(super) fn is_drained(&self, epoch: Epoch) -> bool {
        self.drained.is_some_and(|drained| epoch <= drained)
    }

    pub(super) fn begin(&mut self, epoch: Epoch) {
        *self.counts.entry(epoch).or_default() += 1;
    }

    /// The recovery to be told that they have ended, if this was the last.
    pub(super) fn end(&mut self, epoch: Epoch) -> Option<RecoveryId> {
        match self.counts.get_mut(&epoch) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) => {
                self.counts.remove(&epoch);
            }
            None => tracing::error!(epoch = epoch.0, "a start ended that was not registered"),
        }
        self.take_drained()
    }

    /// The recovery to be told that they have ended, if there are none.
    pub(super) fn drain(&mut self, recovery: RecoveryId, epoch: Epoch) -> Option<RecoveryId> {
        self.drained = self.drained.max(Some(epoch));
        self.draining = Some(recovery);
        self.take_drained()
    }

    fn take_drained(&mut self) -> Option<RecoveryId> {
        let over = self.counts.keys().all(|epoch| !self.is_drained(*epoch));
        self.draining.take_if(|_| over)
    }
}
