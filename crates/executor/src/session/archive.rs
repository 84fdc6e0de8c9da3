//! Ended processes of a session: remembered for their retention time, within bounds.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use mainstay_wire::extension::ProcessEntry;
use mainstay_wire::limits;
use rustix::process::{self, Pid, Signal};
use tokio::time::Instant;

use crate::process::record::Record;

/// Output kept of all ended processes of one session together; beyond it the oldest process keeps its facts only.
const OUTPUT: usize = 64 * limits::MIB;

/// Ended processes remembered per session; beyond it the oldest is forgotten early.
const PROCESSES: usize = 65_536;

/// Records by process id, and the order in which they are forgotten.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    records: HashMap<String, Kept>,
    order: VecDeque<(Instant, String, u64)>,
    bytes: usize,
    /// Groups whose leader has ended and that others are still in.
    stragglers: Vec<Pid>,
}

#[derive(Debug)]
struct Kept {
    number: u64,
    record: Record,
}

impl Archive {
    /// Remembers an ended process. Returns whether a sweep has to be arranged after `retention`, because none is yet.
    pub(crate) fn add(
        &mut self,
        number: u64,
        record: Record,
        stragglers: Option<Pid>,
        retention: Duration,
    ) -> bool {
        let first = self.order.is_empty();
        self.stragglers.extend(stragglers);
        self.bytes += record.log.bytes();
        self.order
            .push_back((Instant::now() + retention, record.id.clone(), number));
        self.records
            .insert(record.id.clone(), Kept { number, record });
        self.trim();
        first
    }

    /// An ended process that is still remembered.
    pub(crate) fn get(&mut self, id: &str) -> Option<&mut Record> {
        self.records.get_mut(id).map(|kept| &mut kept.record)
    }

    /// The consumer has the output up to `ack`.
    pub(crate) fn release(&mut self, id: &str, ack: u64) {
        if let Some(kept) = self.records.get_mut(id) {
            let before = kept.record.log.bytes();
            kept.record.log.release(ack, 0..0);
            self.bytes -= before - kept.record.log.bytes();
        }
    }

    /// Every remembered process with its place in the order of starts.
    pub(crate) fn entries(&self) -> Vec<(u64, ProcessEntry)> {
        self.records
            .values()
            .map(|kept| (kept.number, kept.record.entry()))
            .collect()
    }

    /// Forgets what has been kept long enough; returns when to look again.
    pub(crate) fn sweep(&mut self) -> Option<Duration> {
        self.stragglers
            .retain(|group| process::test_kill_process_group(*group).is_ok());
        let now = Instant::now();
        while let Some((until, id, number)) = self.order.front() {
            if *until > now {
                return Some(*until - now);
            }
            let (id, number) = (id.clone(), *number);
            self.order.pop_front();
            self.forget(&id, number);
        }
        None
    }

    /// Kills what ended processes left in their groups.
    pub(crate) fn kill_stragglers(&mut self) {
        for group in self.stragglers.drain(..) {
            let _ = process::kill_process_group(group, Signal::KILL);
        }
    }

    fn trim(&mut self) {
        while self.order.len() > PROCESSES
            && let Some((_, id, number)) = self.order.pop_front()
        {
            self.forget(&id, number);
        }
        if self.bytes > OUTPUT {
            for (_, id, _) in &self.order {
                if let Some(kept) = self.records.get_mut(id) {
                    self.bytes -= kept.record.log.bytes();
                    kept.record.log.release(u64::MAX, 0..0);
                }
                if self.bytes <= OUTPUT {
                    break;
                }
            }
        }
    }

    fn forget(&mut self, id: &str, number: u64) {
        // The id may have been forgotten early and used again.
        if self
            .records
            .get(id)
            .is_some_and(|kept| kept.number == number)
            && let Some(kept) = self.records.remove(id)
        {
            self.bytes -= kept.record.log.bytes();
        }
    }
}
