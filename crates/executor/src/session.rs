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
mod running;

use std::collections::HashMap;

use mainstay_link::Close;
use mainstay_wire::environment::EnvironmentInfo;
use mainstay_wire::extension::ProcessesAnswer;
use mainstay_wire::initialize::InitializeAnswer;
use mainstay_wire::process::StartParams;
use mainstay_wire::{Empty, RpcError};
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, MessagingErr, SupervisionEvent};
use rustix::process::Pid;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

use answers::{answer_ended, answer_unknown};
use archive::Archive;
use running::Running;

use crate::connection::{Connection, ConnectionId};
use crate::outbox::Reply;
use crate::peer::Peer;
use crate::process::record::Record;
use crate::process::spawn::Plan;
use crate::process::{self, Attachment, Call, Letter, Process, StartError};
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

/// A connection that wants the session.
#[derive(Debug)]
pub(crate) struct Attach {
    /// The connection.
    pub(crate) connection: Connection,
    /// Where its events go.
    pub(crate) attachment: Attachment,
    /// Who it is.
    pub(crate) peer: Peer,
    /// Whether to take the session from another connection.
    pub(crate) take_over: bool,
    /// Part of the answer.
    pub(crate) environment: Arc<EnvironmentInfo>,
    /// Owed the answer to `initialize`.
    pub(crate) reply: Reply,
    /// Told when attached; dropped if not.
    pub(crate) attached: oneshot::Sender<Attached>,
}

/// A connection's hold on a session; dropping it detaches.
#[derive(Debug)]
pub(crate) struct Attached {
    session: ActorRef<Message>,
    connection: ConnectionId,
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

#[derive(Debug)]
struct Holder {
    connection: Connection,
    attachment: Attachment,
    peer: Peer,
}

impl Attached {
    /// Sends a message to the session.
    pub(crate) fn send(&self, message: impl FnOnce(ConnectionId) -> Message) {
        // A session that is gone: the reply in the message says so when it is dropped.
        let _ = self.session.cast(message(self.connection));
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = self.session.cast(Message::Detach(self.connection));
    }
}

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
    fn is_held_by(&self, connection: ConnectionId) -> bool {
        self.holder
            .as_ref()
            .is_some_and(|holder| holder.connection.id() == connection)
    }

    fn on_attach(&mut self, myself: &ActorRef<Message>, attach: Attach) {
        if self.ended {
            attach.reply.err(RpcError::unknown_session(&self.id));
            return;
        }
        if let Some(holder) = &self.holder {
            if !(attach.take_over && holder.peer.is_same_party(&attach.peer)) {
                attach.reply.err(RpcError::already_attached(&self.id));
                return;
            }
            holder.connection.close(Close::new(
                TAKEN_OVER,
                "session taken over by another connection",
            ));
            self.tell_all(|| Letter::Detach);
        }
        let connection = attach.connection.id();
        self.epoch += 1;
        self.expiry = None;
        self.holder = Some(Holder {
            connection: attach.connection,
            attachment: attach.attachment.clone(),
            peer: attach.peer,
        });
        attach.reply.ok(InitializeAnswer {
            session_id: self.id.clone(),
            environment_info: Some(EnvironmentInfo::clone(&attach.environment)),
        });
        self.tell_all(|| Letter::Attach(attach.attachment.clone()));
        // A connection that is gone already drops it, and that detaches.
        let _ = attach.attached.send(Attached {
            session: myself.clone(),
            connection,
        });
    }

    fn on_detach(&mut self, myself: &ActorRef<Message>, connection: ConnectionId) {
        if !self.is_held_by(connection) {
            return;
        }
        self.holder = None;
        self.epoch += 1;
        self.tell_all(|| Letter::Detach);
        let epoch = self.epoch;
        let expire = move || Message::Expire(epoch);
        let timer = myself.send_after(self.shared.config.session_retention, expire);
        self.expiry = Some(AbortOnDropHandle::new(timer));
    }

    async fn on_start(&mut self, myself: &ActorRef<Message>, params: StartParams, reply: Reply) {
        let id = params.process_id.clone();
        if self.ended {
            reply.err(RpcError::internal("the session has ended"));
            return;
        }
        if self.live.contains_key(&id) || self.archive.get(&id).is_some() {
            reply.err(RpcError::invalid_request(format_args!(
                "process {id} already exists"
            )));
            return;
        }
        let plan = match Plan::new(params) {
            Ok(plan) => plan,
            Err(error) => {
                reply.err(error);
                return;
            }
        };
        let (sender, letters) = mpsc::unbounded_channel();
        let arguments = process::Arguments {
            id: id.clone(),
            plan,
            reply,
            attachment: self.holder.as_ref().map(|holder| holder.attachment.clone()),
            letters,
            again: sender.downgrade(),
            session: myself.clone(),
            shared: self.shared.clone(),
        };
        // The dropped reply tells of a failure.
        let Ok((actor, _)) =
            Process::spawn_linked(None, Process, Box::new(arguments), myself.get_cell()).await
        else {
            return;
        };
        self.started += 1;
        self.live.insert(
            id,
            Running {
                actor: actor.get_id(),
                letters: Some(sender),
                number: self.started,
                late: Vec::new(),
            },
        );
        let _ = actor.cast(process::Message::Run);
    }

    fn on_call(&mut self, id: String, call: Call) {
        if let Some(running) = self.live.get_mut(&id) {
            if let Some(Letter::Call(call)) = running.send(Letter::Call(call)) {
                running.late.push(call);
            }
            return;
        }
        let first_seq = self
            .holder
            .as_ref()
            .is_some_and(|holder| holder.attachment.first_seq);
        match self.archive.get(&id) {
            Some(record) => answer_ended(record, call, first_seq),
            None => answer_unknown(&id, call),
        }
    }

    fn on_credit(&mut self, id: &str, ack: u64, window: u64) {
        match self.live.get(id) {
            // A loop that has just ended has sent everything.
            Some(running) => drop(running.send(Letter::Credit { ack, window })),
            None => self.archive.release(id, ack),
        }
    }

    fn on_list(&self, reply: Reply) {
        let mut listed = self.archive.entries();
        let asked: Vec<_> = self
            .live
            .values()
            .map(|running| {
                let (ask, answer) = oneshot::channel();
                let _ = running.send(Letter::Describe(ask));
                (running.number, answer)
            })
            .collect();
        tokio::spawn(async move {
            for (number, answer) in asked {
                // One that ends right now, or never started, is left out.
                if let Ok(entry) = answer.await {
                    listed.push((number, entry));
                }
            }
            listed.sort_by_key(|(number, _)| *number);
            let processes = listed.into_iter().map(|(_, entry)| entry).collect();
            reply.ok(ProcessesAnswer { processes });
        });
    }

    fn on_end(&mut self, reply: Reply) {
        self.end();
        reply.ok(Empty {});
        if let Some(holder) = self.holder.take() {
            holder.connection.close(Close::new(1000, "session ended"));
        }
    }

    fn on_not_started(&mut self, id: &str, reply: Reply, error: StartError, rest: Vec<Call>) {
        let late = self
            .live
            .remove(id)
            .map(|running| running.late)
            .unwrap_or_default();
        reply.err(error.into_rpc(id));
        for call in rest.into_iter().chain(late) {
            self.on_call(id.to_owned(), call);
        }
        self.report_if_over();
    }

    fn on_finished(
        &mut self,
        myself: &ActorRef<Message>,
        record: Record,
        stragglers: Option<Pid>,
        rest: Vec<Call>,
    ) {
        let id = record.id.clone();
        let Some(running) = self.live.remove(&id) else {
            return;
        };
        let retention = self.shared.config.process_retention;
        if self
            .archive
            .add(running.number, record, stragglers, retention)
        {
            let timer = myself.send_after(retention, || Message::Sweep);
            self.sweep = Some(AbortOnDropHandle::new(timer));
        }
        for call in rest.into_iter().chain(running.late) {
            self.on_call(id.clone(), call);
        }
        if self.ended {
            self.archive.kill_stragglers();
        }
        self.report_if_over();
    }

    fn on_child_gone(&mut self, actor: ActorId) {
        // One that said what became of it is no longer here; any other failed, and its child was killed with it.
        self.live.retain(|_, running| running.actor != actor);
        self.report_if_over();
    }

    fn on_expire(&mut self, epoch: u64) {
        if epoch == self.epoch && self.holder.is_none() {
            tracing::debug!(session = self.id, "retention is over");
            self.end();
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

/// Close code for a connection whose session was taken over: our own, from the range for applications.
const TAKEN_OVER: u16 = 4010;
