//! What a process says to whoever is attached: its events, in order, as far as places and credit go.

use mainstay_wire::limits;
use mainstay_wire::process::{write_closed, write_exited, write_output};

use super::Attachment;
use super::live::Live;
use super::log::Event;
use crate::outbox::{Gone, Place};

/// Output that may wait for places in the outbox of a client without credit before the program has to wait, in bytes
/// and chunks: more than the outbox itself would only move the wait.
const UNSENT_BYTES: usize = 256 * limits::KIB;
const UNSENT_CHUNKS: usize = 1024;

/// Where events go, and how far they are.
pub(super) struct Attached {
    pub(super) to: Attachment,
    /// The first number sent on this attachment.
    since: u64,
    /// The next number to send.
    cursor: u64,
}

impl Live {
    /// Sends events in order while there is credit and a place, the one it was given first; returns whether only places
    /// are missing.
    pub(super) fn pump(&mut self, mut given: Option<Place>) -> bool {
        let Some(attached) = &mut self.attached else {
            return false;
        };
        let id = &self.record.id;
        while attached.cursor < self.record.log.next_seq() {
            let Some(event) = self.record.log.event(attached.cursor) else {
                // Read and acknowledged before it was sent.
                attached.cursor += 1;
                continue;
            };
            let bytes = match &event {
                Event::Output(chunk) => chunk.bytes.len(),
                Event::Exited { .. } | Event::Closed { .. } => 0,
            };
            if attached.to.credit && bytes > 0 && !self.credit.allows(bytes) {
                return false;
            }
            let Some(place) = given.take().or_else(|| attached.to.outbox.try_place()) else {
                return true;
            };
            let mut frame = String::new();
            match event {
                Event::Output(chunk) => {
                    write_output(&mut frame, id, chunk.seq, chunk.stream, &chunk.bytes)
                }
                Event::Exited { seq, code } => write_exited(&mut frame, id, seq, code, false),
                Event::Closed { seq } => write_closed(&mut frame, id, seq),
            }
            place.send(frame);
            self.credit.spend(bytes);
            self.record.log.tell(attached.cursor);
            attached.cursor += 1;
        }
        false
    }

    /// Whether everything has been sent that can be.
    pub(super) fn is_sent(&self) -> bool {
        let next = self.record.log.next_seq();
        self.attached
            .as_ref()
            .is_none_or(|attached| attached.cursor == next)
    }

    /// Whether the program may go on writing; see the table of `process`.
    pub(super) fn may_read(&self) -> bool {
        if self.ends.is_exhausted() {
            return false;
        }
        let log = &self.record.log;
        match &self.attached {
            _ if self.record.keeps_all => !log.is_full(),
            Some(attached) => !log.exceeds(attached.cursor, UNSENT_BYTES, UNSENT_CHUNKS),
            None => true,
        }
    }

    pub(super) fn on_attach(&mut self, to: Attachment) {
        self.on_detach();
        self.record.keeps_all = to.credit;
        if !self.record.keeps_all {
            self.record.log.evict();
        }
        self.credit.restart();
        let next = self.record.log.next_seq();
        self.record.log.tell(next - 1);
        self.attached = Some(Attached {
            to,
            since: next,
            cursor: next,
        });
    }

    pub(super) fn on_detach(&mut self) {
        if let Some(attached) = self.attached.take() {
            let gone = &attached.to.outbox;
            self.polls.retain(|poll| !poll.reply.is_to(gone));
            self.stdin.forget(gone);
        }
    }

    pub(super) fn on_credit(&mut self, ack: u64, window: u64) {
        if let Some(attached) = &self.attached
            && attached.to.credit
        {
            let sent = attached.since..attached.cursor;
            let acknowledged = self.record.log.release(ack, sent);
            self.credit.grant(acknowledged, window);
        }
    }
}

/// A place for the next event. Cancel-safe.
pub(super) async fn place(attached: Option<&Attached>) -> Result<Place, Gone> {
    match attached {
        Some(attached) => attached.to.outbox.place().await,
        None => std::future::pending().await,
    }
}
