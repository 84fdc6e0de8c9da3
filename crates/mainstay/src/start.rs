//! Start: one process start, on one link, to its end (`session.md` 8.1 and 8.2). It goes on when the caller goes away.
//!
//! A [worker](crate::worker), spawned by the caller. If it crashes, its caller learns that the outcome is unknown.

use mainstay_session::event::Mode;
use mainstay_session::ids::Epoch;
use mainstay_wire::process::{
    Start as StartCall, StartAnswer, StartParams, Terminate, TerminateParams,
};
use tokio::sync::{mpsc, oneshot};

use crate::error::Error;
use crate::line::Line;
use crate::link::{Lane, LinkRef};
use crate::outlet::Key;
use crate::process_table::ToTable;
use crate::worker::Work;

/// What the caller gets. Dropping it without a receipt means that nobody wants the process.
#[derive(Debug)]
pub(crate) struct HandedOver {
    pub(crate) answer: StartAnswer,
    pub(crate) receipt: oneshot::Sender<()>,
}

#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) line: Line,
    pub(crate) link: LinkRef,
    pub(crate) params: StartParams,
    pub(crate) key: Key,
    pub(crate) in_progress: InProgress,
    pub(crate) table: mpsc::UnboundedSender<ToTable>,
    pub(crate) reply: oneshot::Sender<Result<HandedOver, Error>>,
}

/// Counts as a start in progress until dropped: a recovery waits for it (R14).
#[derive(Debug)]
pub(crate) struct InProgress {
    pub(crate) epoch: Epoch,
    pub(crate) table: mpsc::UnboundedSender<ToTable>,
}

impl Drop for InProgress {
    fn drop(&mut self) {
        let _ = self.table.send(ToTable::StartEnded(self.epoch));
    }
}

impl Work for Start {
    async fn run(self) {
        let Self {
            line,
            link,
            params,
            key,
            in_progress,
            table,
            reply,
        } = self;
        // A crash from here on must not leave the process unwatched.
        let abandoned = Abandoned {
            line: line.clone(),
            key: Some(key.clone()),
            table: table.clone(),
        };
        match line
            .call_on::<StartCall>(&link, Lane::Regular, &params)
            .await
        {
            Ok(answer) => {
                let _ = table.send(ToTable::Started(key));
                let (receipt, received) = oneshot::channel();
                let taken = reply.send(Ok(HandedOver { answer, receipt })).is_ok()
                    && received.await.is_ok();
                drop(in_progress);
                if taken {
                    abandoned.settled();
                } else {
                    abandoned.clean_up().await;
                }
            }
            // Whether it was started is unknown.
            Err(error) if error.is_transport_closed() => {
                let not_sent = error.delivery() == Some(crate::error::Delivery::NotSent);
                let _ = reply.send(Err(error));
                drop(in_progress);
                if not_sent {
                    abandoned.never_started();
                } else {
                    abandoned.clean_up().await;
                }
            }
            Err(error) => {
                // The entry goes first: the caller may use the id again at once.
                abandoned.never_started();
                let _ = reply.send(Err(error));
            }
        }
    }
}

/// A process that may run without anybody wanting it.
struct Abandoned {
    line: Line,
    key: Option<Key>,
    table: mpsc::UnboundedSender<ToTable>,
}

impl Abandoned {
    fn settled(mut self) {
        self.key = None;
    }

    fn never_started(mut self) {
        if let Some(key) = self.key.take() {
            let _ = self.table.send(ToTable::Forget(key));
        }
    }

    /// Terminates it, again and again while the transport closes under the call and the session lives; then the entry goes.
    async fn clean_up(mut self) {
        if let Some(key) = &self.key {
            terminate(&self.line, &key.process_id).await;
        }
        if let Some(key) = self.key.take() {
            let _ = self.table.send(ToTable::Forget(key));
        }
    }
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            let (line, table) = (self.line.clone(), self.table.clone());
            // Dropped by a crash: the clean-up is all that is left to do.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(async move {
                    terminate(&line, &key.process_id).await;
                    let _ = table.send(ToTable::Forget(key));
                });
            }
        }
    }
}

async fn terminate(line: &Line, process_id: &str) {
    let params = TerminateParams {
        process_id: process_id.to_owned(),
        grace_ms: None,
    };
    loop {
        match line.clean_up::<Terminate>(Mode::Wait, &params).await {
            Err(error) if error.is_transport_closed() && line.failure().is_none() => {}
            Ok(_) | Err(_) => return,
        }
    }
}
