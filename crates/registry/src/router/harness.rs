//! A harness's socket: what it receives goes to the executor, what comes for its streams goes out.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use mainstay_link::{Close, Frame, LinkError, RawSocket, RawSource};
use mainstay_wire::relay;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    LINGER,
    executor::drain,
    hub::{Hub, Stream},
    outbox::{Outbox, outbox, write},
    peek::peek,
};
use crate::Limits;

/// What a queued frame costs beyond its bytes, so that many tiny ones are bounded too.
const OVERHEAD: usize = 64;
/// A frame below this is copied out of the buffer it was read into: queued, it would keep all of that.
const COPY_BELOW: usize = 4096;

/// One harness socket. A socket carries one stream (noise-relay.md 1), so its two budgets are that stream's queues.
#[derive(Debug)]
pub(crate) struct Harness {
    outbox: Outbox,
    /// Bytes that may still be queued towards the harness.
    to_harness: Arc<Semaphore>,
    /// Bytes that may still be queued towards the executor.
    to_executor: Arc<Semaphore>,
    patience: Duration,
    /// Set when the socket shall be dropped without a word: it does not read.
    cut: CancellationToken,
}

impl Harness {
    /// Queues a frame for the harness. Waits for room as long as the limits say, a reset not at all; false if there
    /// was none. Frames for a harness that is gone are dropped.
    pub(super) async fn deliver(&self, frame: Bytes, at_once: bool) -> bool {
        let patience = if at_once {
            Duration::ZERO
        } else {
            self.patience
        };
        match room(&self.to_harness, &frame, patience).await {
            Room::Here(share) => {
                self.outbox.send(compact(frame), share);
                true
            }
            Room::Gone => true,
            Room::None => false,
        }
    }

    /// Ends the socket; who waits for room waits no longer.
    pub(super) fn cut(&self) {
        self.to_harness.close();
        self.cut.cancel();
    }
}

/// Serves the socket until it ends; afterwards its streams are reset towards the executor.
pub(super) async fn serve(
    hub: &Arc<Hub>,
    socket: RawSocket,
    limits: Limits,
    closing: watch::Receiver<Option<Close>>,
) {
    let (outbox, queue) = outbox();
    let harness = Arc::new(Harness {
        outbox,
        to_harness: Arc::new(Semaphore::new(limits.stream_queue as usize)),
        to_executor: Arc::new(Semaphore::new(limits.stream_queue as usize)),
        patience: limits.stream_patience,
        cut: CancellationToken::new(),
    });
    let mut source = socket.source;
    let mut writer = tokio::spawn(write(socket.sink, queue, closing));
    tokio::select! {
        ended = forward(hub, &harness, &mut source) => {
            tracing::debug!(?ended, "harness socket ended");
            harness.cut();
        }
        () = harness.cut.cancelled() => {}
        written = &mut writer => {
            harness.cut();
            hub.reset_all(&harness);
            if let Ok(Ok(())) = written {
                let _ = timeout(LINGER, drain(&mut source)).await;
            }
        }
        () = hub.gone.cancelled() => {
            harness.outbox.close(Close::new(1001, "executor disconnected"));
            let goodbye = async {
                let _ = (&mut writer).await;
                drain(&mut source).await;
            };
            let _ = timeout(LINGER, goodbye).await;
        }
    }
    hub.reset_all(&harness);
    writer.abort();
}

/// Ends with the socket, or when the executor takes nothing.
async fn forward(
    hub: &Hub,
    harness: &Arc<Harness>,
    source: &mut RawSource,
) -> Result<(), LinkError> {
    // The streams this socket has claimed; few, and most often one.
    let mut mine: HashMap<Box<str>, Arc<Stream>> = HashMap::new();
    while let Some(message) = source.recv().await? {
        let Frame::Binary(frame) = message else {
            continue;
        };
        let Some(seen) = peek(&frame) else { continue };
        let known = mine
            .get(seen.stream_id)
            .filter(|stream| stream.is_open())
            .cloned();
        let stream = match known {
            Some(stream) => stream,
            // Nothing to end.
            None if seen.reset => continue,
            None => match hub.claim(seen.stream_id, harness) {
                Some(stream) => {
                    mine.retain(|_, stream| stream.is_open());
                    mine.insert(stream.id.clone(), stream.clone());
                    stream
                }
                None => {
                    let reset = relay::Frame::reset(seen.stream_id).encode();
                    if !harness.deliver(reset, true).await {
                        return Ok(());
                    }
                    continue;
                }
            },
        };
        if seen.reset {
            hub.forget(&stream);
        }
        match room(&harness.to_executor, &frame, harness.patience).await {
            Room::Here(share) => hub.outbox.send(compact(frame), share),
            Room::Gone | Room::None => {
                tracing::debug!("executor does not read: stream reset");
                hub.reset(&stream);
                let reset = relay::Frame::reset(&*stream.id).encode();
                if !harness.deliver(reset, true).await {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

enum Room {
    Here(OwnedSemaphorePermit),
    /// Not within the time.
    None,
    /// The budget's socket has ended.
    Gone,
}

/// Takes the share of a frame from a budget, waiting at most `patience`.
async fn room(budget: &Arc<Semaphore>, frame: &Bytes, patience: Duration) -> Room {
    // A message is at most 262,144 bytes.
    let cost = (frame.len() + OVERHEAD) as u32;
    if let Ok(share) = budget.clone().try_acquire_many_owned(cost) {
        return Room::Here(share);
    }
    match timeout(patience, budget.clone().acquire_many_owned(cost)).await {
        Ok(Ok(share)) => Room::Here(share),
        Ok(Err(_)) => Room::Gone,
        Err(_) => Room::None,
    }
}

fn compact(frame: Bytes) -> Bytes {
    if frame.len() < COPY_BELOW {
        Bytes::copy_from_slice(&frame)
    } else {
        frame
    }
}
