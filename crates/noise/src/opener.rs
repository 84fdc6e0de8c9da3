//! Records to messages: order, decrypt, and cut the byte stream at its length prefixes (noise-relay.md 5.5, 5.6).

use std::fmt;

use bytes::{Buf, Bytes, BytesMut};
use mainstay_wire::limits;

use crate::channel::OpeningKey;
use crate::window::{Arrival, Window};
use crate::{OpenError, TAG_BYTES};

const PREFIX_BYTES: usize = 4;

/// The receiving half of a channel. Any error ends the stream: the caller resets it.
pub struct Opener {
    key: OpeningKey,
    window: Window,
    /// Plaintext not yet taken as messages. It grows with what arrives, never with what is announced.
    stream: BytesMut,
}

impl Opener {
    pub(crate) fn new(key: OpeningKey) -> Opener {
        Opener {
            key,
            window: Window::default(),
            stream: BytesMut::new(),
        }
    }

    /// Takes one record: opened if it is the next (with the early ones that follow it), held if early, ignored if it
    /// was here before. Draw the messages with [`Opener::message`] afterwards.
    ///
    /// # Errors
    /// Bounds of length or order, or a tag that does not verify; a refused record changes nothing.
    pub fn accept(&mut self, seq: u32, record: Bytes) -> Result<(), OpenError> {
        if record.len() < TAG_BYTES || record.len() > limits::RECORD + TAG_BYTES {
            return Err(OpenError::RecordLength);
        }
        match self.window.judge(seq, record.len())? {
            Arrival::Duplicate => Ok(()),
            Arrival::Early => {
                self.window.hold(seq, record);
                Ok(())
            }
            Arrival::Next => {
                self.open(&record)?;
                while let Some(record) = self.window.take_next() {
                    self.open(&record)?;
                }
                Ok(())
            }
        }
    }

    /// The next whole message, if it has arrived. Bytes, not yet checked to be text or JSON.
    ///
    /// # Errors
    /// [`OpenError::MessageLength`] for an announced length of 0 or over [`limits::RELAY_JSON`].
    pub fn message(&mut self) -> Result<Option<Bytes>, OpenError> {
        let Some(prefix) = self.stream.first_chunk::<PREFIX_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*prefix) as usize;
        if length == 0 || length > limits::RELAY_JSON {
            return Err(OpenError::MessageLength);
        }
        if self.stream.len() < PREFIX_BYTES + length {
            return Ok(None);
        }
        self.stream.advance(PREFIX_BYTES);
        if self.stream.len() == length {
            // All of it: leave no shared buffer behind, which a later record would have to copy away from.
            return Ok(Some(std::mem::take(&mut self.stream).freeze()));
        }
        Ok(Some(self.stream.split_to(length).freeze()))
    }

    fn open(&mut self, record: &[u8]) -> Result<(), OpenError> {
        let start = self.stream.len();
        self.stream.resize(start + record.len(), 0);
        let nonce = u64::from(self.window.next());
        let opened = self.key.open(nonce, record, &mut self.stream[start..]);
        self.stream.truncate(start + opened.unwrap_or(0));
        if opened.is_none() {
            return Err(OpenError::Authentication);
        }
        self.window.advance()
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opener")
            .field("next", &self.window.next())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
