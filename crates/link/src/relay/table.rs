//! The streams of an executor's rendezvous socket, and what each frame does to them (noise-relay.md 6).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mainstay_noise::{Channel, Opener, PublicKey};
use mainstay_wire::limits;
use mainstay_wire::relay::{Body, Frame};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, Id};
use tokio::time::Instant;
use tracing::debug;

use super::Accepted;
use super::budget::Budget;
use super::examine::Outcome;
use super::records::message;
use super::stream::{Gone, Inbound, Instance, Life, stream};
use super::writer::{Control, Outbound};
use crate::Link;
use crate::link::{SinkKind, SourceKind};

/// What the table wants done with a frame that it cannot do itself.
#[derive(Debug)]
pub(super) enum Wanted {
    /// Nothing.
    Nothing,
    /// A stream has many undelivered messages: its reader should have a turn before more are read.
    Turn,
    /// Examine this message 1: tell [`Table::pending`] at once and [`Table::examined`] in the end.
    Examine {
        stream_id: String,
        instance: Instance,
        message_1: Bytes,
    },
}

pub(super) struct Table {
    slots: HashMap<String, Slot>,
    active: usize,
    budget: Budget,
    instances: Instance,
    writer: mpsc::UnboundedSender<Outbound>,
    control_room: Arc<Semaphore>,
    gone: mpsc::UnboundedSender<Gone>,
    accepted: mpsc::Sender<Accepted>,
    write_within: Duration,
}

enum Slot {
    /// Message 1 is being examined.
    Pending {
        instance: Instance,
        task: AbortHandle,
    },
    /// A link exists.
    Active(Active),
}

struct Active {
    instance: Instance,
    opener: Opener,
    inbound: Inbound,
    life: Arc<Life>,
}

impl Drop for Active {
    fn drop(&mut self) {
        // Without effect on a stream that was reset: only the socket's end takes a live one with it.
        self.life.close();
    }
}

impl Table {
    pub(super) fn new(
        writer: mpsc::UnboundedSender<Outbound>,
        gone: mpsc::UnboundedSender<Gone>,
        accepted: mpsc::Sender<Accepted>,
        write_within: Duration,
    ) -> Table {
        Table {
            slots: HashMap::new(),
            active: 0,
            budget: Budget::default(),
            instances: 0,
            writer,
            control_room: Arc::new(Semaphore::new(limits::RELAY_CONTROL_FRAMES)),
            gone,
            accepted,
            write_within,
        }
    }

    /// A valid frame arrived.
    pub(super) fn frame(&mut self, frame: Frame, now: Instant) -> Wanted {
        match frame.body {
            Body::Handshake { payload } => return self.handshake(frame.stream_id, payload, now),
            Body::Data { seq, payload } => return self.data(frame.stream_id, seq, payload, now),
            Body::Reset { .. } => self.peer_reset(&frame.stream_id),
            Body::Ack | Body::Resume { .. } | Body::Heartbeat => {}
        }
        Wanted::Nothing
    }

    /// The examination that [`Table::frame`] wanted runs in this task.
    pub(super) fn pending(&mut self, stream_id: String, instance: Instance, task: AbortHandle) {
        let slot = Slot::Pending { instance, task };
        self.slots.insert(stream_id, slot);
    }

    /// An examination ended. A stale one, whose stream was dropped meanwhile, has no effect.
    pub(super) fn examined(
        &mut self,
        stream_id: String,
        instance: Instance,
        outcome: Outcome,
        now: Instant,
    ) {
        match self.slots.get(&stream_id) {
            Some(Slot::Pending { instance: i, .. }) if *i == instance => {}
            Some(Slot::Pending { .. } | Slot::Active(_)) | None => return,
        }
        self.slots.remove(&stream_id);
        match outcome {
            Outcome::Ready {
                message_2,
                channel,
                harness_key,
            } => self.admit(stream_id, instance, message_2, *channel, harness_key),
            Outcome::Rejected { message_2 } => {
                self.budget.fail(now);
                self.answer(&stream_id, message_2);
            }
            Outcome::Failed => {
                self.budget.fail(now);
                self.reset(&stream_id);
            }
        }
    }

    /// An examination panicked.
    pub(super) fn panicked(&mut self, task: Id, now: Instant) {
        let stream_id = self.slots.iter().find_map(|(id, slot)| match slot {
            Slot::Pending { task: running, .. } if running.id() == task => Some(id.clone()),
            Slot::Pending { .. } | Slot::Active(_) => None,
        });
        if let Some(stream_id) = stream_id {
            self.drop_pending(stream_id, now);
        }
    }

    /// The link of a stream was closed or dropped by its owner.
    pub(super) fn gone(&mut self, gone: Gone) {
        match self.slots.get(&gone.stream_id) {
            Some(Slot::Active(active)) if active.instance == gone.instance => {}
            Some(Slot::Active(_) | Slot::Pending { .. }) | None => return,
        }
        // No `life.reset()`: what it sent before is written, then the reset, in the order of the queue.
        self.remove(&gone.stream_id);
        self.reset(&gone.stream_id);
    }

    fn handshake(&mut self, stream_id: String, message_1: Bytes, now: Instant) -> Wanted {
        match self.slots.get(&stream_id) {
            // The reference does the same: the peer gets a reset, the active stream lives on.
            Some(Slot::Active(_)) => {
                self.reset(&stream_id);
                return Wanted::Nothing;
            }
            Some(Slot::Pending { .. }) => {
                self.drop_pending(stream_id, now);
                return Wanted::Nothing;
            }
            None => {}
        }
        let pending = self.slots.len() - self.active;
        if self.budget.refuses(now)
            || self.active >= limits::RELAY_STREAMS
            || pending >= limits::RELAY_VALIDATIONS
        {
            self.reset(&stream_id);
            return Wanted::Nothing;
        }
        self.instances += 1;
        Wanted::Examine {
            stream_id,
            instance: self.instances,
            message_1,
        }
    }

    fn data(&mut self, stream_id: String, seq: u32, record: Bytes, now: Instant) -> Wanted {
        match self.slots.get_mut(&stream_id) {
            Some(Slot::Active(active)) => match active.take(seq, record) {
                Ok(()) if active.inbound.is_crowded() => return Wanted::Turn,
                Ok(()) => {}
                Err(cause) => {
                    debug!(stream_id, cause, "relay stream reset");
                    active.life.reset();
                    self.remove(&stream_id);
                    self.reset(&stream_id);
                }
            },
            Some(Slot::Pending { .. }) => self.drop_pending(stream_id, now),
            None => self.reset(&stream_id),
        }
        Wanted::Nothing
    }

    fn peer_reset(&mut self, stream_id: &str) {
        if let Some(Slot::Active(active)) = self.slots.get(stream_id) {
            active.life.reset();
        }
        self.remove(stream_id);
    }

    fn drop_pending(&mut self, stream_id: String, now: Instant) {
        self.remove(&stream_id);
        self.budget.fail(now);
        self.reset(&stream_id);
    }

    fn admit(
        &mut self,
        stream_id: String,
        instance: Instance,
        message_2: Bytes,
        channel: Channel,
        harness_key: PublicKey,
    ) {
        if self.active >= limits::RELAY_STREAMS {
            self.reset(&stream_id);
            return;
        }
        // Message 2 first: no record of the new link can overtake it.
        if !self.answer(&stream_id, message_2) {
            return;
        }
        let (sealer, opener) = channel.split();
        let life = Life::new();
        let (sink, source, inbound) = stream(
            stream_id.clone(),
            instance,
            sealer,
            Arc::clone(&life),
            self.writer.clone(),
            self.gone.clone(),
            self.write_within,
        );
        let active = Active {
            instance,
            opener,
            inbound,
            life,
        };
        self.slots.insert(stream_id.clone(), Slot::Active(active));
        self.active += 1;
        let accepted = Accepted {
            link: Link::new(SinkKind::Stream(Box::new(sink)), SourceKind::Stream(source)),
            harness_key,
            stream_id,
        };
        // If nobody takes it, its sink is dropped here and says so: the stream ends like any other.
        if self.accepted.try_send(accepted).is_err() {
            debug!("nobody accepts relay streams");
        }
    }

    fn remove(&mut self, stream_id: &str) {
        match self.slots.remove(stream_id) {
            Some(Slot::Active(_)) => self.active -= 1,
            Some(Slot::Pending { task, .. }) => task.abort(),
            None => {}
        }
    }

    fn reset(&mut self, stream_id: &str) {
        self.control(Frame::reset(stream_id));
    }

    fn answer(&mut self, stream_id: &str, message_2: Bytes) -> bool {
        self.control(Frame::new(
            stream_id,
            Body::Handshake { payload: message_2 },
        ))
    }

    /// `false` if the frame did not fit: a peer that provokes more answers than it reads gets none.
    fn control(&mut self, frame: Frame) -> bool {
        let Ok(room) = Arc::clone(&self.control_room).try_acquire_owned() else {
            return false;
        };
        let frame = frame.encode();
        let control = Control { frame, room };
        self.writer.send(Outbound::Control(control)).is_ok()
    }
}

impl Active {
    /// Opens a record and delivers what it completes; `Err` says why the stream must end.
    fn take(&mut self, seq: u32, record: Bytes) -> Result<(), &'static str> {
        self.opener
            .accept(seq, record)
            .map_err(|_| "record refused")?;
        while let Some(message) = message(&mut self.opener).map_err(|_| "message refused")? {
            if !self.inbound.deliver(message) {
                return Err("too many undelivered messages");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
