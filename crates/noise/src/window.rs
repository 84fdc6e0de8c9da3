//! The order window (noise-relay.md 5.6): records are opened in sequence, early ones wait within bounds.

use std::collections::BTreeMap;

use bytes::Bytes;
use mainstay_wire::limits::{WINDOW_BYTES, WINDOW_RECORDS};

use crate::OpenError;

/// What to do with a record that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It is the next one.
    Next,
    /// It is early; [`Window::hold`] it.
    Early,
    /// It was here before.
    Duplicate,
}

#[derive(Debug, Default)]
pub(crate) struct Window {
    next: u32,
    early: BTreeMap<u32, Bytes>,
    held_bytes: usize,
}

impl Window {
    /// A window far into a stream.
    #[cfg(test)]
    pub(crate) fn starting_at(next: u32) -> Window {
        Window {
            next,
            ..Window::default()
        }
    }

    /// Judges a record without taking it.
    pub(crate) fn judge(&self, seq: u32, bytes: usize) -> Result<Arrival, OpenError> {
        if seq < self.next || self.early.contains_key(&seq) {
            return Ok(Arrival::Duplicate);
        }
        if seq == self.next {
            return Ok(Arrival::Next);
        }
        if (seq - self.next) as usize > WINDOW_RECORDS {
            return Err(OpenError::TooFarAhead);
        }
        if self.early.len() >= WINDOW_RECORDS || self.held_bytes + bytes > WINDOW_BYTES {
            return Err(OpenError::WindowFull);
        }
        Ok(Arrival::Early)
    }

    /// Keeps an early record.
    pub(crate) fn hold(&mut self, seq: u32, record: Bytes) {
        self.held_bytes += record.len();
        self.early.insert(seq, record);
    }

    /// The next record's number went by.
    ///
    /// # Errors
    /// [`OpenError::Exhausted`] at the last number: the stream ends there.
    pub(crate) fn advance(&mut self) -> Result<(), OpenError> {
        self.next = self.next.checked_add(1).ok_or(OpenError::Exhausted)?;
        Ok(())
    }

    /// Takes the next record if it was early.
    pub(crate) fn take_next(&mut self) -> Option<Bytes> {
        let record = self.early.remove(&self.next)?;
        self.held_bytes -= record.len();
        Some(record)
    }

    pub(crate) fn next(&self) -> u32 {
        self.next
    }
}
