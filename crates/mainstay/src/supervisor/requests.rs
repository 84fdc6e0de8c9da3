//! What handles and hosts ask of the supervisor, and how they are answered.

use mainstay_link::Link;
use mainstay_session::event::{Event, Mode};
use mainstay_session::ids::{ClaimId, WaiterId};
use mainstay_session::{Answer, ConnState};
use ractor::ActorRef;
use tokio::sync::{oneshot, watch};

use super::{Msg, State};
use crate::environment::{Readiness, Snapshot};
use crate::error::Error;
use crate::session::Session;

/// Who waits for an answer, and for which kind.
#[derive(Debug)]
pub(super) enum Port {
    Session(oneshot::Sender<Result<Session, Error>>),
    Ready(oneshot::Sender<Result<(), Error>>),
    Snapshot(oneshot::Sender<Snapshot>),
    Claim(oneshot::Sender<Result<ClaimId, Error>>),
    Socket(oneshot::Sender<Result<(), Error>>),
    ShutDown(oneshot::Sender<()>),
    /// The supervisor itself.
    Own,
}

type Reply<T> = oneshot::Sender<Result<T, Error>>;

impl State {
    pub(super) async fn acquire(
        &mut self,
        myself: &ActorRef<Msg>,
        mode: Mode,
        waiter: WaiterId,
        reply: Reply<Session>,
    ) {
        self.waiters.insert(waiter, Port::Session(reply));
        self.feed(myself, Event::Acquire { mode, waiter }).await;
    }

    pub(super) async fn await_ready(
        &mut self,
        myself: &ActorRef<Msg>,
        waiter: WaiterId,
        reply: Reply<()>,
    ) {
        self.waiters.insert(waiter, Port::Ready(reply));
        self.feed(myself, Event::AwaitReady { waiter }).await;
    }

    pub(super) async fn refresh(
        &mut self,
        myself: &ActorRef<Msg>,
        waiter: WaiterId,
        reply: Reply<Session>,
    ) {
        self.waiters.insert(waiter, Port::Session(reply));
        self.feed(myself, Event::Refresh { waiter }).await;
    }

    pub(super) async fn take_snapshot(
        &mut self,
        myself: &ActorRef<Msg>,
        waiter: WaiterId,
        reply: oneshot::Sender<Snapshot>,
    ) {
        self.waiters.insert(waiter, Port::Snapshot(reply));
        self.feed(myself, Event::Snapshot { waiter }).await;
    }

    /// Queued behind every report so far, so a fresh subscriber never starts with a stale value.
    pub(super) fn subscribe(&self, reply: oneshot::Sender<watch::Receiver<ConnState>>) {
        let _ = reply.send(self.conn.subscribe());
    }

    pub(super) async fn forget_waiter(&mut self, myself: &ActorRef<Msg>, waiter: WaiterId) {
        if self.waiters.remove(&waiter).is_some() {
            self.feed(myself, Event::ForgetWaiter(waiter)).await;
        }
    }

    pub(super) async fn claim_replacement(
        &mut self,
        myself: &ActorRef<Msg>,
        waiter: WaiterId,
        reply: Reply<ClaimId>,
    ) {
        self.waiters.insert(waiter, Port::Claim(reply));
        self.feed(myself, Event::ClaimReplacement { waiter }).await;
    }

    pub(super) async fn replace_socket(
        &mut self,
        myself: &ActorRef<Msg>,
        claim: ClaimId,
        socket: Link,
        waiter: WaiterId,
        reply: Reply<()>,
    ) {
        self.waiters.insert(waiter, Port::Socket(reply));
        let event = Event::ReplaceSocket {
            claim,
            socket: self.shelf.socket(socket),
            waiter,
        };
        self.feed(myself, event).await;
    }

    pub(super) async fn shut_down(
        &mut self,
        myself: &ActorRef<Msg>,
        waiter: WaiterId,
        reply: oneshot::Sender<()>,
    ) {
        self.waiters.insert(waiter, Port::ShutDown(reply));
        self.feed(myself, Event::Shutdown { waiter }).await;
        self.say_farewell(myself);
    }

    pub(super) fn reply(&mut self, waiter: WaiterId, answer: Answer) {
        let Some(port) = self.waiters.remove(&waiter) else {
            return;
        };
        // A caller that is gone has sent ForgetWaiter, or is about to: nobody misses the answer.
        match (port, answer) {
            (Port::Session(port), Answer::Session(generation) | Answer::Refreshed(generation)) => {
                let session = self
                    .sessions
                    .get(&generation)
                    .map(|entry| entry.session.clone());
                let _ = port.send(session.ok_or_else(|| Error::protocol("session forgotten")));
            }
            (Port::Session(port), Answer::Failed(cause)) => {
                let _ = port.send(Err(self.words(cause)));
            }
            (Port::Ready(port), Answer::Ready) => {
                let _ = port.send(Ok(()));
            }
            (Port::Ready(port), Answer::Failed(cause)) => {
                let _ = port.send(Err(self.words(cause)));
            }
            (Port::Snapshot(port), Answer::Snapshot(snapshot)) => {
                let _ = port.send(self.snapshot(snapshot));
            }
            (Port::Claim(port), Answer::Claim(claim)) => {
                let _ = port.send(Ok(claim));
            }
            (Port::Claim(port), Answer::Failed(cause)) => {
                let _ = port.send(Err(self.words(cause)));
            }
            (Port::Socket(port), Answer::SocketTaken) => {
                let _ = port.send(Ok(()));
            }
            (Port::Socket(port), Answer::Failed(cause)) => {
                let _ = port.send(Err(self.words(cause)));
            }
            (Port::ShutDown(port), Answer::ShutDown) => {
                self.ending.get_or_insert_default().push(port)
            }
            (Port::Own, Answer::Failed(cause)) => {
                tracing::warn!(error = %self.words(cause), "automatic refresh failed");
            }
            (Port::Own, _) => {}
            (port, answer) => tracing::error!(?port, ?answer, "answer of the wrong kind"),
        }
    }

    fn snapshot(&self, snapshot: mainstay_session::Snapshot) -> Snapshot {
        Snapshot {
            state: snapshot.conn,
            startup_finished: snapshot.startup_finished,
            registration: snapshot
                .registration
                .and_then(|id| self.shelf.registration_text(id).cloned()),
            session_id: snapshot
                .session
                .and_then(|(_, id)| self.shelf.session_text(id).cloned()),
            readiness: match snapshot.readiness {
                mainstay_session::Readiness::Ready => Readiness::Ready,
                mainstay_session::Readiness::Undecided => Readiness::Undecided,
                mainstay_session::Readiness::Failed(cause) => Readiness::Failed(self.words(cause)),
            },
        }
    }
}
