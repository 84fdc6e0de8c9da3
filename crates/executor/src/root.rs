//! The root: the actor that knows every session and every connection, and the parent of both.
//!
//! | message | from | meaning |
//! |---|---|---|
//! | `Accept` | listener, registrar, handle | a link to converse on |
//! | `Open` | connection | a new session, or the one to resume |
//! | `SessionOver` | session | it has ended and has no process left |
//! | `Opened` | handle | a door: a child that lets connections in, to be shut at shutdown |
//! | `ChildGone` | itself | a child ended, reposted from supervision so that it comes after its own messages |
//! | `Shutdown` | handle | end everything, politely at first |
//! | `CutOff`, `GraceOver`, `GiveUp` | timers | farewells, the polite part, all patience are over |

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mainstay_link::{Close, Link};
use mainstay_wire::RpcError;
use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::oneshot;

use crate::connection::{self, Connection, Conversation};
use crate::peer::Peer;
use crate::session::{self, Attach, Session};
use crate::shared::Shared;

/// How long peers may take to read the farewell at shutdown.
const FAREWELL: Duration = Duration::from_secs(2);

/// How long programs may take to die of SIGKILL at shutdown.
const STUCK: Duration = Duration::from_secs(5);

/// The reason peers hear when the executor shuts down.
pub(crate) const GOODBYE: &str = "executor shuts down";

/// The actor.
#[derive(Debug)]
pub(crate) struct Root;

/// What it hears; see the table above.
#[derive(Debug)]
pub(crate) enum Message {
    Accept {
        link: Box<Link>,
        peer: Peer,
        ended: Option<oneshot::Sender<()>>,
    },
    Open {
        resume: Option<String>,
        attach: Box<Attach>,
    },
    SessionOver(String),
    Opened(Door),
    ChildGone(ActorId),
    Shutdown {
        grace: Duration,
        done: oneshot::Sender<()>,
    },
    CutOff,
    GraceOver,
    GiveUp,
}

/// What the actor owns.
#[derive(Debug)]
pub(crate) struct State {
    shared: Arc<Shared>,
    sessions: HashMap<String, ActorRef<session::Message>>,
    connections: HashMap<ActorId, Open>,
    doors: HashMap<ActorId, Door>,
    /// Set once the executor shuts down: who waits for it.
    ending: Option<Vec<oneshot::Sender<()>>>,
}

/// A child that lets connections in.
#[derive(Debug)]
pub(crate) struct Door {
    /// The listener or registrar.
    pub(crate) actor: ActorCell,
    /// Ends it in good order, once the connections that came through it have ended; without it, it is killed at once.
    pub(crate) closing: Option<oneshot::Sender<Close>>,
}

/// An open connection.
#[derive(Debug)]
struct Open {
    actor: ActorCell,
    connection: Connection,
    /// Dropped when it ends, for whoever waits for that.
    _ended: Option<oneshot::Sender<()>>,
}

impl Actor for Root {
    type Msg = Message;
    type State = State;
    type Arguments = Arc<Shared>;

    async fn pre_start(
        &self,
        _myself: ActorRef<Message>,
        shared: Arc<Shared>,
    ) -> Result<State, ActorProcessingErr> {
        Ok(State {
            shared,
            sessions: HashMap::new(),
            connections: HashMap::new(),
            doors: HashMap::new(),
            ending: None,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Accept { link, peer, ended } => {
                state.on_accept(&myself, *link, peer, ended).await
            }
            Message::Open { resume, attach } => state.on_open(&myself, resume, attach).await,
            Message::SessionOver(id) => state.on_session_over(&id),
            Message::Opened(door) => state.on_opened(door),
            Message::ChildGone(child) => state.on_child_gone(child),
            Message::Shutdown { grace, done } => state.on_shutdown(&myself, grace, done),
            Message::CutOff => state.on_cut_off(),
            Message::GraceOver => state.on_grace_over(&myself),
            Message::GiveUp => state.on_give_up(),
        }
        state.shut_doors();
        if state.is_over() {
            state.ending = None;
            myself.drain()?;
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
                tracing::error!(%error, "actor failed");
                myself.cast(Message::ChildGone(child.get_id()))?;
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}

impl State {
    async fn on_accept(
        &mut self,
        myself: &ActorRef<Message>,
        link: Link,
        peer: Peer,
        ended: Option<oneshot::Sender<()>>,
    ) {
        let refused = if self.ending.is_some() {
            Some(Close::going_away())
        } else if self.connections.len() >= self.shared.config.connections {
            Some(Close::new(1013, "too many connections"))
        } else {
            None
        };
        if let Some(close) = refused {
            tokio::spawn(link.close(close, Duration::from_secs(1)));
            return;
        }
        let (connection, closing) = Connection::new();
        let arguments = connection::Arguments {
            link,
            peer,
            connection: connection.clone(),
            closing,
            shared: self.shared.clone(),
            root: myself.clone(),
        };
        let spawned =
            Conversation::spawn_linked(None, Conversation, Box::new(arguments), myself.get_cell())
                .await;
        match spawned {
            Ok((actor, _)) => {
                self.connections.insert(
                    actor.get_id(),
                    Open {
                        actor: actor.get_cell(),
                        connection,
                        _ended: ended,
                    },
                );
                let _ = actor.cast(connection::Message::Run);
            }
            Err(error) => tracing::error!(%error, "cannot start a connection"),
        }
    }

    async fn on_open(
        &mut self,
        myself: &ActorRef<Message>,
        resume: Option<String>,
        attach: Box<Attach>,
    ) {
        if self.ending.is_some() {
            attach
                .reply
                .err(RpcError::internal("the executor is shutting down"));
            return;
        }
        let session = match resume {
            Some(id) => match self.sessions.get(&id) {
                Some(session) => session.clone(),
                None => {
                    attach.reply.err(RpcError::unknown_session(&id));
                    return;
                }
            },
            None => match self.new_session(myself).await {
                Ok(session) => session,
                Err(error) => {
                    attach.reply.err(RpcError::internal(error));
                    return;
                }
            },
        };
        // The reply in it speaks for a session that failed just now.
        let _ = session.cast(session::Message::Attach(attach));
    }

    async fn new_session(
        &mut self,
        myself: &ActorRef<Message>,
    ) -> Result<ActorRef<session::Message>, ractor::SpawnErr> {
        let id = uuid::Uuid::new_v4().to_string();
        let arguments = session::Arguments {
            id: id.clone(),
            shared: self.shared.clone(),
            root: myself.clone(),
        };
        let (session, _) =
            Session::spawn_linked(None, Session, arguments, myself.get_cell()).await?;
        self.sessions.insert(id, session.clone());
        Ok(session)
    }

    fn on_session_over(&mut self, id: &str) {
        if let Some(session) = self.sessions.remove(id) {
            let _ = session.cast(session::Message::Stop);
        }
    }

    fn on_opened(&mut self, door: Door) {
        if self.ending.is_some() {
            door.actor.kill();
        } else {
            self.doors.insert(door.actor.get_id(), door);
        }
    }

    fn on_child_gone(&mut self, child: ActorId) {
        self.connections.remove(&child);
        self.doors.remove(&child);
        // Only one that failed is still here; its processes ended with it.
        self.sessions.retain(|_, session| session.get_id() != child);
    }

    fn on_shutdown(
        &mut self,
        myself: &ActorRef<Message>,
        grace: Duration,
        done: oneshot::Sender<()>,
    ) {
        if let Some(waiting) = &mut self.ending {
            // Asked twice: no more patience.
            waiting.push(done);
            self.on_grace_over(myself);
            return;
        }
        self.ending = Some(vec![done]);
        for door in self.doors.values() {
            if door.closing.is_none() {
                // It only waits for others to come.
                door.actor.kill();
            }
        }
        for open in self.connections.values() {
            open.connection.close(Close::new(1001, GOODBYE));
        }
        for session in self.sessions.values() {
            let _ = session.cast(session::Message::Quit);
        }
        drop(myself.send_after(FAREWELL, || Message::CutOff));
        drop(myself.send_after(grace, || Message::GraceOver));
    }

    fn on_cut_off(&mut self) {
        for open in self.connections.values() {
            open.actor.kill();
        }
    }

    fn on_grace_over(&mut self, myself: &ActorRef<Message>) {
        for door in self.doors.values() {
            door.actor.kill();
        }
        for session in self.sessions.values() {
            let _ = session.cast(session::Message::Kill);
        }
        drop(myself.send_after(STUCK, || Message::GiveUp));
    }

    /// What SIGKILL does not end is in the kernel's hands: nobody waits for it.
    fn on_give_up(&mut self) {
        if !self.sessions.is_empty() {
            tracing::warn!(sessions = self.sessions.len(), "programs do not end");
        }
        self.sessions.clear();
        self.connections.clear();
        self.doors.clear();
    }

    /// At shutdown, shuts the doors behind the last connection.
    fn shut_doors(&mut self) {
        if self.ending.is_some() && self.connections.is_empty() {
            for door in self.doors.values_mut() {
                if let Some(closing) = door.closing.take() {
                    let _ = closing.send(Close::new(1001, GOODBYE));
                }
            }
        }
    }

    fn is_over(&self) -> bool {
        self.ending.is_some()
            && self.sessions.is_empty()
            && self.connections.is_empty()
            && self.doors.is_empty()
    }
}
