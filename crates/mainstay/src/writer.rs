//! Writer: the sending half of a link, and the only one that writes its socket.
//!
//! A [worker](crate::worker), spawned by Handshake: a loop over the link's bounded queues until the link is asked to
//! close or a write fails.

use std::sync::Arc;
use std::time::Duration;

use mainstay_link::{Close, LinkError, Sink};
use mainstay_wire::limits::{RELAY_CALLS_ON_WIRE, RELAY_RESERVED_ON_WIRE};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::link::{CloseRequest, Lane, LinkRef, QueuedCall, WriterEnds, close_requested};
use crate::worker::Work;

/// Time for the goodbye of a link that ends; its socket is dropped afterwards in any case.
const GOODBYE: Duration = Duration::from_secs(1);
/// Messages that are fed to the socket before one flush.
const BATCH: usize = 64;

/// Bounds what is on the wire of a relay link. The Writer takes a slot for each call it writes, the Reader gives it
/// back when the answer arrives.
#[derive(Clone, Debug)]
pub(crate) struct WireSlots {
    regular: Arc<Semaphore>,
    reserved: Arc<Semaphore>,
    bounded: bool,
}

impl WireSlots {
    pub(crate) fn relay() -> Self {
        Self {
            regular: Arc::new(Semaphore::new(RELAY_CALLS_ON_WIRE)),
            reserved: Arc::new(Semaphore::new(RELAY_RESERVED_ON_WIRE)),
            bounded: true,
        }
    }

    /// A direct link has no such bound: one permit that nobody keeps.
    pub(crate) fn direct() -> Self {
        Self {
            regular: Arc::new(Semaphore::new(1)),
            reserved: Arc::new(Semaphore::new(1)),
            bounded: false,
        }
    }

    pub(crate) fn bounded(&self) -> bool {
        self.bounded
    }

    fn of(&self, lane: Lane) -> &Semaphore {
        match lane {
            Lane::Regular => &self.regular,
            Lane::Cleanup => &self.reserved,
            Lane::Probe => &self.reserved,
        }
    }

    fn take(&self, lane: Lane) {
        if self.bounded
            && let Ok(slot) = self.of(lane).try_acquire()
        {
            slot.forget();
        }
    }

    /// Gives the slot of a written call back.
    pub(crate) fn give_back(&self, lane: Lane) {
        if self.bounded {
            self.of(lane).add_permits(1);
        }
    }
}

#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) sink: Sink,
    pub(crate) ends: WriterEnds,
    pub(crate) link: LinkRef,
    pub(crate) slots: WireSlots,
}

impl Work for Writer {
    async fn run(mut self) {
        if let Err(error) = write_all(&mut self).await {
            tracing::debug!(epoch = self.link.epoch().0, %error, "link cannot write");
            self.link
                .close(CloseRequest::WriteFailed(error.to_string()));
        }
    }
}

/// Writes until the link is asked to close (then says goodbye) or a write fails.
async fn write_all(work: &mut Writer) -> Result<(), LinkError> {
    loop {
        let WriterEnds {
            regular,
            reserved,
            control,
            close,
        } = &mut work.ends;
        tokio::select! {
            biased;
            _ = close_requested(close) => {
                // The peer may be gone or deaf: whatever becomes of the goodbye, the link has ended.
                let _ = timeout(GOODBYE, work.sink.close(Close::normal())).await;
                return Ok(());
            }
            // Before the queues: one that is never empty must not keep the ping from leaving.
            alive = work.sink.keepalive() => alive?,
            Some(message) = control.recv() => work.sink.send(message).await?,
            call = next(&work.slots.reserved, reserved) => work.call(call).await?,
            call = next(&work.slots.regular, regular) => work.call(call).await?,
        }
        drain(work).await?;
        work.sink.flush().await?;
    }
}

/// Feeds what is already queued, so that one flush carries many messages.
async fn drain(work: &mut Writer) -> Result<(), LinkError> {
    for _ in 0..BATCH {
        let WriterEnds {
            regular,
            reserved,
            control,
            ..
        } = &mut work.ends;
        if let Ok(message) = control.try_recv() {
            work.sink.send(message).await?;
        } else if let Some(call) = try_next(&work.slots.reserved, reserved) {
            work.call(call).await?;
        } else if let Some(call) = try_next(&work.slots.regular, regular) {
            work.call(call).await?;
        } else {
            break;
        }
    }
    Ok(())
}

impl Writer {
    /// Writes a call behind the messages that were queued before it: it may be the first one, queued behind
    /// `initialized` just after the queue of messages was found empty.
    async fn call(&mut self, call: QueuedCall) -> Result<(), LinkError> {
        for _ in 0..self.ends.control.len() {
            if let Ok(message) = self.ends.control.try_recv() {
                self.sink.send(message).await?;
            }
        }
        write_call(&mut self.sink, &self.link, &self.slots, call).await
    }
}

/// The next call of a lane, once a wire slot is free. Cancel-safe: a slot is only lost to a written call.
async fn next(slots: &Semaphore, lane: &mut tokio::sync::mpsc::Receiver<QueuedCall>) -> QueuedCall {
    // The semaphore is never closed, and the lane's senders live in `LinkRef`, which the Writer holds itself.
    let Ok(_slot) = slots.acquire().await else {
        return std::future::pending().await;
    };
    match lane.recv().await {
        Some(call) => call,
        None => std::future::pending().await,
    }
}

fn try_next(
    slots: &Semaphore,
    lane: &mut tokio::sync::mpsc::Receiver<QueuedCall>,
) -> Option<QueuedCall> {
    let _slot = slots.try_acquire().ok()?;
    lane.try_recv().ok()
}

/// Writes a call unless its caller, its link or its generation is gone. *Written* is set before *closed* and the
/// gate are tested: see `marks`.
async fn write_call(
    sink: &mut Sink,
    link: &LinkRef,
    slots: &WireSlots,
    call: QueuedCall,
) -> Result<(), LinkError> {
    if !call.written.claim() || link.closed().is_set() || call.gate.ended().is_some() {
        return Ok(());
    }
    slots.take(call.lane);
    match sink.send(call.frame).await {
        // Callers test the length themselves, so only a transport with a smaller bound comes here; the link lives.
        Err(LinkError::TooLong { .. }) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use mainstay_session::ids::Epoch;
    use ractor::{Actor, ActorProcessingErr, ActorRef};

    use super::*;
    use crate::marks::{self, Written};
    use crate::supervisor;
    use crate::telemetry::Tracing;

    /// A supervisor that hears nothing.
    struct Deaf;

    impl Actor for Deaf {
        type Msg = supervisor::Msg;
        type State = ();
        type Arguments = ();

        async fn pre_start(
            &self,
            _: ActorRef<supervisor::Msg>,
            (): (),
        ) -> Result<(), ActorProcessingErr> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_message_queued_before_a_call_is_written_before_it() {
        let (deaf, _) = Actor::spawn(None, Deaf, ()).await.unwrap();
        let (link, _reader, ends) = LinkRef::new(Epoch(1), Tracing::default(), deaf.clone());
        let (near, mut far) = mainstay_link::pair();
        let mut writer = Writer {
            sink: near.sink,
            ends,
            link: link.clone(),
            slots: WireSlots::direct(),
        };
        // The Writer has found its queue of messages empty and waits for a call: both come now.
        link.control().send("initialized".into()).await.unwrap();
        let (_keeper, gate) = marks::gate();
        let call = QueuedCall {
            lane: Lane::Regular,
            frame: "call".into(),
            written: Written::default(),
            gate,
            _room: link.room().clone().acquire_owned().await.unwrap(),
        };
        writer.call(call).await.unwrap();
        for expected in ["initialized", "call"] {
            assert_eq!(far.source.recv().await.unwrap().unwrap(), expected);
        }
        deaf.kill();
    }
}
