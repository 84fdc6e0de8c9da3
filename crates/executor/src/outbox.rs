//! What leaves a connection: one queue in the order things were said, one writer.
//!
//! *Answers* are bounded by the requests they answer: each holds its request's [`Slot`] until it is written, and a large
//! one also some of the connection's answer bytes. *Events* (notifications) have few places; who has more waits for one.
//! One queue for both keeps a start result before the events of its process without any further care.

use std::sync::Arc;

use mainstay_link::{Close, LinkError, Sink};
use mainstay_wire::envelope::{self, RequestId};
use mainstay_wire::{RpcError, limits};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::notice_sink::NoticeSink;

/// Events queued per connection. An output event has at most 60 KiB, so this is 1 MiB.
const EVENTS: usize = 16;

/// An event above this size needs room as answers do: HTTP body deltas have up to 1 MiB.
const LARGE_EVENT: usize = 64 * limits::KIB;

/// Bytes of large answers queued per connection, in KiB. One answer may be larger and then goes alone.
const ROOM_KIB: usize = 8 * 1024;

/// Bytes gathered before the writer flushes even though more is waiting.
const FLUSH_AFTER: usize = 256 * limits::KIB;

/// Sends answers and events of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    queue: mpsc::UnboundedSender<Outgoing>,
    places: Arc<Semaphore>,
    room: Arc<Semaphore>,
}

/// The writer's side of an [`Outbox`].
#[derive(Debug)]
pub(crate) struct Outgoings {
    queue: mpsc::UnboundedReceiver<Outgoing>,
    places: Arc<Semaphore>,
    room: Arc<Semaphore>,
}

/// Some of the connection's bytes for large answers.
pub(crate) type Room = Option<OwnedSemaphorePermit>;

/// The peer's connection is gone; what was to be sent is lost with it.
#[derive(Debug, thiserror::Error)]
#[error("the connection is gone")]
pub(crate) struct Gone;

#[derive(Debug)]
enum Outgoing {
    Answer {
        id: RequestId,
        frame: String,
        slot: Slot,
        room: Room,
    },
    Event {
        frame: String,
        place: OwnedSemaphorePermit,
        room: Room,
    },
    Close(Close),
}

/// A request's place among those in flight; free again when the answer is written.
#[derive(Debug)]
pub(crate) struct Slot {
    _count: OwnedSemaphorePermit,
    _bytes: Option<OwnedSemaphorePermit>,
}

/// A place for one event of at most 64 KiB.
#[derive(Debug)]
pub(crate) struct Place {
    queue: mpsc::UnboundedSender<Outgoing>,
    permit: OwnedSemaphorePermit,
}

/// The duty to answer one request. Dropping it answers with an error, so that none is ever forgotten.
#[derive(Debug)]
pub(crate) struct Reply(Option<Duty>);

#[derive(Debug)]
struct Duty {
    id: RequestId,
    outbox: Outbox,
    slot: Slot,
    room: Room,
}

/// A queue and its writer's side.
pub(crate) fn outbox() -> (Outbox, Outgoings) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let outbox = Outbox {
        queue: sender,
        places: Arc::new(Semaphore::new(EVENTS)),
        room: Arc::new(Semaphore::new(ROOM_KIB)),
    };
    let outgoings = Outgoings {
        queue: receiver,
        places: outbox.places.clone(),
        room: outbox.room.clone(),
    };
    (outbox, outgoings)
}

impl Outbox {
    /// Closes the connection after everything said so far.
    pub(crate) fn close(&self, close: Close) {
        self.push(Outgoing::Close(close));
    }

    /// A place for an event, when there is one. Cancel-safe. Whoever gets it uses it: given back, it goes to the next who
    /// waits, and with more who wait than places none would ever be left for a [`Outbox::try_place`].
    pub(crate) async fn place(&self) -> Result<Place, Gone> {
        let permit = self
            .places
            .clone()
            .acquire_owned()
            .await
            .map_err(|_| Gone)?;
        Ok(self.at(permit))
    }

    /// A place for an event, if there is one now.
    pub(crate) fn try_place(&self) -> Option<Place> {
        let permit = self.places.clone().try_acquire_owned().ok()?;
        Some(self.at(permit))
    }

    /// Queues an event of any size once there is a place and room for it.
    pub(crate) async fn event(&self, frame: String) -> Result<(), Gone> {
        let room = if frame.len() > LARGE_EVENT {
            self.room(frame.len()).await
        } else {
            None
        };
        self.place().await?.send_in(frame, room);
        Ok(())
    }

    /// Whether this is the same connection's.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.queue.same_channel(&other.queue)
    }

    fn at(&self, permit: OwnedSemaphorePermit) -> Place {
        Place {
            queue: self.queue.clone(),
            permit,
        }
    }

    async fn room(&self, bytes: usize) -> Room {
        self.room.clone().acquire_many_owned(kib(bytes)).await.ok()
    }

    fn push(&self, outgoing: Outgoing) {
        // A writer that is gone took the connection with it.
        let _ = self.queue.send(outgoing);
    }
}

/// So many bytes in units of the room; nothing needs more than the whole of it.
fn kib(bytes: usize) -> u32 {
    // At most 8192.
    bytes.div_ceil(limits::KIB).min(ROOM_KIB) as u32
}

impl NoticeSink for Outbox {
    async fn send_notice(&self, frame: String) -> bool {
        self.event(frame).await.is_ok()
    }
}

impl Place {
    /// Queues an event.
    pub(crate) fn send(self, frame: String) {
        self.send_in(frame, None);
    }

    fn send_in(self, frame: String, room: Room) {
        // A writer that is gone took the connection with it.
        let _ = self.queue.send(Outgoing::Event {
            frame,
            place: self.permit,
            room,
        });
    }
}

impl Slot {
    /// One of the requests in flight, and its bytes.
    pub(crate) fn new(count: OwnedSemaphorePermit, bytes: Option<OwnedSemaphorePermit>) -> Self {
        Self {
            _count: count,
            _bytes: bytes,
        }
    }
}

impl Reply {
    /// The duty to answer request `id` on this connection.
    pub(crate) fn new(id: RequestId, outbox: Outbox, slot: Slot) -> Self {
        Self(Some(Duty {
            id,
            outbox,
            slot,
            room: None,
        }))
    }

    /// Answers.
    pub(crate) fn send<A: Serialize>(self, answer: Result<A, RpcError>) {
        self.frame(|id| match answer {
            Ok(answer) => envelope::success(id, &answer),
            Err(error) => envelope::failure(id, &error),
        });
    }

    /// Answers with success.
    pub(crate) fn ok<A: Serialize>(self, answer: A) {
        self.send(Ok(answer));
    }

    /// Answers with an error.
    pub(crate) fn err(self, error: RpcError) {
        self.send(Err::<(), _>(error));
    }

    /// Answers with a whole frame made from the request's id.
    pub(crate) fn frame(mut self, frame: impl FnOnce(&RequestId) -> String) {
        if let Some(duty) = self.0.take() {
            let frame = frame(&duty.id);
            duty.push(frame);
        }
    }

    /// Answers, after waiting for room for an answer of its size.
    pub(crate) async fn send_in_room<A: Serialize>(mut self, answer: Result<A, RpcError>) {
        let Some(duty) = &mut self.0 else { return };
        let frame = match answer {
            Ok(answer) => envelope::success(&duty.id, &answer),
            Err(error) => envelope::failure(&duty.id, &error),
        };
        duty.room = duty.outbox.room(frame.len()).await;
        self.frame(|_| frame);
    }

    /// Takes room for an answer of so many bytes; `false` if there is none now.
    pub(crate) fn try_room(&mut self, bytes: usize) -> bool {
        let Some(duty) = &mut self.0 else { return true };
        if duty.room.is_none() {
            let room = duty.outbox.room.clone();
            duty.room = room.try_acquire_many_owned(kib(bytes)).ok();
        }
        duty.room.is_some()
    }

    /// Waits for room for an answer of so many bytes.
    pub(crate) async fn wait_room(&mut self, bytes: usize) {
        if let Some(duty) = &mut self.0 {
            duty.room = duty.outbox.room(bytes).await;
        }
    }

    /// Whether the answer goes to this connection.
    pub(crate) fn is_to(&self, outbox: &Outbox) -> bool {
        self.0.as_ref().is_some_and(|duty| duty.outbox.is(outbox))
    }
}

impl Duty {
    fn push(self, frame: String) {
        self.outbox.push(Outgoing::Answer {
            id: self.id,
            frame,
            slot: self.slot,
            room: self.room,
        });
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(duty) = self.0.take() {
            let error = RpcError::internal("the request was dropped before it was answered");
            let frame = envelope::failure(&duty.id, &error);
            duty.push(frame);
        }
    }
}

impl Drop for Outgoings {
    fn drop(&mut self) {
        self.places.close();
        self.room.close();
    }
}

/// Writes everything to the peer until the connection is closed or breaks. Runs as its own task, so that reading goes
/// on while the peer does not take what is written.
pub(crate) async fn write(mut sink: Sink, mut from: Outgoings) -> Result<(), LinkError> {
    let mut gathered = 0;
    loop {
        if gathered > 0 && from.queue.is_empty() {
            sink.flush().await?;
            gathered = 0;
        }
        let next = tokio::select! {
            // The ping first: a queue that is never empty must not keep it from leaving.
            biased;
            beaten = sink.keepalive() => {
                beaten?;
                continue;
            }
            next = from.queue.recv() => match next {
                Some(next) => next,
                None => return Ok(()),
            },
        };
        gathered += match next {
            Outgoing::Answer { id, frame, .. } if frame.len() > limits::MESSAGE => {
                let size = frame.len();
                drop(frame);
                let error = RpcError::internal(format_args!(
                    "the answer has {size} bytes, the limit is {}",
                    limits::MESSAGE
                ));
                put(&mut sink, envelope::failure(&id, &error)).await?
            }
            Outgoing::Answer {
                frame, slot, room, ..
            } => {
                let size = put(&mut sink, frame).await?;
                drop((slot, room));
                size
            }
            Outgoing::Event { frame, place, room } => {
                let size = put(&mut sink, frame).await?;
                drop((place, room));
                size
            }
            Outgoing::Close(close) => {
                sink.flush().await?;
                return sink.close(close).await;
            }
        };
        if gathered > FLUSH_AFTER {
            sink.flush().await?;
            gathered = 0;
        }
    }
}

async fn put(sink: &mut Sink, frame: String) -> Result<usize, LinkError> {
    let size = frame.len();
    sink.send(frame).await?;
    Ok(size)
}
