//! What handles and hosts ask of the supervisor, and how they are answered.

use mainstay_link::Link;
use mainstay_session::event::{self, Event, Mode};
use mainstay_session::ids::{ClaimId, Gen, WaiterId};
use mainstay_session::{Answer, ConnState};
use ractor::{ActorRef, RpcReplyPort};
use tokio::sync::{oneshot, watch};

use super::{Msg, State};
use crate::environment::{Provisioning, Readiness, Snapshot};
use crate::error::{Error, ErrorKind};
use crate::session::Session;

/// What a supervisor does for its environment's handles, and for actors of the host, which send it through
/// [`Environment::supervisor`](crate::Environment::supervisor). Every answer is sent once, to a port that may be gone by then.
#[derive(Debug)]
pub enum SupervisorRequest {
    /// As [`Environment::session`](crate::Environment::session), or as that of its fail-fast view.
    Acquire(Mode, RpcReplyPort<Result<Session, Error>>),
    /// As [`Environment::wait_until_ready`](crate::Environment::wait_until_ready).
    AwaitReady(RpcReplyPort<Result<(), Error>>),
    /// As [`Environment::start_connecting`](crate::Environment::start_connecting).
    StartConnecting,
    /// As [`Environment::refresh`](crate::Environment::refresh); answers with the session that is right now.
    Refresh(RpcReplyPort<Result<Session, Error>>),
    /// As [`Environment::snapshot`](crate::Environment::snapshot).
    Snapshot(RpcReplyPort<Snapshot>),
    /// As [`Environment::watch`](crate::Environment::watch).
    Subscribe(RpcReplyPort<watch::Receiver<ConnState>>),
    /// As [`Environment::nudge`](crate::Environment::nudge).
    Nudge,
    /// As [`Environment::shutdown`](crate::Environment::shutdown).
    Shutdown(RpcReplyPort<()>),
}

impl From<SupervisorRequest> for Msg {
    fn from(request: SupervisorRequest) -> Self {
        Self::Host(request)
    }
}

/// A message that could not be sent comes back as it was.
impl TryFrom<Msg> for SupervisorRequest {
    type Error = ();

    fn try_from(message: Msg) -> Result<Self, ()> {
        match message {
            Msg::Host(request) => Ok(request),
            _ => Err(()),
        }
    }
}

/// Who waits for an answer, and for which kind.
#[derive(Debug)]
pub(super) enum Port {
    Session(Mode, RpcReplyPort<Result<Session, Error>>),
    Ready(RpcReplyPort<Result<(), Error>>),
    Snapshot(RpcReplyPort<Snapshot>),
    Claim(oneshot::Sender<Result<ClaimId, Error>>),
    Socket(oneshot::Sender<Result<(), Error>>),
    ShutDown(RpcReplyPort<()>),
    /// The supervisor itself.
    Own,
}

type Reply<T> = oneshot::Sender<Result<T, Error>>;

impl State {
    pub(super) async fn ask(
        &mut self,
        myself: &ActorRef<Msg>,
        waiter: WaiterId,
        request: SupervisorRequest,
    ) {
        let (port, event) = match request {
            SupervisorRequest::Acquire(mode, reply) => {
                (Port::Session(mode, reply), Event::Acquire { mode, waiter })
            }
            SupervisorRequest::AwaitReady(reply) => {
                (Port::Ready(reply), Event::AwaitReady { waiter })
            }
            SupervisorRequest::StartConnecting => {
                return self.feed(myself, Event::StartConnecting).await;
            }
            SupervisorRequest::Refresh(reply) => {
                (Port::Session(Mode::Wait, reply), Event::Refresh { waiter })
            }
            SupervisorRequest::Snapshot(reply) => {
                (Port::Snapshot(reply), Event::Snapshot { waiter })
            }
            SupervisorRequest::Subscribe(reply) => {
                // Queued behind every report so far, so a fresh subscriber never starts with a stale value.
                let _ = reply.send(self.conn.subscribe());
                return;
            }
            SupervisorRequest::Nudge => return self.feed(myself, Event::Nudge).await,
            SupervisorRequest::Shutdown(reply) => {
                self.waiters.insert(waiter, Port::ShutDown(reply));
                self.feed(myself, Event::Shutdown { waiter }).await;
                return self.say_farewell(myself);
            }
        };
        self.waiters.insert(waiter, port);
        self.feed(myself, event).await;
    }

    /// A number for a request that no handle numbers: downwards, those of handles go upwards.
    pub(super) fn own_waiter(&mut self) -> WaiterId {
        let waiter = WaiterId(self.own_waiters);
        self.own_waiters -= 1;
        waiter
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

    pub(super) async fn provisioning_changed(&mut self, myself: &ActorRef<Msg>, now: Provisioning) {
        let now = match now {
            Provisioning::Pending => event::Provisioning::Pending,
            Provisioning::Ready => event::Provisioning::Ready,
            Provisioning::Failed(text) => {
                let error = ErrorKind::ProvisioningFailed { text };
                event::Provisioning::Failed(self.shelf.failure(error.into()))
            }
        };
        self.feed(myself, Event::ProvisioningChanged(now)).await;
    }

    pub(super) fn reply(&mut self, waiter: WaiterId, answer: Answer) {
        let Some(port) = self.waiters.remove(&waiter) else {
            return;
        };
        // A caller that is gone has sent ForgetWaiter, or is about to: nobody misses the answer.
        match (port, answer) {
            (
                Port::Session(mode, port),
                Answer::Session(generation) | Answer::Refreshed(generation),
            ) => {
                let _ = port.send(self.session(generation, mode));
            }
            (Port::Session(_, port), Answer::Failed(cause)) => {
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

    fn session(&self, generation: Gen, mode: Mode) -> Result<Session, Error> {
        let entry = self.sessions.get(&generation);
        let session = entry.map(|entry| entry.session.with_mode(mode));
        let session = session.ok_or_else(|| Error::protocol("session forgotten"))?;
        // Its link may have closed without its Reader having said so yet.
        if mode == Mode::FailFast {
            session.line().link_now()?;
        }
        Ok(session)
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
