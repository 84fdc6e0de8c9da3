//! The processes of one session, and how many of them have consumers that are full.

use std::collections::HashMap;
use std::sync::Arc;

use super::entry::Entry;
use crate::outlet::Key;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Entries {
    by_id: HashMap<Arc<str>, Entry>,
    numbered: u64,
    full: usize,
}

impl Entries {
    /// Adds a process under a number of its own; `None` if its id is taken.
    pub(super) fn add(
        &mut self,
        process_id: Arc<str>,
        entry: impl FnOnce(u64) -> Entry,
    ) -> Option<Key> {
        if self.by_id.contains_key(&process_id) {
            return None;
        }
        self.numbered += 1;
        let number = self.numbered;
        self.by_id.insert(process_id.clone(), entry(number));
        Some(Key { process_id, number })
    }

    /// Changes a process, if it is still this one; it goes when nothing more will be delivered to it.
    pub(super) fn change<R>(
        &mut self,
        key: &Key,
        change: impl FnOnce(&mut Entry) -> R,
    ) -> Option<R> {
        if !self.is_current(key) {
            return None;
        }
        self.change_named(&key.process_id, change)
    }

    /// [`change`](Self::change), whichever process has the id now.
    pub(super) fn change_named<R>(
        &mut self,
        process_id: &str,
        change: impl FnOnce(&mut Entry) -> R,
    ) -> Option<R> {
        let entry = self.by_id.get_mut(process_id)?;
        self.full -= usize::from(entry.is_full());
        let result = change(entry);
        if entry.is_over() {
            self.by_id.remove(process_id);
        } else {
            self.full += usize::from(entry.is_full());
        }
        Some(result)
    }

    pub(super) fn remove(&mut self, key: &Key) {
        if self.is_current(key)
            && let Some(entry) = self.by_id.remove(&key.process_id)
        {
            self.full -= usize::from(entry.is_full());
        }
    }

    /// Takes all of them out.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Entry> {
        self.full = 0;
        std::mem::take(&mut self.by_id).into_values()
    }

    /// Whether the process is still this one.
    pub(super) fn is_current(&self, key: &Key) -> bool {
        self.by_id
            .get(&key.process_id)
            .is_some_and(|entry| entry.number == key.number)
    }

    pub(super) fn named(&self, process_id: &str) -> Option<(Key, &Entry)> {
        let (id, entry) = self.by_id.get_key_value(process_id)?;
        let key = Key {
            process_id: id.clone(),
            number: entry.number,
        };
        Some((key, entry))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Entry)> {
        self.by_id.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&Arc<str>, &mut Entry)> {
        self.by_id.iter_mut()
    }

    /// Whether every consumer has room.
    pub(super) fn have_room(&self) -> bool {
        self.full == 0
    }
}
