//! Writes on their way to a program: a bounded queue, and behind it the requests that wait for room, in order.

use std::collections::VecDeque;

use bytes::Bytes;
use mainstay_wire::limits;
use mainstay_wire::process::WriteParams;

use crate::outbox::{Outbox, Reply};

/// Bytes queued for a program that does not read, beside [`limits::STDIN_QUEUE`] chunks: as many as 128 chunks of
/// 64 KiB, what the reference was seen to hold.
const QUEUE_BYTES: usize = 8 * limits::MIB;

/// The queue of one process.
#[derive(Debug, Default)]
pub(crate) struct Stdin {
    queue: VecDeque<Bytes>,
    bytes: usize,
    waiting: VecDeque<Waiting>,
}

/// A request that waits its turn.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// `process/write`.
    Write(Reply, WriteParams),
    /// `mainstay/closeStdin`.
    Close(Reply),
}

impl Stdin {
    /// Whether a request has to wait behind others or for room.
    pub(crate) fn is_full(&self) -> bool {
        !self.waiting.is_empty() || !self.has_room()
    }

    /// Queues bytes.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.bytes += chunk.len();
            self.queue.push_back(chunk);
        }
    }

    /// Lets a request wait.
    pub(crate) fn wait(&mut self, request: Waiting) {
        self.waiting.push_back(request);
    }

    /// The next request whose turn it is.
    pub(crate) fn next(&mut self) -> Option<Waiting> {
        if self.has_room() {
            self.waiting.pop_front()
        } else {
            None
        }
    }

    /// Bytes to write next.
    pub(crate) fn front(&self) -> Option<&Bytes> {
        self.queue.front()
    }

    /// So many bytes of the front were written.
    pub(crate) fn written(&mut self, count: usize) {
        self.bytes -= count;
        if let Some(front) = self.queue.front_mut() {
            if count < front.len() {
                drop(front.split_to(count));
            } else {
                self.queue.pop_front();
            }
        }
    }

    /// Nobody reads any more: forgets the bytes, returns the requests.
    pub(crate) fn give_up(&mut self) -> VecDeque<Waiting> {
        self.queue.clear();
        self.bytes = 0;
        std::mem::take(&mut self.waiting)
    }

    /// Forgets the waiting requests of a connection that is gone.
    pub(crate) fn forget(&mut self, gone: &Outbox) {
        self.waiting.retain(|waiting| match waiting {
            Waiting::Write(reply, _) | Waiting::Close(reply) => !reply.is_to(gone),
        });
    }

    fn has_room(&self) -> bool {
        self.queue.len() < limits::STDIN_QUEUE && self.bytes < QUEUE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_128_chunks_or_8_mib() {
        let mut small = Stdin::default();
        for _ in 0..limits::STDIN_QUEUE {
            assert!(!small.is_full());
            small.push(Bytes::from_static(b"x"));
        }
        assert!(small.is_full());
        small.written(1);
        assert!(!small.is_full());

        let mut large = Stdin::default();
        large.push(Bytes::from(vec![0; QUEUE_BYTES]));
        assert!(large.is_full());
        large.written(1);
        assert!(!large.is_full());
        assert_eq!(large.front().unwrap().len(), QUEUE_BYTES - 1);
    }

    #[test]
    fn empty_chunks_take_no_place() {
        let mut stdin = Stdin::default();
        stdin.push(Bytes::new());
        assert!(stdin.front().is_none());
    }
}
