//! Feed: carries one process's standard input to the executor, each byte once and in order, over any number of links.
//!
//! A [worker](crate::worker), spawned by the caller of a start that asked for standard input; ends when the input is
//! closed or the process takes no more.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use mainstay_session::event::Mode;
use mainstay_wire::base64::Base64;
use mainstay_wire::extension::{CloseStdin, CloseStdinParams};
use mainstay_wire::process::{Write, WriteParams, WriteStatus};
use tokio::sync::{mpsc, watch};

use crate::call;
use crate::error::Error;
use crate::line::Line;
use crate::link::{Lane, LinkRef};
use crate::stdin::CHUNK;
use crate::worker::Work;

/// Writes under way towards a peer that keeps their order; one towards any other (`session.md` 8.5).
const PIPELINE: usize = 16;

/// How far the input is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fed {
    /// Bytes the executor has accepted.
    pub(crate) accepted: u64,
    /// It is closed at the executor.
    pub(crate) closed: bool,
    /// Nothing more will be accepted, because.
    pub(crate) failed: Option<Error>,
}

#[derive(Debug)]
pub(crate) struct Feed {
    pub(crate) line: Line,
    pub(crate) process_id: String,
    pub(crate) chunks: Chunks,
    pub(crate) fed: watch::Sender<Fed>,
    pub(crate) ordered: bool,
    pub(crate) can_close: bool,
}

/// A write that the executor has not accepted yet.
#[derive(Debug)]
struct Unaccepted {
    number: u64,
    bytes: Bytes,
}

/// Why a link is left.
enum Left {
    /// It closed: what is unaccepted goes over the next one, with the same ids.
    Closed,
    /// Everything was written and accepted.
    Done,
    Failed(Error),
}

impl Work for Feed {
    async fn run(mut self) {
        let mut unaccepted = VecDeque::new();
        let mut numbered = 0;
        let failure = loop {
            let link = match self.line.link(Mode::Wait).await {
                Ok(link) => link,
                Err(error) => break Some(error),
            };
            match self.on_link(&link, &mut unaccepted, &mut numbered).await {
                Left::Closed => {}
                Left::Done => break self.close().await,
                Left::Failed(error) => break Some(error),
            }
        };
        self.fed.send_modify(|fed| match failure {
            Some(error) => fed.failed = Some(error),
            None => fed.closed = true,
        });
    }
}

impl Feed {
    /// Writes over one link: first what the last one left unaccepted, in its order, then what comes.
    async fn on_link(
        &mut self,
        link: &LinkRef,
        unaccepted: &mut VecDeque<Unaccepted>,
        numbered: &mut u64,
    ) -> Left {
        let depth = if self.ordered { PIPELINE } else { 1 };
        let mut answers = FuturesUnordered::new();
        let mut sent = 0;
        let mut ended = false;
        loop {
            // Also what was accepted out of turn stays in the queue until everything before it is: then it goes as one.
            if sent < unaccepted.len() && answers.len() < depth {
                let write = &unaccepted[sent];
                let params = WriteParams {
                    process_id: self.process_id.clone(),
                    chunk: Base64(write.bytes.clone()),
                    write_id: write.number.to_string(),
                };
                match call::begin::<Write>(link, self.line.gate(), Lane::Regular, &params).await {
                    Ok(begun) => {
                        let number = write.number;
                        answers.push(async move { (number, begun.answer().await) });
                        sent += 1;
                    }
                    Err(error) => return self.leave(error),
                }
                continue;
            }
            if ended && unaccepted.is_empty() {
                return Left::Done;
            }
            tokio::select! {
                biased;
                Some((number, answer)) = answers.next() => match answer.map(|answer| answer.status) {
                    Ok(WriteStatus::Accepted) => {
                        let Some(at) = unaccepted.iter().position(|write| write.number == number) else { continue };
                        if let Some(write) = unaccepted.remove(at) {
                            sent -= 1;
                            self.fed.send_modify(|fed| fed.accepted += write.bytes.len() as u64);
                        }
                    }
                    Ok(WriteStatus::UnknownProcess) => return Left::Failed(Error::protocol("the process is gone")),
                    Ok(WriteStatus::StdinClosed) => return Left::Failed(Error::protocol("standard input is closed")),
                    Ok(WriteStatus::Starting) => return Left::Failed(Error::protocol("the process is not started")),
                    Err(error) => return self.leave(error),
                },
                chunk = self.chunks.next(), if !ended && answers.len() < depth => match chunk {
                    Some(chunk) => {
                        *numbered += 1;
                        unaccepted.push_back(Unaccepted { number: *numbered, bytes: self.chunks.gather(chunk) });
                    }
                    None => ended = true,
                },
            }
        }
    }

    fn leave(&self, error: Error) -> Left {
        if error.is_transport_closed() && self.line.failure().is_none() {
            Left::Closed
        } else {
            Left::Failed(error)
        }
    }

    /// Closes it at the executor, if it can; idempotent, so it may be repeated.
    async fn close(&self) -> Option<Error> {
        if !self.can_close {
            return None;
        }
        let params = CloseStdinParams {
            process_id: self.process_id.clone(),
        };
        self.line
            .insist::<CloseStdin>(Mode::Wait, &params)
            .await
            .err()
    }
}

/// What was written and is not on its way yet.
#[derive(Debug)]
pub(crate) struct Chunks {
    receiver: mpsc::Receiver<Bytes>,
    /// Did not fit behind the one before.
    carried: Option<Bytes>,
}

impl Chunks {
    pub(crate) fn new(receiver: mpsc::Receiver<Bytes>) -> Self {
        Self {
            receiver,
            carried: None,
        }
    }

    async fn next(&mut self) -> Option<Bytes> {
        match self.carried.take() {
            Some(chunk) => Some(chunk),
            None => self.receiver.recv().await,
        }
    }

    /// Joins what is waiting already to one write of at most 64 KiB.
    fn gather(&mut self, first: Bytes) -> Bytes {
        let mut joined: Option<BytesMut> = None;
        let mut len = first.len();
        while let Ok(next) = self.receiver.try_recv() {
            if len + next.len() > CHUNK {
                self.carried = Some(next);
                break;
            }
            len += next.len();
            joined
                .get_or_insert_with(|| BytesMut::from(&first[..]))
                .extend_from_slice(&next);
        }
        joined.map_or(first, BytesMut::freeze)
    }
}
