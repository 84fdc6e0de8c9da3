//! Messages to relay frames and back, for one stream.

use bytes::Bytes;
use mainstay_noise::{OpenError, Opener, SealError, Sealer};
use mainstay_wire::{limits, relay};
use tracing::trace;

use crate::LinkError;

/// Bytes of a data frame around its record, at most: ids are at most 128 bytes, everything else fits in the rest.
const FRAME_OVERHEAD: usize = limits::RELAY_STREAM_ID + 32;

/// Messages that share a record, at most: a receiver that counts messages (noise-relay.md 6.2) gets no long burst.
const MESSAGES_PER_RECORD: usize = 32;

/// The sending direction of a stream. Short messages wait for each other until a flush or a full record: one pass, one
/// frame and one hop through the router for all of them.
#[derive(Debug)]
pub(super) struct Outgoing {
    stream_id: String,
    sealer: Sealer,
    /// Messages queued since the last record.
    messages: usize,
}

impl Outgoing {
    pub(super) fn new(stream_id: String, sealer: Sealer) -> Outgoing {
        Outgoing {
            stream_id,
            sealer,
            messages: 0,
        }
    }

    /// Queues a message. Draw [`Outgoing::full_frame`]s afterwards, and [`Outgoing::frame`]s at a flush.
    ///
    /// # Errors
    /// [`LinkError::TooLong`] leaves the stream intact.
    pub(super) fn push(&mut self, message: String) -> Result<(), LinkError> {
        self.sealer.push(message).map_err(|error| match error {
            SealError::TooLong { length } => LinkError::TooLong {
                size: length,
                limit: limits::RELAY_JSON,
            },
            SealError::Empty | SealError::Exhausted => LinkError::Protocol(error.to_string()),
        })?;
        self.messages += 1;
        Ok(())
    }

    /// The next frame that need not wait for more.
    pub(super) fn full_frame(&mut self) -> Result<Option<Bytes>, LinkError> {
        if self.sealer.is_full() || self.messages >= MESSAGES_PER_RECORD {
            self.frame()
        } else {
            Ok(None)
        }
    }

    /// The next frame, header and sealed record in one piece; `None` when nothing is queued.
    pub(super) fn frame(&mut self) -> Result<Option<Bytes>, LinkError> {
        let messages = std::mem::take(&mut self.messages);
        let Some(next) = self.sealer.upcoming() else {
            return Ok(None);
        };
        trace!(seq = next.seq, len = next.len, messages, "record");
        let mut frame = Vec::with_capacity(FRAME_OVERHEAD + next.len);
        relay::begin_data(&mut frame, &self.stream_id, next.seq, next.len);
        self.sealer
            .seal(&mut frame)
            .map_err(|error| LinkError::Protocol(error.to_string()))?;
        Ok(Some(frame.into()))
    }

    pub(super) fn stream_id(&self) -> &str {
        &self.stream_id
    }
}

/// What went wrong with a record, as the link's error.
pub(super) fn refused(error: OpenError) -> LinkError {
    LinkError::Protocol(format!("Noise relay record refused: {error}"))
}

/// The next whole message that has arrived.
pub(super) fn message(opener: &mut Opener) -> Result<Option<Bytes>, LinkError> {
    opener.message().map_err(refused)
}
