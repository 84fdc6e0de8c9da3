//! Calls of ours on one link, from their registration to their answer, and the wire slots they hold.

use std::collections::HashMap;

use mainstay_wire::limits::CALLS_IN_FLIGHT;

use crate::error::Delivery;
use crate::link::{PendingCall, Reply};
use crate::writer::WireSlots;

/// The calls that have no answer yet, by id.
#[derive(Debug)]
pub(super) struct Pending {
    calls: HashMap<i64, PendingCall>,
    slots: WireSlots,
}

impl Pending {
    pub(super) fn new(slots: WireSlots) -> Self {
        Self {
            calls: HashMap::new(),
            slots,
        }
    }

    pub(super) fn register(&mut self, id: i64, call: PendingCall) {
        if self.calls.len() > 2 * CALLS_IN_FLIGHT {
            self.calls
                .retain(|_, call| call.reply.as_ref().is_some_and(|reply| !reply.is_closed()));
        }
        self.calls.insert(id, call);
    }

    /// Nobody waits any more. A call on a relay's wire stays until its answer gives its slot back.
    pub(super) fn forget(&mut self, id: i64) {
        if self.slots.bounded()
            && let Some(call) = self.calls.get_mut(&id)
            && call.written.is_set()
        {
            call.reply = None;
        } else {
            self.calls.remove(&id);
        }
    }

    /// Answers to unknown ids are ignored.
    pub(super) fn answer(&mut self, id: i64, reply: Reply) {
        if let Some(call) = self.calls.remove(&id) {
            if call.written.is_set() {
                self.slots.give_back(call.lane);
            }
            if let Some(port) = call.reply {
                // The caller may have gone.
                let _ = port.send(reply.into());
            }
        }
    }

    /// Ends every call; each learns whether it can have been written.
    pub(super) fn close(self) {
        for (_, call) in self.calls {
            if let Some(port) = call.reply {
                let delivery = if call.written.is_set() {
                    Delivery::Unknown
                } else {
                    Delivery::NotSent
                };
                let _ = port.send(Reply::Closed(delivery).into());
            }
        }
    }
}
