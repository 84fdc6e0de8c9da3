//! Messages to records: length prefix, chunks of at most 60 KiB, one AEAD pass each (noise-relay.md 5.5).

use std::fmt;

use bytes::Bytes;

use mainstay_wire::limits;

use crate::SealError;
use crate::channel::SealingKey;
use crate::primitives;

/// Bytes a record is longer than its plaintext.
pub const TAG_BYTES: usize = primitives::TAG_BYTES;

const PREFIX_BYTES: usize = 4;

/// The sending half of a channel. One message is under way at a time; its records are drawn one by one, so that a
/// caller can interleave streams.
pub struct Sealer {
    key: SealingKey,
    /// Number of the next record, its nonce and its `seq`.
    seq: u32,
    /// What is not yet sealed of the message under way.
    rest: Bytes,
    /// The prefix of the message under way, until its first record takes it.
    prefix: Option<[u8; PREFIX_BYTES]>,
    /// First chunks are put together here: prefix and text are apart, and the cipher wants one piece.
    first: Vec<u8>,
}

/// The record that [`Sealer::seal`] writes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upcoming {
    /// Its sequence number.
    pub seq: u32,
    /// Its length, bytes, tag included.
    pub len: usize,
}

impl Sealer {
    pub(crate) fn new(key: SealingKey) -> Sealer {
        Sealer {
            key,
            seq: 0,
            rest: Bytes::new(),
            prefix: None,
            first: Vec::new(),
        }
    }

    /// Takes the next message.
    ///
    /// # Errors
    /// An empty or too long message, or one still under way; nothing is taken then.
    pub fn begin(&mut self, message: impl Into<Bytes>) -> Result<(), SealError> {
        let message = message.into();
        if self.prefix.is_some() || !self.rest.is_empty() {
            return Err(SealError::Busy);
        }
        if message.is_empty() {
            return Err(SealError::Empty);
        }
        if message.len() > limits::RELAY_JSON {
            return Err(SealError::TooLong {
                length: message.len(),
            });
        }
        // Fits: it is at most 64 MiB.
        self.prefix = Some((message.len() as u32).to_be_bytes());
        self.rest = message;
        Ok(())
    }

    /// Seals the next record of the message under way and appends it to `out`; without one, does nothing.
    ///
    /// # Errors
    /// [`SealError::Exhausted`] at the end of the sequence numbers.
    pub fn seal(&mut self, out: &mut Vec<u8>) -> Result<(), SealError> {
        let Some(Upcoming { seq, len }) = self.upcoming() else {
            return Ok(());
        };
        let next = seq.checked_add(1).ok_or(SealError::Exhausted)?;
        let start = out.len();
        out.resize(start + len, 0);
        let plaintext = len - TAG_BYTES;
        match self.prefix.take() {
            Some(prefix) => {
                let text = self.rest.split_to(plaintext - PREFIX_BYTES);
                self.first.clear();
                self.first.extend_from_slice(&prefix);
                self.first.extend_from_slice(&text);
                self.key
                    .seal(u64::from(seq), &self.first, &mut out[start..]);
            }
            None => {
                let text = self.rest.split_to(plaintext);
                self.key.seal(u64::from(seq), &text, &mut out[start..]);
            }
        }
        self.seq = next;
        Ok(())
    }

    /// Number and length of the next record, if a message is under way.
    pub fn upcoming(&self) -> Option<Upcoming> {
        let left = self.rest.len() + self.prefix.map_or(0, |prefix| prefix.len());
        (left > 0).then(|| Upcoming {
            seq: self.seq,
            len: left.min(limits::RECORD) + TAG_BYTES,
        })
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer")
            .field("seq", &self.seq)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
