//! What belongs to one executor socket: its way out, and the streams that come to it.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use mainstay_link::Close;
use mainstay_wire::relay::Frame;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::{
    harness::Harness,
    outbox::{Outbox, Queue, outbox},
};
use crate::Limits;

/// One executor socket with its streams.
#[derive(Debug)]
pub(crate) struct Hub {
    /// To the executor.
    pub(crate) outbox: Outbox,
    /// Set once the executor's socket has ended, or must.
    pub(crate) gone: CancellationToken,
    streams: Mutex<HashMap<Box<str>, Arc<Stream>>>,
    retired: AtomicBool,
    harnesses: Arc<Semaphore>,
    streams_per_harness: usize,
}

/// A stream id and the harness socket that claimed it.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: Box<str>,
    pub(crate) harness: Arc<Harness>,
    open: AtomicBool,
}

impl Hub {
    pub(crate) fn new(limits: Limits) -> (Self, Queue) {
        let (outbox, queue) = outbox();
        let hub = Self {
            outbox,
            gone: CancellationToken::new(),
            streams: Mutex::default(),
            retired: AtomicBool::new(false),
            harnesses: Arc::new(Semaphore::new(limits.harnesses_per_executor as usize)),
            streams_per_harness: limits.streams_per_harness as usize,
        };
        (hub, queue)
    }

    /// No stream that is not here yet may come.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    /// Ends the executor's socket, and with it those of its harnesses.
    pub(crate) fn end(&self, close: Close) {
        self.outbox.close(close);
        self.gone.cancel();
    }

    /// Room for one more harness.
    pub(crate) fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.harnesses.clone().try_acquire_owned().ok()
    }

    /// The stream of an id.
    pub(crate) fn stream(&self, id: &str) -> Option<Arc<Stream>> {
        self.streams().get(id).cloned()
    }

    /// The stream of an id for `harness`, learnt now if the id is free. Nothing if the id is another socket's, the
    /// registration was replaced, or the socket has enough streams.
    pub(crate) fn claim(&self, id: &str, harness: &Arc<Harness>) -> Option<Arc<Stream>> {
        let mut streams = self.streams();
        let taken = streams
            .values()
            .filter(|stream| Arc::ptr_eq(&stream.harness, harness))
            .count();
        match streams.entry(id.into()) {
            Entry::Occupied(entry) => {
                Arc::ptr_eq(&entry.get().harness, harness).then(|| entry.get().clone())
            }
            Entry::Vacant(entry) => {
                if self.retired.load(Ordering::Relaxed) || taken >= self.streams_per_harness {
                    return None;
                }
                let stream = Arc::new(Stream {
                    id: id.into(),
                    harness: harness.clone(),
                    open: AtomicBool::new(true),
                });
                Some(entry.insert(stream).clone())
            }
        }
    }

    /// Forgets a stream; its id is free again. False if that happened before.
    pub(crate) fn forget(&self, stream: &Stream) -> bool {
        // An entry goes only here, so that an open stream is the one of its id.
        let was_open = stream.open.swap(false, Ordering::Relaxed);
        if was_open {
            self.streams().remove(&stream.id);
        }
        was_open
    }

    /// Forgets a stream and tells the executor, unless that happened before: the id may be another's by now.
    pub(crate) fn reset(&self, stream: &Stream) {
        if self.forget(stream) {
            self.outbox.send_free(Frame::reset(&*stream.id).encode());
        }
    }

    /// Resets every stream of a harness that is gone.
    pub(crate) fn reset_all(&self, harness: &Arc<Harness>) {
        let theirs: Vec<_> = self
            .streams()
            .values()
            .filter(|stream| Arc::ptr_eq(&stream.harness, harness))
            .cloned()
            .collect();
        for stream in theirs {
            self.reset(&stream);
        }
    }

    fn streams(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Stream>>> {
        // Nothing panics while it is held.
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stream {
    /// Whether it was not forgotten yet.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }
}
