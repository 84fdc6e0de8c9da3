//! Messages to relay frames and back, for one stream.

use bytes::Bytes;
use mainstay_noise::{OpenError, Opener, SealError, Sealer};
use mainstay_wire::{limits, relay};

use crate::LinkError;

/// Bytes of a data frame around its record, at most: ids are at most 128 bytes, everything else fits in the rest.
const FRAME_OVERHEAD: usize = limits::RELAY_STREAM_ID + 32;

/// The sending direction of a stream.
#[derive(Debug)]
pub(super) struct Outgoing {
    stream_id: String,
    sealer: Sealer,
}

impl Outgoing {
    pub(super) fn new(stream_id: String, sealer: Sealer) -> Outgoing {
        Outgoing { stream_id, sealer }
    }

    /// Takes a message; its frames are drawn with [`Outgoing::frame`] before the next is taken.
    ///
    /// # Errors
    /// [`LinkError::TooLong`] leaves the stream intact.
    pub(super) fn begin(&mut self, message: String) -> Result<(), LinkError> {
        self.sealer.begin(message).map_err(|error| match error {
            SealError::TooLong { length } => LinkError::TooLong {
                size: length,
                limit: limits::RELAY_JSON,
            },
            SealError::Empty | SealError::Busy | SealError::Exhausted => {
                LinkError::Protocol(error.to_string())
            }
        })
    }

    /// The next frame of the message, header and sealed record in one piece; `None` after the last.
    pub(super) fn frame(&mut self) -> Result<Option<Bytes>, LinkError> {
        let Some(next) = self.sealer.upcoming() else {
            return Ok(None);
        };
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
