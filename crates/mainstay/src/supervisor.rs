//! Supervisor: one per environment, the only one that moves its session. A thin shell around
//! [`Machine`]: every handler turns its message into an event and applies the effects that come back. It never awaits
//! the network, a timer or another actor; the one await is `spawn_linked`, whose `pre_start` waits for nothing.
//!
//! | message | from |
//! |---|---|
//! | `Ask`, `ForgetWaiter` | handles: a [`SupervisorRequest`], and that nobody waits for its answer any more |
//! | `Host` | actors of the host: a [`SupervisorRequest`] |
//! | `ClaimReplacement`, `ReplaceSocket`, `AbandonClaim` | the host, for accepted sockets |
//! | `PolicyPublished`, `CredentialsChanged`, `ProvisioningChanged` | handles |
//! | `LookupDone` | Lookup |
//! | `LinkReady`, `ConnectFailed` | Handshake |
//! | `LinkDown`, `LinkFault` | Reader, timed calls |
//! | `ReplayDone` | Replay |
//! | `StartsDrained` | ProcessTable |
//! | `ProbeDone` | Probe |
//! | `Due` | timers |
//! | `Announced` | Announcements |
//! | `Test`, `Kill` | tests |
//! | `FarewellOver` | itself |
//! | `Gone` | itself: supervision events, queued behind what the child had sent (`session.md` 15.7) |

mod children;
mod connecting;
mod effects;
mod entries;
mod farewell;
mod installing;
mod operations;
mod reports;
mod requests;
mod shelf;
mod timers;
mod words;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mainstay_link::Link;
use mainstay_link::relay::Bundle;
use mainstay_session::event::{Event, Fault, How, Stage};
use mainstay_session::ids::{
    Child, ClaimId, Epoch, Gen, LookupTag, Op, RecoveryId, RefreshId, Timer, WaiterId,
};
use mainstay_session::{ConnState, Machine};
use ractor::{
    Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent,
};
use tokio::sync::{oneshot, watch};

use crate::environment::Provisioning;
use crate::error::Error;
use crate::handshake::Ready;
use crate::outbound::OutboundPolicy;
use crate::session::Session;
use crate::setup::Setup;
use entries::{LinkEntry, SessionEntry, Sessionless};
use operations::{Achieved, Operations};
use requests::Port;
pub use requests::SupervisorRequest;
use shelf::Shelf;

/// The reason ractor gives for an actor that was killed.
const KILLED: &str = "killed";

/// See the module's table.
#[derive(Debug)]
pub(crate) enum Msg {
    /// A handle's; it takes it back under this number when its caller goes away.
    Ask {
        waiter: WaiterId,
        request: SupervisorRequest,
    },
    /// A host's own actor's.
    Host(SupervisorRequest),
    ForgetWaiter(WaiterId),
    ClaimReplacement {
        waiter: WaiterId,
        reply: oneshot::Sender<Result<ClaimId, Error>>,
    },
    ReplaceSocket {
        claim: ClaimId,
        socket: Box<Link>,
        waiter: WaiterId,
        reply: oneshot::Sender<Result<(), Error>>,
    },
    AbandonClaim(ClaimId),
    PolicyPublished,
    CredentialsChanged,
    ProvisioningChanged(Provisioning),
    LookupDone {
        lookup: LookupTag,
        result: Result<Box<Bundle>, Error>,
    },
    LinkReady {
        op: Op,
        epoch: Epoch,
        ready: Box<Ready>,
    },
    ConnectFailed {
        op: Op,
        epoch: Epoch,
        stage: Stage,
        error: Error,
    },
    LinkDown {
        epoch: Epoch,
        error: Error,
        restart: Option<Duration>,
    },
    LinkFault {
        epoch: Epoch,
        fault: Fault,
        error: Error,
    },
    ReplayDone {
        recovery: RecoveryId,
        epoch: Epoch,
        result: Result<(), Error>,
    },
    StartsDrained(RecoveryId),
    ProbeDone {
        refresh: RefreshId,
        epoch: Epoch,
        result: Result<(), Error>,
    },
    Due(Timer),
    Gone {
        actor: ActorId,
        how: How,
    },
    Announced {
        registration: String,
    },
    FarewellOver,
    /// Late events of an earlier time, which only tests can make.
    Test(Event),
    /// A crash, which only tests can make.
    Kill(Child),
}

#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) setup: Arc<Setup>,
    /// The first socket, if the host supplies them.
    pub(crate) first: Option<Box<Link>>,
    /// Written here and read by handles: the current session and the connection state.
    pub(crate) current: watch::Sender<Option<Session>>,
    pub(crate) conn: watch::Sender<ConnState>,
}

#[derive(Debug)]
pub(crate) struct State {
    machine: Machine,
    setup: Arc<Setup>,
    shelf: Shelf,
    waiters: HashMap<WaiterId, Port>,
    links: HashMap<Epoch, LinkEntry>,
    sessions: HashMap<Gen, SessionEntry>,
    /// Event queues of links that have no session yet.
    sessionless: HashMap<Epoch, Sessionless>,
    children: HashMap<Child, ActorCell>,
    timers: HashMap<Timer, timers::Armed>,
    operations: Operations,
    /// The host's first socket, until it is used.
    first: Option<Box<Link>>,
    current: watch::Sender<Option<Session>>,
    conn: watch::Sender<ConnState>,
    /// Set once shut down: who wants to know when the links have said goodbye.
    ending: Option<Vec<RpcReplyPort<()>>>,
    /// The registration of the installed session, for Announcements.
    registration: watch::Sender<Option<String>>,
    announcements: Option<ActorCell>,
    /// Requests of the supervisor itself are numbered downwards, those of handles upwards.
    own_waiters: u64,
    /// Turns publications of the outbound policy into messages.
    _publications: Option<Following>,
}

/// Ends with the supervisor.
#[derive(Debug)]
struct Following(tokio::task::AbortHandle);

impl Drop for Following {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn follow(policy: &OutboundPolicy, supervisor: ActorRef<Msg>) -> Following {
    let mut published = policy.subscribe();
    let task = tokio::spawn(async move {
        while published.changed().await.is_ok() {
            let _ = supervisor.send_message(Msg::PolicyPublished);
        }
    });
    Following(task.abort_handle())
}

#[derive(Debug)]
pub(crate) struct Supervisor;

impl Actor for Supervisor {
    type Msg = Msg;
    type State = State;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        myself: ActorRef<Msg>,
        arguments: Arguments,
    ) -> Result<State, ActorProcessingErr> {
        let Arguments {
            setup,
            first,
            current,
            conn,
        } = arguments;
        let publications = setup.policy.as_ref().map(|policy| follow(policy, myself));
        Ok(State {
            machine: Machine::new(setup.rules()),
            setup,
            shelf: Shelf::default(),
            waiters: HashMap::new(),
            links: HashMap::new(),
            sessions: HashMap::new(),
            sessionless: HashMap::new(),
            children: HashMap::new(),
            timers: HashMap::new(),
            operations: Operations::default(),
            first,
            current,
            conn,
            ending: None,
            registration: watch::channel(None).0,
            announcements: None,
            own_waiters: u64::MAX,
            _publications: publications,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Msg>,
        message: Msg,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Msg::Ask { waiter, request } => state.ask(&myself, waiter, request).await,
            Msg::Host(request) => {
                let waiter = state.own_waiter();
                state.ask(&myself, waiter, request).await;
            }
            Msg::ForgetWaiter(waiter) => state.forget_waiter(&myself, waiter).await,
            Msg::ClaimReplacement { waiter, reply } => {
                state.claim_replacement(&myself, waiter, reply).await;
            }
            Msg::ReplaceSocket {
                claim,
                socket,
                waiter,
                reply,
            } => {
                state
                    .replace_socket(&myself, claim, *socket, waiter, reply)
                    .await;
            }
            Msg::AbandonClaim(claim) => state.feed(&myself, Event::AbandonClaim(claim)).await,
            Msg::PolicyPublished => state.feed(&myself, Event::PolicyPublished).await,
            Msg::CredentialsChanged => state.feed(&myself, Event::CredentialsChanged).await,
            Msg::ProvisioningChanged(now) => state.provisioning_changed(&myself, now).await,
            Msg::LookupDone { lookup, result } => state.lookup_done(&myself, lookup, result).await,
            Msg::LinkReady { op, epoch, ready } => {
                state.link_ready(&myself, op, epoch, *ready).await;
            }
            Msg::ConnectFailed {
                op,
                epoch,
                stage,
                error,
            } => {
                state.connect_failed(&myself, op, epoch, stage, error).await;
            }
            Msg::LinkDown {
                epoch,
                error,
                restart,
            } => state.link_down(&myself, epoch, error, restart).await,
            Msg::LinkFault {
                epoch,
                fault,
                error,
            } => state.link_fault(&myself, epoch, fault, error).await,
            Msg::ReplayDone {
                recovery,
                epoch,
                result,
            } => state.replay_done(&myself, recovery, epoch, result).await,
            Msg::StartsDrained(recovery) => {
                state.feed(&myself, Event::StartsDrained(recovery)).await;
            }
            Msg::ProbeDone {
                refresh,
                epoch,
                result,
            } => state.probe_done(&myself, refresh, epoch, result).await,
            Msg::Due(timer) => state.due(&myself, timer).await,
            Msg::Gone { actor, how } => state.gone(&myself, actor, how).await,
            Msg::Announced { registration } => state.announced(&myself, &registration).await,
            Msg::Kill(child) => state.kill(child),
            Msg::Test(event) => state.feed(&myself, event).await,
            Msg::FarewellOver => state.end(&myself),
        }
        Ok(())
    }

    /// Only re-posts: events overtake what the child itself had sent, and the default would stop the supervisor.
    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Msg>,
        event: SupervisionEvent,
        _: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        let gone = match event {
            // A killed actor hands its state over like a stopped one; only the reason tells.
            SupervisionEvent::ActorTerminated(cell, _, Some(reason)) if reason == KILLED => {
                Some((cell.get_id(), How::Killed))
            }
            SupervisionEvent::ActorTerminated(cell, _, _) => Some((cell.get_id(), How::Stopped)),
            // ractor reports a panic and an error alike; no handler of ours returns an error.
            SupervisionEvent::ActorFailed(cell, error) => {
                tracing::error!(%error, "an actor crashed");
                Some((cell.get_id(), How::Panicked))
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => None,
        };
        if let Some((actor, how)) = gone {
            let _ = myself.send_message(Msg::Gone { actor, how });
        }
        Ok(())
    }
}

impl State {
    /// One step of the machine, and what follows from it.
    async fn feed(&mut self, myself: &ActorRef<Msg>, event: Event) {
        tracing::trace!(?event, "step");
        let effects = self.machine.step(event);
        let achieved = Achieved::by(&effects);
        for effect in effects {
            self.apply(myself, effect).await;
        }
        self.operations.settle(&self.machine, achieved);
        self.shelf.keep(&self.machine.keeps());
        let registration = self
            .machine
            .snapshot()
            .registration
            .and_then(|id| self.shelf.registration_text(id).cloned());
        self.registration.send_if_modified(|current| {
            let changed = *current != registration;
            *current = registration;
            changed
        });
    }
}
