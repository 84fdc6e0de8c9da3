//! Ended processes of a session: remembered for their retention time, within bounds.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use mainstay_wire::extension::ProcessEntry;
use mainstay_wire::limits;
use rustix::process::{self, Pid, Signal};
use tokio::time::Instant;

use crate::process::record::Record;

/// Output kept of all ended processes of one session together; beyond it the oldest ones keep their facts only, except
/// those whose client grants credit and so was promised all of it.
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
                if let Some(kept) = self.records.get_mut(id)
                    && !kept.record.keeps_all
                {
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

#[cfg(test)]
mod tests {
    use mainstay_wire::process::Stream;

    use super::*;
    use crate::process::log::Log;

    fn record(id: usize, keeps_all: bool) -> Record {
        let mut log = Log::new(32 * limits::MIB);
        log.output(Stream::Stdout, vec![0; 4 * limits::MIB]);
        log.exit(0);
        log.close();
        Record {
            id: id.to_string(),
            argv: vec![],
            tty: false,
            has_stdin: false,
            stdin_closed: false,
            keeps_all,
            log,
            writes: Default::default(),
        }
    }

    fn bytes(archive: &mut Archive, id: usize) -> usize {
        archive.get(&id.to_string()).unwrap().log.bytes()
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_lose_their_output_first_unless_it_was_promised() {
        let mut archive = Archive::default();
        for id in 0..18 {
            archive.add(
                id,
                record(id as usize, id == 0),
                None,
                Duration::from_secs(80),
            );
        }
        let kept: Vec<bool> = (0..18).map(|id| bytes(&mut archive, id) > 0).collect();
        assert_eq!(kept[..4], [true, false, false, true]);
        assert_eq!(archive.get("1").unwrap().log.exit_code(), Some(0));
        assert!(archive.bytes <= OUTPUT);
    }

    #[tokio::test(start_paused = true)]
    async fn each_is_forgotten_in_its_time() {
        let mut archive = Archive::default();
        let retention = Duration::from_secs(80);
        assert!(archive.add(0, record(0, false), None, retention));
        tokio::time::advance(Duration::from_secs(30)).await;
        assert!(!archive.add(1, record(1, false), None, retention));
        tokio::time::advance(Duration::from_secs(49)).await;
        assert_eq!(archive.sweep(), Some(Duration::from_secs(1)));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(archive.sweep(), Some(Duration::from_secs(30)));
        assert!(archive.get("0").is_none() && archive.get("1").is_some());
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(archive.sweep(), None);
        assert_eq!((archive.get("1").is_none(), archive.bytes), (true, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn an_acknowledgement_frees_the_output() {
        let mut archive = Archive::default();
        archive.add(0, record(0, true), None, Duration::from_secs(80));
        archive.release("0", 1);
        assert_eq!((bytes(&mut archive, 0), archive.bytes), (0, 0));
    }
}
