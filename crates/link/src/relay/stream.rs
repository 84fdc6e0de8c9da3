//! The executor's end of one stream: a link whose socket belongs to somebody else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use mainstay_noise::Sealer;
use mainstay_wire::limits;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use super::records::Outgoing;
use super::writer::{Batch, Outbound};
use crate::LinkError;

/// Frames are handed to the writer in batches of about this many bytes, or at a flush.
const BATCH_BYTES: usize = 64 * limits::KIB;

/// Which of the streams that had one id after another.
pub(super) type Instance = u64;

/// A stream's end was reached by its own side: its sink was closed or dropped.
#[derive(Debug)]
pub(super) struct Gone {
    pub(super) stream_id: String,
    pub(super) instance: Instance,
}

/// What the two halves of a stream and the table share.
#[derive(Debug)]
pub(super) struct Life {
    end: AtomicU8,
    /// Bytes of frames that may still be handed to the writer.
    credit: Arc<Semaphore>,
    /// Bytes of messages that the source has not taken.
    undelivered: AtomicUsize,
}

const LIVE: u8 = 0;
const RESET: u8 = 1;
const CLOSED: u8 = 2;

impl Life {
    pub(super) fn new() -> Arc<Life> {
        Arc::new(Life {
            end: AtomicU8::new(LIVE),
            credit: Arc::new(Semaphore::new(limits::RELAY_OUTBOUND_BYTES)),
            undelivered: AtomicUsize::new(0),
        })
    }

    /// The stream was reset from outside: what it has not written is not to be written any more.
    pub(super) fn reset(&self) {
        self.finish(RESET);
    }

    /// The stream ended in another way: by its own side, or with the socket.
    pub(super) fn close(&self) {
        self.finish(CLOSED);
    }

    fn is_over(&self) -> bool {
        self.end.load(Ordering::Acquire) != LIVE
    }

    pub(super) fn is_reset(&self) -> bool {
        self.end.load(Ordering::Acquire) == RESET
    }

    fn finish(&self, end: u8) {
        // The first end is the one that is told.
        let _ = self
            .end
            .compare_exchange(LIVE, end, Ordering::AcqRel, Ordering::Acquire);
        self.credit.close();
    }

    fn error(&self) -> LinkError {
        match self.end.load(Ordering::Acquire) {
            RESET => LinkError::Reset,
            _ => LinkError::Closed,
        }
    }
}

/// The table's way to a stream's source.
#[derive(Debug)]
pub(super) struct Inbound {
    queue: mpsc::Sender<Bytes>,
    life: Arc<Life>,
}

impl Inbound {
    /// Queues a message. `false` if the bounds of noise-relay.md 6.2 do not allow it: the stream must be reset.
    /// Whoever dropped the source wants no more messages; that is no reason to end the other direction.
    pub(super) fn deliver(&self, message: Bytes) -> bool {
        let bytes = message.len();
        let before = self.life.undelivered.fetch_add(bytes, Ordering::Relaxed);
        // One message alone always fits: it is at most half of this.
        if before + bytes > limits::RELAY_INBOUND_BYTES {
            return false;
        }
        match self.queue.try_send(message) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => true,
            Err(mpsc::error::TrySendError::Full(_)) => false,
        }
    }

    /// Whether half of the queue is in use.
    pub(super) fn is_crowded(&self) -> bool {
        self.queue.capacity() < limits::RELAY_INBOUND / 2
    }
}

/// The halves of a stream, and the table's way to it.
pub(super) fn stream(
    stream_id: String,
    instance: Instance,
    sealer: Sealer,
    life: Arc<Life>,
    writer: mpsc::UnboundedSender<Outbound>,
    gone: mpsc::UnboundedSender<Gone>,
    write_within: Duration,
) -> (StreamSink, StreamSource, Inbound) {
    let (queue, messages) = mpsc::channel(limits::RELAY_INBOUND);
    let sink = StreamSink {
        records: Outgoing::new(stream_id, sealer),
        batch: Vec::new(),
        batch_bytes: 0,
        life: Arc::clone(&life),
        writer,
        gone: Some(gone),
        instance,
        write_within,
    };
    let source = StreamSource {
        messages,
        life: Arc::clone(&life),
    };
    (sink, source, Inbound { queue, life })
}

/// The sending half. It seals in its own task; the socket's writer only writes.
#[derive(Debug)]
pub(crate) struct StreamSink {
    records: Outgoing,
    batch: Vec<Bytes>,
    batch_bytes: usize,
    life: Arc<Life>,
    writer: mpsc::UnboundedSender<Outbound>,
    /// Told once, after the last frame.
    gone: Option<mpsc::UnboundedSender<Gone>>,
    instance: Instance,
    write_within: Duration,
}

impl StreamSink {
    pub(crate) async fn send(&mut self, message: String) -> Result<(), LinkError> {
        if self.life.is_over() || self.gone.is_none() {
            return Err(self.life.error());
        }
        self.records.push(message)?;
        while let Some(frame) = self.records.full_frame()? {
            self.add(frame).await?;
        }
        Ok(())
    }

    pub(crate) async fn flush(&mut self) -> Result<(), LinkError> {
        while let Some(frame) = self.records.frame()? {
            self.add(frame).await?;
        }
        if self.batch.is_empty() {
            return Ok(());
        }
        self.hand_over().await
    }

    async fn add(&mut self, frame: Bytes) -> Result<(), LinkError> {
        self.batch_bytes += frame.len();
        self.batch.push(frame);
        if self.batch_bytes >= BATCH_BYTES {
            self.hand_over().await?;
        }
        Ok(())
    }

    /// Ends the stream after what was sent: the peer gets a reset, which carries no reason.
    pub(crate) async fn close(&mut self) -> Result<(), LinkError> {
        let flushed = self.flush().await;
        self.leave();
        flushed
    }

    /// Waits until this stream's share of the writer's queue has room: other streams' shares are theirs.
    async fn hand_over(&mut self) -> Result<(), LinkError> {
        // A batch is shorter than a share: less than `BATCH_BYTES` and one frame.
        let bytes = self.batch_bytes.min(limits::RELAY_OUTBOUND_BYTES) as u32;
        let room = Arc::clone(&self.life.credit).acquire_many_owned(bytes);
        let room = match timeout(self.write_within, room).await {
            Ok(Ok(room)) => room,
            Ok(Err(_)) => return Err(self.life.error()),
            Err(_) => return Err(LinkError::WriteTimeout(self.write_within)),
        };
        let batch = Batch {
            frames: std::mem::take(&mut self.batch),
            life: Arc::clone(&self.life),
            room,
        };
        self.batch_bytes = 0;
        self.writer
            .send(Outbound::Batch(batch))
            .map_err(|_| LinkError::Closed)
    }

    fn leave(&mut self) {
        if let Some(gone) = self.gone.take() {
            // Without a table there is no peer to tell.
            let _ = gone.send(Gone {
                stream_id: self.records.stream_id().to_owned(),
                instance: self.instance,
            });
        }
    }
}

impl Drop for StreamSink {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The receiving half.
#[derive(Debug)]
pub(crate) struct StreamSource {
    messages: mpsc::Receiver<Bytes>,
    life: Arc<Life>,
}

impl StreamSource {
    /// The next message; after the last that arrived, why there are no more.
    pub(crate) async fn recv(&mut self) -> Result<Option<Bytes>, LinkError> {
        match self.messages.recv().await {
            Some(message) => {
                self.life
                    .undelivered
                    .fetch_sub(message.len(), Ordering::Relaxed);
                Ok(Some(message))
            }
            None => Err(self.life.error()),
        }
    }
}
