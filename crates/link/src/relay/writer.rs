//! The one writer of an executor's rendezvous socket.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::stream::Life;
use crate::{Close, LinkError, RawSink};

/// Items written before a flush and a look at the clock, though more are waiting.
const FLUSH_AFTER: usize = 32;

/// Something to write. The queue is unbounded in form; what is in it is bounded by the permits that it carries.
#[derive(Debug)]
pub(super) enum Outbound {
    /// Records of one stream.
    Batch(Batch),
    /// A reset or a handshake answer.
    Control(Control),
    /// The end.
    Close(Close),
}

/// Sealed frames of one stream, in order.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) frames: Vec<Bytes>,
    pub(super) life: Arc<Life>,
    /// Its part of the stream's share, given back once it is written.
    pub(super) room: OwnedSemaphorePermit,
}

/// One frame of the table's own.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) frame: Bytes,
    pub(super) room: OwnedSemaphorePermit,
}

/// Writes what comes, in the order in which it comes: each stream has so little in the queue that none waits long for
/// another. Many frames, then one flush. Ends with the socket, with [`Outbound::Close`], or with the queue.
pub(super) async fn write(
    mut socket: RawSink,
    mut queue: mpsc::UnboundedReceiver<Outbound>,
) -> Result<(), LinkError> {
    loop {
        tokio::select! {
            // The ping first: a queue that is never empty must not keep it from leaving.
            biased;
            beat = socket.keepalive() => beat?,
            next = queue.recv() => match next {
                Some(next) => {
                    if !feed(&mut socket, next).await? {
                        return Ok(());
                    }
                    for _ in 1..FLUSH_AFTER {
                        let Ok(next) = queue.try_recv() else { break };
                        if !feed(&mut socket, next).await? {
                            return Ok(());
                        }
                    }
                    socket.flush().await?;
                }
                None => return Ok(()),
            },
        }
    }
}

/// `false` after a close frame.
async fn feed(socket: &mut RawSink, next: Outbound) -> Result<bool, LinkError> {
    match next {
        Outbound::Batch(batch) => {
            for frame in batch.frames {
                // A stream that was reset has nothing more to say: its id may be another's by now.
                if batch.life.is_reset() {
                    break;
                }
                socket.feed(frame).await?;
            }
            drop(batch.room);
            Ok(true)
        }
        Outbound::Control(control) => {
            socket.feed(control.frame).await?;
            drop(control.room);
            Ok(true)
        }
        Outbound::Close(close) => {
            socket.close(close).await?;
            Ok(false)
        }
    }
}

#[cfg(test)]
mod tests;
