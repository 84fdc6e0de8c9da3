//! Replay: after a resume, catches up with every process on a link that nobody else can use yet (`session.md` 8.4),
//! all of them pipelined (W9).
//!
//! A [worker](crate::worker) of the supervisor's; ends with one `ReplayDone`, an error only if the transport closed or
//! said nothing for too long.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use mainstay_session::ids::RecoveryId;
use mainstay_wire::Call;
use mainstay_wire::process::{Read, ReadAnswer, ReadParams, Terminate, TerminateParams};
use ractor::ActorRef;
use tokio::sync::{mpsc, oneshot};

use crate::call;
use crate::error::{Delivery, Error};
use crate::link::{Lane, LinkRef};
use crate::marks::Gate;
use crate::outlet::Key;
use crate::process_table::{Paged, ToReplay, ToTable};
use crate::supervisor;
use crate::worker::Work;

/// Processes read at once: each answer may hold a whole log.
const PIPELINE: usize = 16;
/// Bytes of one page. A link that is cut again and again must get at least one page through each time.
const PAGE: u64 = 512 << 10;

#[derive(Debug)]
pub(crate) struct Replay {
    pub(crate) recovery: RecoveryId,
    pub(crate) link: LinkRef,
    pub(crate) gate: Gate,
    pub(crate) table: mpsc::UnboundedSender<ToTable>,
    /// Whether the peer keeps everything that is not acknowledged: then its logs are large, and read in pages.
    pub(crate) paged: bool,
    /// How long one answer may take.
    pub(crate) limit: Duration,
    pub(crate) supervisor: ActorRef<supervisor::Msg>,
}

impl Work for Replay {
    async fn run(self) {
        let report = supervisor::Msg::ReplayDone {
            recovery: self.recovery,
            epoch: self.link.epoch(),
            result: self.all().await,
        };
        let _ = self.supervisor.send_message(report);
    }
}

impl Replay {
    async fn all(&self) -> Result<(), Error> {
        let (reply, processes) = oneshot::channel();
        if self.table.send(ToTable::TakeReplay { reply }).is_err() {
            return Ok(());
        }
        let Ok(processes) = processes.await else {
            return Ok(());
        };
        let mut reads = stream::iter(processes)
            .map(|process| self.one(process))
            .buffer_unordered(PIPELINE);
        while let Some(result) = reads.next().await {
            result?;
        }
        // The link may have closed after the last answer: then the resume has failed all the same.
        if self.link.is_open() {
            Ok(())
        } else {
            Err(call::closed(Delivery::NotSent))
        }
    }

    /// Catches up with one process. Its own failure ends the process, not the replay.
    async fn one(&self, process: ToReplay) -> Result<(), Error> {
        let ToReplay { key, last } = process;
        let failure = match self.catch_up(&key, last).await {
            Ok(()) => return Ok(()),
            Err(error) if error.is_transport_closed() => return Err(error),
            Err(error) => Error::protocol(format!(
                "failed to recover process {}: {error}",
                key.process_id
            )),
        };
        let terminate = TerminateParams {
            process_id: key.process_id.to_string(),
            grace_ms: None,
        };
        match self.call::<Terminate>(Lane::Cleanup, &terminate).await {
            Err(error) if error.is_transport_closed() => return Err(error),
            // Whatever else it says: the process is given up.
            Ok(_) | Err(_) => {}
        }
        let _ = self.table.send(ToTable::Lost {
            key,
            error: failure,
        });
        Ok(())
    }

    async fn catch_up(&self, key: &Key, last: u64) -> Result<(), Error> {
        let mut last = last;
        let mut more = self.paged;
        while more {
            let answer = self.read(key, last, Some(PAGE)).await?;
            let (reply, paged) = oneshot::channel();
            let _ = self.table.send(ToTable::Page {
                key: key.clone(),
                answer: Box::new(answer),
                reply,
            });
            match paged.await {
                Ok(Paged::More(reached)) => last = reached,
                Ok(Paged::Rest(reached)) => {
                    last = reached;
                    more = false;
                }
                // Gone meanwhile: nothing to catch up with.
                Err(_) => return Ok(()),
            }
        }
        let answer = self.read(key, last, None).await?;
        let (reply, replayed) = oneshot::channel();
        let _ = self.table.send(ToTable::Replayed {
            key: key.clone(),
            answer: Box::new(answer),
            reply,
        });
        replayed.await.unwrap_or(Ok(()))
    }

    async fn read(
        &self,
        key: &Key,
        last: u64,
        max_bytes: Option<u64>,
    ) -> Result<ReadAnswer, Error> {
        let params = ReadParams {
            process_id: key.process_id.to_string(),
            after_seq: Some(last),
            max_bytes,
            wait_ms: Some(0),
        };
        self.call::<Read>(Lane::Regular, &params).await
    }

    /// A call whose answer is due at once: a link without one is as good as closed.
    async fn call<C: Call>(&self, lane: Lane, params: &C::Params) -> Result<C::Answer, Error> {
        let calling = call::call::<C>(&self.link, &self.gate, lane, params);
        match tokio::time::timeout(self.limit, calling).await {
            Ok(result) => result,
            Err(_) => {
                let text = format!("no answer to {} within {:?}", C::METHOD, self.limit);
                Err(Error::disconnected(text, Delivery::Unknown))
            }
        }
    }
}
