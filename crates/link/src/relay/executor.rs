//! The executor's end: one socket, up to 128 streams, a link for each (noise-relay.md 6).

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use mainstay_noise::PublicKey;
use mainstay_wire::relay::Frame as RelayFrame;
use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, timeout};

use super::examine::{Claim, Outcome, Station, Verdict, examine};
use super::stream::Instance;
use super::table::{Table, Wanted};
use super::writer::{Outbound, write};
use crate::{Close, Frame, Link, LinkError, RawSocket, RawSource};

/// How long a peer has to answer our close frame.
const LINGER: Duration = Duration::from_secs(1);

/// A stream whose harness was validated.
#[derive(Debug)]
pub struct Accepted {
    /// The link to it. Dropping its sink resets the stream.
    pub link: Link,
    /// Who it is.
    pub harness_key: PublicKey,
    /// The stream's id; unique only while it lives.
    pub stream_id: String,
}

/// Serves an open rendezvous socket until it ends, or until `closing` says to end it with that close frame; returns
/// the peer's close frame, if there was one. Dropping the future ends everything at once.
///
/// Every stream that `validate` finds valid goes to `accepted`, with room for at least one; a full or closed channel
/// resets the stream. `validate` is called in a task of its own, at most 32 at once, and has 10 s. When the socket
/// ends, so do all its links.
///
/// # Errors
/// The socket's failure. Nothing that a harness sends is one.
pub async fn executor<V, F>(
    socket: RawSocket,
    station: Station,
    validate: V,
    accepted: mpsc::Sender<Accepted>,
    closing: impl Future<Output = Close>,
) -> Result<Option<Close>, LinkError>
where
    V: Fn(Claim) -> F + Send + Sync + 'static,
    F: Future<Output = Verdict> + Send + 'static,
{
    let RawSocket { sink, source } = socket;
    let (outbound, queue) = mpsc::unbounded_channel();
    let (gone, mut leavers) = mpsc::unbounded_channel();
    let write_within = sink.limits().write_within;
    let mut writer = JoinSet::new();
    writer.spawn(write(sink, queue));
    let mut mux = Mux {
        table: Table::new(outbound.clone(), gone, accepted, write_within),
        tasks: JoinSet::new(),
        station: Arc::new(station),
        validate: Arc::new(validate),
        source,
    };
    tokio::pin!(closing);
    loop {
        tokio::select! {
            received = mux.source.recv() => match received? {
                Some(frame) => mux.received(frame).await,
                None => return Ok(mux.source.closed().cloned()),
            },
            Some(done) = mux.tasks.join_next_with_id() => mux.examined(done),
            Some(leaver) = leavers.recv() => mux.table.gone(leaver),
            Some(end) = writer.join_next() => return match end {
                Ok(Err(error)) => Err(error),
                Ok(Ok(())) | Err(_) => Err(LinkError::Closed),
            },
            close = &mut closing => {
                // The writer's queue is in order: what the streams sent before leaves before.
                let _ = outbound.send(Outbound::Close(close));
                let _ = timeout(LINGER, drain(&mut mux.source)).await;
                return Ok(mux.source.closed().cloned());
            }
        }
    }
}

async fn drain(source: &mut RawSource) {
    while let Ok(Some(_)) = source.recv().await {}
}

struct Mux<V> {
    table: Table,
    tasks: JoinSet<Examined>,
    station: Arc<Station>,
    validate: Arc<V>,
    source: RawSource,
}

struct Examined {
    stream_id: String,
    instance: Instance,
    outcome: Outcome,
}

impl<V, F> Mux<V>
where
    V: Fn(Claim) -> F + Send + Sync + 'static,
    F: Future<Output = Verdict> + Send + 'static,
{
    /// Text and invalid frames are dropped in silence (noise-relay.md 4.2).
    async fn received(&mut self, frame: Frame) {
        let Frame::Binary(bytes) = frame else { return };
        let Ok(frame) = RelayFrame::decode(bytes) else {
            return;
        };
        match self.table.frame(frame, Instant::now()) {
            Wanted::Nothing => {}
            // Many short messages arrive in one read of the socket; without this their reader would have no chance.
            Wanted::Turn => tokio::task::yield_now().await,
            Wanted::Examine {
                stream_id,
                instance,
                message_1,
            } => {
                let station = Arc::clone(&self.station);
                let validate = Arc::clone(&self.validate);
                let id = stream_id.clone();
                let task = self.tasks.spawn(async move {
                    let outcome = examine(station, id.clone(), message_1, validate).await;
                    Examined {
                        stream_id: id,
                        instance,
                        outcome,
                    }
                });
                self.table.pending(stream_id, instance, task);
            }
        }
    }

    fn examined(&mut self, done: Result<(Id, Examined), JoinError>) {
        let now = Instant::now();
        match done {
            Ok((_, done)) => {
                self.table
                    .examined(done.stream_id, done.instance, done.outcome, now);
            }
            // Aborted ones were dropped from the table before; a panic of the validator is a failed validation.
            Err(error) => self.table.panicked(error.id(), now),
        }
    }
}
