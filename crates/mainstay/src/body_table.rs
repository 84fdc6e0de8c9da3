//! BodyTable: one per session, like the process table. Owns the routes of HTTP bodies, the `http-N` counter and the byte
//! budget (`session.md` 11).
//!
//! A [worker](crate::worker) of the supervisor's, spawned when it installs a session: a loop over its control queue and
//! the bounded queue of the links' deltas, until nobody holds the session.
//!
//! | control | from | meaning |
//! |---|---|---|
//! | `Open` | a streaming request | a new route, before the request is sent |
//! | `Close` | its drop | nobody reads |
//! | `Hold` | tests | stand still |
//! | `FailAll` | supervisor | the link or the session ended |

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use mainstay_session::Config;
use mainstay_session::event::Mode;
use mainstay_session::ids::Epoch;
use mainstay_wire::extension::{CancelHttp, CancelHttpParams};
use mainstay_wire::http::BodyDeltaParams;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::error::Error;
use crate::line::Line;
use crate::ports::FromBody;
use crate::worker::Work;

/// See the module's second table.
#[derive(Debug)]
pub(crate) enum ToBodies {
    Open {
        epoch: Epoch,
        reply: oneshot::Sender<Opened>,
    },
    Close {
        request_id: String,
        /// The executor is still sending: worth a cancellation, where it understands one.
        cancel: bool,
    },
    FailAll(Error),
    /// Waits for the test that sent it.
    Hold(oneshot::Receiver<()>),
}

/// A new route.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) request_id: String,
    pub(crate) parts: mpsc::UnboundedReceiver<Part>,
}

/// What a reader gets. The channel is unbounded, its content is not: each part holds its share of the budget.
#[derive(Debug)]
pub(crate) enum Part {
    Data {
        bytes: Bytes,
        _room: Vec<OwnedSemaphorePermit>,
    },
    End,
    /// Terminal errors have no sequence number: they come after what is queued, whatever that is (W24).
    Failed(Error),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct BodyTable {
    control: mpsc::UnboundedReceiver<ToBodies>,
    bodies: mpsc::Receiver<FromBody>,
    desk: Desk,
}

impl BodyTable {
    /// A table without routes, under the limits of `config`.
    pub(crate) fn new(
        control: mpsc::UnboundedReceiver<ToBodies>,
        bodies: mpsc::Receiver<FromBody>,
        line: Line,
        can_cancel: bool,
        config: &Config,
    ) -> Self {
        Self {
            control,
            bodies,
            desk: Desk {
                line,
                routes: HashMap::new(),
                numbered: 0,
                budget: Arc::new(Semaphore::new(config.body_bytes)),
                frames: config.body_frames,
                can_cancel,
            },
        }
    }
}

impl Work for BodyTable {
    async fn run(mut self) {
        loop {
            tokio::select! {
                biased;
                message = self.control.recv() => match message {
                    Some(ToBodies::Open { epoch, reply }) => self.desk.open(epoch, reply),
                    Some(ToBodies::Close { request_id, cancel }) => self.desk.close(request_id, cancel),
                    Some(ToBodies::FailAll(error)) => {
                        // What arrived before the end is delivered before the error (W10).
                        while let Ok(delta) = self.bodies.try_recv() {
                            self.desk.hear(delta);
                        }
                        self.desk.fail_all(&error);
                    }
                    Some(ToBodies::Hold(held)) => {
                        let _ = held.await;
                    }
                    // Nobody holds the session any more.
                    None => return,
                },
                Some(delta) = self.bodies.recv() => self.desk.hear(delta),
            }
        }
    }
}

/// What the table knows.
#[derive(Debug)]
struct Desk {
    line: Line,
    routes: HashMap<String, Route>,
    numbered: u64,
    /// Bytes of all streams that nobody has read yet.
    budget: Arc<Semaphore>,
    /// Frames of one stream that nobody has read yet; `None`: only bytes are bounded (W11).
    frames: Option<usize>,
    /// The executor understands cancellation.
    can_cancel: bool,
}

#[derive(Debug)]
struct Route {
    /// The link that carries it; a body cannot change links.
    epoch: Epoch,
    /// The next delta's.
    seq: u64,
    parts: mpsc::UnboundedSender<Part>,
    frames: Option<Arc<Semaphore>>,
}

impl Desk {
    fn open(&mut self, epoch: Epoch, reply: oneshot::Sender<Opened>) {
        self.numbered += 1;
        let request_id = format!("http-{}", self.numbered);
        let (parts, receiver) = mpsc::unbounded_channel();
        let opened = Opened {
            request_id: request_id.clone(),
            parts: receiver,
        };
        if reply.send(opened).is_ok() {
            let frames = self.frames.map(|frames| Arc::new(Semaphore::new(frames)));
            let route = Route {
                epoch,
                seq: 1,
                parts,
                frames,
            };
            self.routes.insert(request_id, route);
        }
    }

    fn close(&mut self, request_id: String, cancel: bool) {
        if self.routes.remove(&request_id).is_some() && cancel && self.can_cancel {
            let line = self.line.clone();
            // Best effort, and nobody waits for it.
            tokio::spawn(async move {
                let params = CancelHttpParams { request_id };
                let _ = line.call::<CancelHttp>(Mode::FailFast, &params).await;
            });
        }
    }

    fn fail_all(&mut self, error: &Error) {
        for (_, route) in self.routes.drain() {
            let _ = route.parts.send(Part::Failed(error.clone()));
        }
    }

    /// Late deltas of unknown streams are ignored.
    fn hear(&mut self, from: FromBody) {
        let FromBody { epoch, delta } = from;
        let Some(route) = self
            .routes
            .get_mut(&delta.request_id)
            .filter(|route| route.epoch == epoch)
        else {
            return;
        };
        let request_id = delta.request_id.clone();
        let over = match route.part(delta, &self.budget) {
            Some(parts) => parts.into_iter().any(|part| {
                let last = !matches!(part, Part::Data { .. });
                route.parts.send(part).is_err() || last
            }),
            None => false,
        };
        if over {
            self.routes.remove(&request_id);
        }
    }
}

impl Route {
    /// What a delta means for the reader.
    fn part(&mut self, delta: BodyDeltaParams, budget: &Arc<Semaphore>) -> Option<Vec<Part>> {
        let stream = &delta.request_id;
        if delta.seq != self.seq {
            let text = format!(
                "HTTP body stream {stream} sent {} instead of {}",
                delta.seq, self.seq
            );
            return Some(vec![Part::Failed(Error::protocol(text))]);
        }
        self.seq += 1;
        if let Some(error) = delta.error {
            let text = format!("HTTP body stream {stream} failed: {error}");
            return Some(vec![Part::Failed(Error::protocol(text))]);
        }
        let mut parts = Vec::new();
        let bytes = delta.delta_base64.0;
        if !bytes.is_empty() {
            let Some(room) = self.room(bytes.len(), budget) else {
                let text = format!("HTTP body stream {stream} overflowed: its reader is too slow");
                return Some(vec![Part::Failed(Error::protocol(text))]);
            };
            parts.push(Part::Data { bytes, _room: room });
        }
        if delta.done {
            parts.push(Part::End);
        }
        (!parts.is_empty()).then_some(parts)
    }

    fn room(&self, bytes: usize, budget: &Arc<Semaphore>) -> Option<Vec<OwnedSemaphorePermit>> {
        let bytes = u32::try_from(bytes).ok()?;
        let mut room = vec![budget.clone().try_acquire_many_owned(bytes).ok()?];
        if let Some(frames) = &self.frames {
            room.push(frames.clone().try_acquire_owned().ok()?);
        }
        Some(room)
    }
}
