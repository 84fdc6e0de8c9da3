//! What the machine wants done. Each effect sends, spawns, sets or arms; none of them waits.

use mainstay_session::ids::{Child, Op};
use mainstay_session::{Effect, LinkSlot, Note};
use ractor::ActorRef;

use super::{Msg, State};
use crate::body_table::ToBodies;
use crate::line::Slot;
use crate::lookup::Lookup;
use crate::marks::Ended;
use crate::probe::Probe;
use crate::process_table::ToTable;
use crate::replay::Replay;

impl State {
    pub(super) async fn apply(&mut self, myself: &ActorRef<Msg>, effect: Effect) {
        match effect {
            Effect::SpawnLookup(lookup) => {
                self.note_begin(lookup.op);
                let work = Lookup {
                    lookup,
                    setup: self.setup.clone(),
                    supervisor: myself.clone(),
                };
                self.spawn(myself, Child::Lookup(lookup), work).await;
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
                    let work = Replay {
                        recovery,
                        link: link.link().clone(),
                        gate: entry.session.line().gate().clone(),
                        table: entry.table.clone(),
                        paged: entry.session.features().credit,
                        supervisor: myself.clone(),
                    };
                    self.spawn(myself, Child::Replay(recovery, epoch), work)
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
                    let work = Probe {
                        refresh,
                        line: entry.session.line().clone(),
                        link: link.link().clone(),
                        limit: self.setup.config.session.status_timeout,
                        supervisor: myself.clone(),
                    };
                    self.spawn(myself, Child::Probe(refresh), work).await;
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

    /// Remembers when an attempt began, for the observer of first connections.
    fn note_begin(&mut self, op: Op) {
        if self.sessions.is_empty() {
            self.began
                .entry(op)
                .or_insert_with(tokio::time::Instant::now);
        }
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
}
