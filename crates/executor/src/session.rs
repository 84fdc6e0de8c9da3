//! One session: the actor that owns processes and outlives its connections (protocol.md 4).
//!
//! Child of the root; parent of its processes. A connection attaches to it and may be gone at any time; for the retention
//! time afterwards another one can resume it. Ended processes stay here as records for their own retention time.
//!
//! | message | from | meaning |
//! |---|---|---|
//! | `Attach` | root | a connection wants to be the one |
//! | `Detach` | connection | it is gone |
//! | `Start`, `Call`, `Credit`, `List`, `End` | connection | requests, in their order |
//! | `NotStarted`, `Finished` | process | what came of it |
//! | `ChildGone` | itself | a process actor ended, reposted from supervision so that it comes after the above |
//! | `Expire`, `Sweep` | timers | retention of the session, of ended processes |
//! | `Quit`, `Kill` | root | the executor shuts down: SIGTERM to everything, SIGKILL |
//! | `Stop` | root | nobody can reach this session any more |

mod answers;
mod archive;
mod attachment;
mod processes;
mod running;

use std::collections::HashMap;
use std::sync::Arc;

use mainstay_link::Close;
use mainstay_wire::Empty;
use mainstay_wire::process::StartParams;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, MessagingErr, SupervisionEvent};
use rustix::process::Pid;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use attachment::{Attach, Attached};

use archive::Archive;
use attachment::Holder;
use running::Running;

use crate::connection::ConnectionId;
use crate::outbox::Reply;
use crate::process::record::Record;
use crate::process::{Call, Letter, StartError};
use crate::root;
use crate::shared::Shared;

/// The actor.
#[derive(Debug)]
pub(crate) struct Session;

/// What it hears; see the table above.
#[derive(Debug)]
pub(crate) enum Message {
    Attach(Box<Attach>),
    Detach(ConnectionId),
    Start {
        from: ConnectionId,
        params: Box<StartParams>,
        reply: Reply,
    },
    Call {
        from: ConnectionId,
        process: String,
        call: Call,
    },
    Credit {
        from: ConnectionId,
        process: String,
        ack: u64,
        window: u64,
        held: OwnedSemaphorePermit,
    },
    List {
        from: ConnectionId,
        reply: Reply,
    },
    End {
        from: ConnectionId,
        reply: Reply,
    },
    NotStarted {
        id: String,
        reply: Reply,
        error: StartError,
        rest: Vec<Call>,
    },
    Finished {
        record: Box<Record>,
        stragglers: Option<Pid>,
        rest: Vec<Call>,
    },
    ChildGone(ActorId),
    Expire(u64),
    Sweep,
    Quit,
    Kill,
    Stop,
}

/// What a session is started with.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) id: String,
    pub(crate) shared: Arc<Shared>,
    pub(crate) root: ActorRef<root::Message>,
}

/// What the actor owns.
#[derive(Debug)]
pub(crate) struct State {
    id: String,
    shared: Arc<Shared>,
    root: ActorRef<root::Message>,
    holder: Option<Holder>,
    /// Attachments and detachments so far; a timer of an earlier one is stale.
    epoch: u64,
    live: HashMap<String, Running>,
    /// Processes started so far.
    started: u64,
    archive: Archive,
    /// Under way while nobody is attached. Timers end with the session.
    expiry: Option<Timer>,
    /// Under way while ended processes are remembered.
    sweep: Option<Timer>,
    /// Whether the retention is over, the client ended the session, or the executor shuts down.
    ended: bool,
}

/// A message to itself that is under way.
type Timer = AbortOnDropHandle<Result<(), MessagingErr<Message>>>;

impl Actor for Session {
    type Msg = Message;
    type State = State;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        _myself: ActorRef<Message>,
        Arguments { id, shared, root }: Arguments,
    ) -> Result<State, ActorProcessingErr> {
        Ok(State {
            id,
            shared,
            root,
            holder: None,
            epoch: 0,
            live: HashMap::new(),
            started: 0,
            archive: Archive::default(),
            expiry: None,
            sweep: None,
            ended: false,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Attach(attach) => state.on_attach(&myself, *attach),
            Message::Detach(connection) => state.on_detach(&myself, connection),
            Message::Start {
                from,
                params,
                reply,
            } if state.is_held_by(from) => {
                state.on_start(&myself, *params, reply).await;
            }
            Message::Call {
                from,
                process,
                call,
            } if state.is_held_by(from) => state.on_call(process, call),
            Message::Credit {
                from,
                process,
                ack,
                window,
                held,
            } if state.is_held_by(from) => {
                state.on_credit(&process, ack, window);
                drop(held);
            }
            Message::List { from, reply } if state.is_held_by(from) => state.on_list(reply),
            Message::End { from, reply } if state.is_held_by(from) => state.on_end(reply),
            // Taken over: whoever asks is told by the dropped reply, if it still listens.
            Message::Start { .. }
            | Message::Call { .. }
            | Message::Credit { .. }
            | Message::List { .. }
            | Message::End { .. } => {}
            Message::NotStarted {
                id,
                reply,
                error,
                rest,
            } => state.on_not_started(&id, reply, error, rest),
            Message::Finished {
                record,
                stragglers,
                rest,
            } => {
                state.on_finished(&myself, *record, stragglers, rest);
            }
            Message::ChildGone(actor) => state.on_child_gone(actor),
            Message::Expire(epoch) => state.on_expire(epoch),
            Message::Sweep => state.on_sweep(&myself),
            Message::Quit => state.on_quit(),
            Message::Kill => state.end(),
            Message::Stop => myself.drain()?,
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Message>,
        event: SupervisionEvent,
        _state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorTerminated(child, _, _) => {
                myself.cast(Message::ChildGone(child.get_id()))?
            }
            SupervisionEvent::ActorFailed(child, error) => {
                tracing::error!(%error, "process actor failed");
                myself.cast(Message::ChildGone(child.get_id()))?;
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}

impl State {
    fn on_end(&mut self, reply: Reply) {
        self.end();
        reply.ok(Empty {});
        if let Some(holder) = self.holder.take() {
            holder.connection.close(Close::new(1000, "session ended"));
        }
    }

    fn on_sweep(&mut self, myself: &ActorRef<Message>) {
        if let Some(wait) = self.archive.sweep() {
            let timer = myself.send_after(wait, || Message::Sweep);
            self.sweep = Some(AbortOnDropHandle::new(timer));
        }
    }

    fn on_quit(&mut self) {
        self.ended = true;
        self.tell_all(|| Letter::Quit);
        self.archive.kill_stragglers();
        self.report_if_over();
    }

    /// Kills everything at once and lets the root forget this session.
    fn end(&mut self) {
        self.ended = true;
        // Their loops end when nobody can write to them any more, and their programs are killed with that.
        for running in self.live.values_mut() {
            running.letters = None;
        }
        self.archive.kill_stragglers();
        self.report_if_over();
    }

    fn report_if_over(&self) {
        if self.ended && self.live.is_empty() {
            let _ = self.root.cast(root::Message::SessionOver(self.id.clone()));
        }
    }

    fn tell_all(&self, letter: impl Fn() -> Letter) {
        for running in self.live.values() {
            // A loop that has ended needs no news.
            let _ = running.send(letter());
        }
    }
}
