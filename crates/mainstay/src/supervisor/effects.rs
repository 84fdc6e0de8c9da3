//! What the machine wants done. Each effect sends, spawns, sets or arms; none of them waits.

use mainstay_session::ids::{Child, Epoch, Gen, Op, SessionId};
use mainstay_session::{Answer, Effect, LinkSlot, Note, Route};
use ractor::{Actor, ActorCell, ActorRef};
use tokio::sync::{OnceCell, mpsc, watch};

use super::entries::{SessionEntry, Sessionless};
use super::{Msg, Port, State};
use crate::announcements::{self, Announcements};
use crate::body_table::{self, BodyTable, ToBodies};
use crate::environment::Snapshot;
use crate::error::Error;
use crate::features::Features;
use crate::handshake::{self, Handshake, Resume, Target};
use crate::line::{Line, Slot};
use crate::lookup::{self, Lookup};
use crate::marks::{self, Ended};
use crate::ports::Ports;
use crate::probe::{self, Probe};
use crate::process_table::{self, ProcessTable, ToTable};
use crate::replay::{self, Replay};
use crate::session::{Session, Shared};
use crate::setup::Destination;

impl State {
    pub(super) async fn apply(&mut self, myself: &ActorRef<Msg>, effect: Effect) {
        match effect {
            Effect::SpawnLookup(lookup) => {
                self.note_begin(lookup.op);
                let arguments = lookup::Arguments {
                    lookup,
                    setup: self.setup.clone(),
                    supervisor: myself.clone(),
                };
                self.spawn(
                    myself,
                    Child::Lookup(lookup),
                    Lookup,
                    arguments,
                    lookup::Msg::Run,
                )
                .await;
            }
            Effect::SpawnConnector {
                op,
                epoch,
                route,
                resume,
            } => {
                self.note_begin(op);
                self.spawn_connector(myself, op, epoch, route, resume).await;
            }
            Effect::SpawnReplay {
                recovery,
                generation,
                epoch,
            } => {
                if let (Some(entry), Some(link)) =
                    (self.sessions.get(&generation), self.links.get(&epoch))
                {
                    let arguments = replay::Arguments {
                        recovery,
                        link: link.link().clone(),
                        gate: entry.session.line().gate().clone(),
                        table: entry.table.clone(),
                        paged: entry.session.features().credit,
                        supervisor: myself.clone(),
                    };
                    self.spawn(
                        myself,
                        Child::Replay(recovery, epoch),
                        Replay,
                        arguments,
                        replay::Msg::Run,
                    )
                    .await;
                }
            }
            Effect::SpawnProbe {
                refresh,
                generation,
                epoch,
            } => {
                if let (Some(entry), Some(link)) =
                    (self.sessions.get(&generation), self.links.get(&epoch))
                {
                    let arguments = probe::Arguments {
                        refresh,
                        line: entry.session.line().clone(),
                        link: link.link().clone(),
                        limit: self.setup.config.session.status_timeout,
                        supervisor: myself.clone(),
                    };
                    self.spawn(
                        myself,
                        Child::Probe(refresh),
                        Probe,
                        arguments,
                        probe::Msg::Run,
                    )
                    .await;
                }
            }
            Effect::Stop(child) => {
                if let Some(cell) = self.children.remove(&child) {
                    cell.kill();
                }
                if let Child::Connector(_, epoch) = child {
                    self.sessionless.remove(&epoch);
                }
            }
            Effect::CloseLink(epoch) => {
                if let Some(link) = self.links.get(&epoch) {
                    link.close();
                }
                self.sessionless.remove(&epoch);
            }
            Effect::SetGate(generation) => {
                if let Some(entry) = self.sessions.get(&generation) {
                    entry.keeper.shut(Ended::Replaced);
                    self.current.send_if_modified(|current| {
                        let ours = current
                            .as_ref()
                            .is_some_and(|session| session.generation() == generation);
                        if ours {
                            *current = None;
                        }
                        ours
                    });
                }
            }
            Effect::PublishSlot(generation, slot) => {
                let slot = self.slot(slot);
                if let Some(entry) = self.sessions.get(&generation) {
                    entry.slot.send_replace(slot);
                }
            }
            Effect::PublishConn(conn) => {
                self.conn.send_replace(conn);
            }
            Effect::Install {
                generation,
                epoch,
                session,
            } => self.install(myself, generation, epoch, session).await,
            Effect::Relink { generation, epoch } => self.relink(generation, epoch),
            Effect::DrainStarts {
                recovery,
                generation,
                epoch,
            } => {
                let asked = self.sessions.get(&generation).is_some_and(|entry| {
                    entry
                        .table
                        .send(ToTable::DrainStarts { recovery, epoch })
                        .is_ok()
                });
                if !asked {
                    let _ = myself.send_message(Msg::StartsDrained(recovery));
                }
            }
            Effect::FailProcesses(generation, cause) => {
                let error = self.words(cause);
                if let Some(entry) = self.sessions.get(&generation) {
                    let _ = entry.table.send(ToTable::FailAll(error));
                }
            }
            Effect::FailStreams(generation, cause) => {
                let error = self.words(cause);
                if let Some(entry) = self.sessions.get(&generation) {
                    let _ = entry.bodies.send(ToBodies::FailAll(error));
                }
            }
            Effect::StartTimer(timer, wait) => self.start_timer(myself, timer, wait),
            Effect::CancelTimer(timer) => {
                self.timers.remove(&timer);
            }
            Effect::Reply(waiter, answer) => self.reply(waiter, answer),
            Effect::Observe(attempt, outcome) => {
                let since = self.began.remove(&Op::Attempt(attempt));
                self.setup
                    .observe(outcome, since.map(|since| since.elapsed()));
            }
            Effect::Trace(note) => match note {
                Note::Stale => tracing::trace!("message of an earlier time dropped"),
                Note::ResumeFailed(recovery, failure) => {
                    tracing::info!(recovery = recovery.0, error = %self.shelf.error(failure.cause), "resume failed");
                }
                Note::StaleLookup(refresh) => {
                    tracing::debug!(refresh = refresh.0, "lookup was overtaken")
                }
                Note::Overtaken(refresh) => {
                    tracing::debug!(refresh = refresh.0, "refresh was overtaken")
                }
            },
        }
    }

    /// Spawns a child and sets it to work. If it cannot be spawned, the supervisor itself is ending.
    async fn spawn<A: Actor>(
        &mut self,
        myself: &ActorRef<Msg>,
        child: Child,
        actor: A,
        arguments: A::Arguments,
        run: A::Msg,
    ) {
        if let Ok((reference, _)) = A::spawn_linked(None, actor, arguments, myself.get_cell()).await
        {
            let _ = reference.send_message(run);
            self.children.insert(child, reference.get_cell());
        }
    }

    async fn spawn_connector(
        &mut self,
        myself: &ActorRef<Msg>,
        op: Op,
        epoch: Epoch,
        route: Route,
        resume: Option<SessionId>,
    ) {
        let Some(target) = self.target(route) else {
            // The machine names each bundle and socket once.
            tracing::error!(epoch = epoch.0, "nothing to dial");
            return;
        };
        let take_over = self
            .newest()
            .is_some_and(|entry| entry.session.features().take_over);
        let resume = resume
            .and_then(|id| self.shelf.session_text(id).cloned())
            .map(|id| Resume { id, take_over });
        let ports = match &resume {
            Some(resume) => self.resuming(&resume.id, epoch),
            None => None,
        };
        let ports = match ports {
            Some(ports) => ports,
            None => {
                let (ports, ends) = Ports::new();
                self.sessionless.insert(
                    epoch,
                    Sessionless {
                        ports: ports.clone(),
                        ends,
                    },
                );
                ports
            }
        };
        let arguments = handshake::Arguments {
            op,
            epoch,
            target,
            resume,
            ports,
            setup: self.setup.clone(),
            supervisor: myself.clone(),
        };
        self.spawn(
            myself,
            Child::Connector(op, epoch),
            Handshake,
            arguments,
            handshake::Msg::Run,
        )
        .await;
    }

    fn target(&mut self, route: Route) -> Option<Target> {
        match route {
            Route::Bundle(bundle) => self.shelf.take_bundle(bundle.id).map(Target::Relay),
            Route::Configured => match &self.setup.destination {
                Destination::Direct(direct) => Some(Target::Direct(direct.clone())),
                Destination::Program(program) => Some(Target::Program(program.clone())),
                Destination::Registry(_) | Destination::Accepted => {
                    self.first.take().map(Target::Handed)
                }
            },
            Route::Socket(socket) => self
                .shelf
                .take_socket(socket)
                .map(|link| Target::Handed(Box::new(link))),
        }
    }

    /// A resume's link feeds the tables of the session it resumes; its process events count from now on.
    fn resuming(&self, id: &str, epoch: Epoch) -> Option<Ports> {
        let entry = self.newest().filter(|entry| entry.session.id() == id)?;
        let _ = entry.table.send(ToTable::Candidate(epoch));
        Some(entry.ports.clone())
    }

    async fn install(
        &mut self,
        myself: &ActorRef<Msg>,
        generation: Gen,
        epoch: Epoch,
        id: SessionId,
    ) {
        let (Some(link), Some(Sessionless { ports, ends })) =
            (self.links.get_mut(&epoch), self.sessionless.remove(&epoch))
        else {
            tracing::error!(epoch = epoch.0, "installed a link that is not there");
            return;
        };
        let info = link.info.take().flatten();
        let features = Features::of(info.as_ref());
        let (keeper, gate) = marks::gate();
        let (slot, slot_rx) = watch::channel(Slot::Recovering);
        let line = Line::new(generation, gate, slot_rx);
        let (table, table_rx) = mpsc::unbounded_channel();
        let arguments = process_table::Arguments {
            control: table_rx,
            myself: table.downgrade(),
            events: ends.events,
            features: features.clone(),
            setup: self.setup.clone(),
            supervisor: myself.clone(),
        };
        let Some(table_cell) = spawn_table(myself, arguments).await else {
            return;
        };
        let (bodies, bodies_rx) = mpsc::unbounded_channel();
        let arguments = body_table::Arguments {
            line: line.clone(),
            control: bodies_rx,
            bodies: ends.bodies,
            budget: self.setup.config.session.body_bytes,
            frames: self.setup.config.session.body_frames,
            can_cancel: features.http_cancel,
        };
        let Some(bodies_cell) = spawn_bodies(myself, arguments).await else {
            return;
        };
        let session = Session::new(Shared {
            line,
            id: self.shelf.session_text(id).cloned().unwrap_or_default(),
            table: table.clone(),
            bodies: bodies.clone(),
            info: OnceCell::new_with(info),
            features,
            setup: self.setup.clone(),
        });
        self.sessions.insert(
            generation,
            SessionEntry {
                keeper,
                slot,
                session: session.clone(),
                ports,
                table,
                table_cell,
                bodies,
                bodies_cell,
            },
        );
        self.relink(generation, epoch);
        self.current.send_replace(Some(session));
        self.forget_sessions(generation);
        self.follow_announcements(myself).await;
    }

    async fn follow_announcements(&mut self, myself: &ActorRef<Msg>) {
        if let Destination::Registry(registry) = &self.setup.destination
            && self.setup.config.automatic_refresh
            && self.announcements.is_none()
        {
            let arguments = announcements::Arguments {
                registry: registry.clone(),
                known: self.registration.subscribe(),
                supervisor: myself.clone(),
            };
            let spawned =
                Announcements::spawn_linked(None, Announcements, arguments, myself.get_cell());
            if let Ok((actor, _)) = spawned.await {
                let _ = actor.send_message(announcements::Msg::Run);
                self.announcements = Some(actor.get_cell());
            }
        }
    }

    fn relink(&self, generation: Gen, epoch: Epoch) {
        if let (Some(entry), Some(link)) = (self.sessions.get(&generation), self.links.get(&epoch))
        {
            let _ = entry.table.send(ToTable::LinkUp(link.link().clone()));
        }
    }

    /// Earlier sessions stay only while somebody holds them: their handles read why they ended.
    fn forget_sessions(&mut self, current: Gen) {
        self.sessions
            .retain(|generation, entry| *generation == current || entry.session.is_held());
    }

    fn slot(&self, slot: LinkSlot) -> Slot {
        match slot {
            LinkSlot::Up(epoch) => match self.links.get(&epoch) {
                Some(link) => Slot::Up(link.link().clone()),
                None => Slot::Recovering,
            },
            LinkSlot::Recovering => Slot::Recovering,
            LinkSlot::Failed(cause) => Slot::Failed(self.words(cause)),
            LinkSlot::Retired => Slot::Retired,
        }
    }

    fn reply(&mut self, waiter: mainstay_session::ids::WaiterId, answer: Answer) {
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
                mainstay_session::Readiness::Ready => crate::environment::Readiness::Ready,
                mainstay_session::Readiness::Undecided => crate::environment::Readiness::Undecided,
                mainstay_session::Readiness::Failed(cause) => {
                    crate::environment::Readiness::Failed(self.words(cause))
                }
            },
        }
    }

    /// Remembers when an attempt began, for the observer of first connections.
    fn note_begin(&mut self, op: Op) {
        if self.sessions.is_empty() {
            self.began
                .entry(op)
                .or_insert_with(tokio::time::Instant::now);
        }
    }

    /// The current session, or the last one.
    pub(super) fn newest(&self) -> Option<&SessionEntry> {
        self.sessions
            .values()
            .max_by_key(|entry| entry.session.generation())
    }
}

async fn spawn_table(
    myself: &ActorRef<Msg>,
    arguments: process_table::Arguments,
) -> Option<ActorCell> {
    let (table, _) = ProcessTable::spawn_linked(None, ProcessTable, arguments, myself.get_cell())
        .await
        .ok()?;
    let _ = table.send_message(process_table::Msg::Run);
    Some(table.get_cell())
}

async fn spawn_bodies(
    myself: &ActorRef<Msg>,
    arguments: body_table::Arguments,
) -> Option<ActorCell> {
    let (table, _) = BodyTable::spawn_linked(None, BodyTable, arguments, myself.get_cell())
        .await
        .ok()?;
    let _ = table.send_message(body_table::Msg::Run);
    Some(table.get_cell())
}
