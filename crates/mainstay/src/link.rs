//! A running link, as callers and the supervisor hold it: the way into its Reader and its Writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Instant;

use bytes::Bytes;
use mainstay_session::event::Fault;
use mainstay_session::ids::Epoch;
use mainstay_wire::RpcError;
use mainstay_wire::limits::{CALLS_IN_FLIGHT as CALLS, CLEANUP_CALLS, MESSAGE};
use ractor::ActorRef;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use crate::error::{Delivery, Error};
use crate::marks::{Closed, Gate, Written};
use crate::supervisor;
use crate::telemetry::Tracing;

/// Slots kept for live probes, so that 1024 stuck calls cannot fail a refresh (W23).
pub(crate) const PROBE_CALLS: usize = 1;
/// Bytes that may wait for the Writer (`session.md` 15.6), counted in KiB.
const QUEUE_KIB: usize = MESSAGE / 1024;

/// Which lane a call takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Everything else.
    Regular,
    /// terminate, fs/close: a regular slot, else the reserved one, else the link is closed.
    Cleanup,
    /// environment/status: its own slot.
    Probe,
}

/// How a registered call ends, if its link does not vanish under it.
#[derive(Debug)]
pub(crate) enum Reply {
    /// The `result` member, as it came.
    Success(Bytes),
    /// The `error` member.
    Failure(RpcError),
    /// The link ended first.
    Closed(Delivery),
}

/// A reply on its way to its caller.
#[derive(Debug)]
pub(crate) struct Delivered {
    pub(crate) reply: Reply,
    /// When the Reader had it.
    pub(crate) read: Instant,
}

impl From<Reply> for Delivered {
    fn from(reply: Reply) -> Self {
        Self {
            reply,
            read: Instant::now(),
        }
    }
}

/// What callers tell a Reader.
#[derive(Debug)]
pub(crate) enum ToReader {
    /// A call that is about to be queued for writing.
    Register { id: i64, call: PendingCall },
    /// Its caller went away.
    Forget { id: i64 },
    /// An inbound request was answered, or will never be.
    InboundDone { id: i64 },
}

/// A call without an answer.
#[derive(Debug)]
pub(crate) struct PendingCall {
    pub(crate) lane: Lane,
    pub(crate) written: Written,
    /// `None`: nobody waits any more, but the call still holds a wire slot.
    pub(crate) reply: Option<oneshot::Sender<Delivered>>,
}

/// A call on its way to the Writer.
#[derive(Debug)]
pub(crate) struct QueuedCall {
    pub(crate) lane: Lane,
    pub(crate) frame: String,
    pub(crate) written: Written,
    pub(crate) gate: Gate,
    /// Bytes it holds in the queue, given back when it leaves.
    pub(crate) _room: tokio::sync::OwnedSemaphorePermit,
}

/// Why a link is to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CloseRequest {
    /// Nobody needs it any more.
    Unneeded,
    /// Its Writer could not write.
    WriteFailed(String),
    /// Its Reader came to an end.
    Ended,
    /// No slot was left for a clean-up call.
    Exhausted,
}

/// Waits until the link is asked to end. Cancel-safe.
pub(crate) async fn close_requested(
    close: &mut watch::Receiver<Option<CloseRequest>>,
) -> CloseRequest {
    match close.wait_for(Option::is_some).await {
        Ok(why) => why.clone().unwrap_or(CloseRequest::Unneeded),
        Err(_) => CloseRequest::Unneeded,
    }
}

/// The way into a link. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct LinkRef(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    epoch: Epoch,
    closed: Closed,
    close: watch::Sender<Option<CloseRequest>>,
    next_id: AtomicI64,
    watches: watch::Sender<Watches>,
    calls: Arc<Semaphore>,
    cleanup: Arc<Semaphore>,
    probes: Arc<Semaphore>,
    room: Arc<Semaphore>,
    reader: mpsc::Sender<ToReader>,
    regular: mpsc::Sender<QueuedCall>,
    reserved: mpsc::Sender<QueuedCall>,
    control: mpsc::Sender<String>,
    tracing: Tracing,
    supervisor: ActorRef<supervisor::Msg>,
}

/// The ids of a link's watches for missing paths, from 1 upwards.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Watches {
    /// The highest one given out.
    pub(crate) taken: u64,
    /// The highest one that has fired.
    pub(crate) fired: u64,
}

/// The Reader's ends of a link's queues.
#[derive(Debug)]
pub(crate) struct ReaderEnds {
    pub(crate) inbox: mpsc::Receiver<ToReader>,
    pub(crate) close: watch::Receiver<Option<CloseRequest>>,
}

/// The Writer's ends of a link's queues.
#[derive(Debug)]
pub(crate) struct WriterEnds {
    pub(crate) regular: mpsc::Receiver<QueuedCall>,
    pub(crate) reserved: mpsc::Receiver<QueuedCall>,
    pub(crate) control: mpsc::Receiver<String>,
    pub(crate) close: watch::Receiver<Option<CloseRequest>>,
}

/// Answers and notifications that may wait for the Writer; the answers of all inbound requests fit.
const CONTROL: usize = 512;

impl LinkRef {
    pub(crate) fn new(
        epoch: Epoch,
        tracing: Tracing,
        supervisor: ActorRef<supervisor::Msg>,
    ) -> (Self, ReaderEnds, WriterEnds) {
        let (reader, inbox) = mpsc::channel(2 * CALLS);
        let (regular, regular_rx) = mpsc::channel(CALLS);
        let (reserved, reserved_rx) = mpsc::channel(2 * (CLEANUP_CALLS + PROBE_CALLS) + CALLS);
        let (control, control_rx) = mpsc::channel(CONTROL);
        let (close, close_rx) = watch::channel(None);
        let link = Self(Arc::new(Shared {
            epoch,
            closed: Closed::default(),
            close,
            next_id: AtomicI64::new(1),
            watches: watch::Sender::default(),
            calls: Arc::new(Semaphore::new(CALLS)),
            cleanup: Arc::new(Semaphore::new(CLEANUP_CALLS)),
            probes: Arc::new(Semaphore::new(PROBE_CALLS)),
            room: Arc::new(Semaphore::new(QUEUE_KIB)),
            reader,
            regular,
            reserved,
            control,
            tracing,
            supervisor,
        }));
        let reader = ReaderEnds {
            inbox,
            close: close_rx.clone(),
        };
        let writer = WriterEnds {
            regular: regular_rx,
            reserved: reserved_rx,
            control: control_rx,
            close: close_rx,
        };
        (link, reader, writer)
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.0.epoch
    }

    pub(crate) fn closed(&self) -> &Closed {
        &self.0.closed
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.0.closed.is_set()
    }

    /// Asks the link to end. Idempotent; the first reason stays. Waits for nothing.
    pub(crate) fn close(&self, why: CloseRequest) {
        self.0.close.send_if_modified(|current| {
            let first = current.is_none();
            if first {
                *current = Some(why);
            }
            first
        });
    }

    /// Waits until the link ends or is asked to.
    pub(crate) async fn ended(&self) {
        close_requested(&mut self.0.close.subscribe()).await;
    }

    /// A timed call got no answer: the supervisor decides whether the link has to go (T4).
    pub(crate) fn report_timeout(&self, error: Error) {
        let fault = supervisor::Msg::LinkFault {
            epoch: self.0.epoch,
            fault: Fault::RpcTimeout,
            error,
        };
        // Without a supervisor there is nothing left to recover.
        let _ = self.0.supervisor.send_message(fault);
    }

    /// Integers from 1 upwards.
    pub(crate) fn next_id(&self) -> i64 {
        self.0.next_id.fetch_add(1, Relaxed)
    }

    /// The id of a new watch; ends the one before it.
    pub(crate) fn next_watch(&self) -> u64 {
        let mut id = 0;
        self.0.watches.send_modify(|known| {
            known.taken += 1;
            id = known.taken;
        });
        id
    }

    /// The executor says that a watch has fired.
    pub(crate) fn watch_fired(&self, id: u64) {
        self.0
            .watches
            .send_modify(|known| known.fired = known.fired.max(id));
    }

    pub(crate) fn watches(&self) -> watch::Receiver<Watches> {
        self.0.watches.subscribe()
    }

    pub(crate) fn calls(&self) -> &Arc<Semaphore> {
        &self.0.calls
    }

    pub(crate) fn cleanup_calls(&self) -> &Arc<Semaphore> {
        &self.0.cleanup
    }

    pub(crate) fn probe_calls(&self) -> &Arc<Semaphore> {
        &self.0.probes
    }

    pub(crate) fn room(&self) -> &Arc<Semaphore> {
        &self.0.room
    }

    pub(crate) fn reader(&self) -> &mpsc::Sender<ToReader> {
        &self.0.reader
    }

    pub(crate) fn lane(&self, lane: Lane) -> &mpsc::Sender<QueuedCall> {
        match lane {
            Lane::Regular => &self.0.regular,
            Lane::Cleanup => &self.0.reserved,
            Lane::Probe => &self.0.reserved,
        }
    }

    /// Where outgoing requests get their trace context from.
    pub(crate) fn tracing(&self) -> &Tracing {
        &self.0.tracing
    }

    /// An inbound request was answered, or will never be.
    pub(crate) fn inbound_done(&self, id: i64) {
        // If the inbox is full the id stays taken; executors never use one twice.
        let _ = self.0.reader.try_send(ToReader::InboundDone { id });
    }

    /// The lane of answers and notifications.
    pub(crate) fn control(&self) -> &mpsc::Sender<String> {
        &self.0.control
    }
}
