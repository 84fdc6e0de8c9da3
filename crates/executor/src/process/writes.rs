//! The write ids a process has accepted, so that a repeated write changes nothing (protocol.md 6, `process/write`).

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use mainstay_wire::limits;

/// The last [`limits::WRITE_IDS`] accepted ids.
#[derive(Debug, Default)]
pub(crate) struct WriteIds {
    known: HashSet<Arc<str>>,
    order: VecDeque<Arc<str>>,
}

impl WriteIds {
    /// Whether a write with this id was accepted.
    pub(crate) fn contains(&self, id: &str) -> bool {
        self.known.contains(id)
    }

    /// Remembers an accepted id; the oldest is forgotten beyond the limit.
    pub(crate) fn insert(&mut self, id: &str) {
        let id: Arc<str> = id.into();
        if !self.known.insert(id.clone()) {
            return;
        }
        self.order.push_back(id);
        if self.order.len() > limits::WRITE_IDS
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_exactly_the_last_ones() {
        let mut ids = WriteIds::default();
        for id in 0..=limits::WRITE_IDS {
            ids.insert(&id.to_string());
            ids.insert(&id.to_string());
        }
        assert!(!ids.contains("0"));
        assert!(ids.contains("1"));
        assert!(ids.contains(&limits::WRITE_IDS.to_string()));
    }
}
