//! Messages to records: length prefix, chunks of at most 60 KiB, one AEAD pass each (noise-relay.md 5.5).

use std::collections::VecDeque;
use std::fmt;

use bytes::Bytes;

use mainstay_wire::limits;

use crate::SealError;
use crate::channel::SealingKey;
use crate::primitives;

/// Bytes a record is longer than its plaintext.
pub const TAG_BYTES: usize = primitives::TAG_BYTES;

const PREFIX_BYTES: usize = 4;

/// The sending half of a channel. Messages are queued, and their records drawn one by one, so that a caller can
/// interleave streams. Messages queued together share records: a receiver takes the plaintext as a byte stream.
pub struct Sealer {
    key: SealingKey,
    /// Number of the next record, its nonce and its `seq`.
    seq: u32,
    /// What is not yet sealed, in order.
    pending: VecDeque<Pending>,
    pending_bytes: usize,
    /// A record of several pieces is put together here: the cipher wants one.
    pieces: Vec<u8>,
}

struct Pending {
    prefix: [u8; PREFIX_BYTES],
    /// How much of the prefix is sealed.
    prefix_done: usize,
    /// What is left of the message.
    rest: Bytes,
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
            pending: VecDeque::new(),
            pending_bytes: 0,
            pieces: Vec::new(),
        }
    }

    /// Queues a message.
    ///
    /// # Errors
    /// An empty or too long message; nothing is queued then.
    pub fn push(&mut self, message: impl Into<Bytes>) -> Result<(), SealError> {
        let rest = message.into();
        if rest.is_empty() {
            return Err(SealError::Empty);
        }
        if rest.len() > limits::RELAY_JSON {
            return Err(SealError::TooLong { length: rest.len() });
        }
        // Fits: it is at most 64 MiB.
        let prefix = (rest.len() as u32).to_be_bytes();
        self.pending_bytes += PREFIX_BYTES + rest.len();
        self.pending.push_back(Pending {
            prefix,
            prefix_done: 0,
            rest,
        });
        Ok(())
    }

    /// Seals the next record and appends it to `out`; with nothing queued, does nothing.
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
        let (nonce, out) = (u64::from(seq), &mut out[start..]);
        let bytes = len - TAG_BYTES;
        match self.in_one_piece(bytes) {
            Some(text) => self.key.seal(nonce, &text, out),
            None => {
                self.gather(bytes);
                self.key.seal(nonce, &self.pieces, out);
            }
        }
        self.pending_bytes -= bytes;
        self.seq = next;
        Ok(())
    }

    /// Number and length of the next record, if something is queued.
    pub fn upcoming(&self) -> Option<Upcoming> {
        (self.pending_bytes > 0).then(|| Upcoming {
            seq: self.seq,
            len: self.pending_bytes.min(limits::RECORD) + TAG_BYTES,
        })
    }

    /// Whether the next record will be as long as a record can be: waiting for more messages gains nothing.
    pub fn is_full(&self) -> bool {
        self.pending_bytes >= limits::RECORD
    }

    /// Takes so many bytes if they lie together: the inside of a long message.
    fn in_one_piece(&mut self, bytes: usize) -> Option<Bytes> {
        let first = self.pending.front_mut()?;
        if first.prefix_done < PREFIX_BYTES || first.rest.len() < bytes {
            return None;
        }
        let text = first.rest.split_to(bytes);
        if first.rest.is_empty() {
            self.pending.pop_front();
        }
        Some(text)
    }

    /// Takes so many bytes, of as many messages as it needs, into `pieces`.
    fn gather(&mut self, bytes: usize) {
        self.pieces.clear();
        while self.pieces.len() < bytes
            && let Some(first) = self.pending.front_mut()
        {
            let prefix = &first.prefix[first.prefix_done..];
            let prefix = &prefix[..prefix.len().min(bytes - self.pieces.len())];
            self.pieces.extend_from_slice(prefix);
            first.prefix_done += prefix.len();
            let room = bytes - self.pieces.len();
            let text = first.rest.split_to(room.min(first.rest.len()));
            self.pieces.extend_from_slice(&text);
            if first.rest.is_empty() {
                self.pending.pop_front();
            }
        }
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
