//! What the machine wants done. Each effect sends, spawns, sets or arms; none of them waits.

use mainstay_session::ids::{Child, Op, Timer};
use mainstay_session::{Cause, Effect, End, LinkSlot, Note};
use ractor::ActorRef;

use super::{Msg, State, words};
use crate::body_table::ToBodies;
use crate::line::Slot;
use crate::lookup::Lookup;
use crate::marks::Ended;
use crate::probe::Probe;
use crate::process_table::ToTable;
use crate::replay::Replay;
use crate::telemetry;

impl State {
    pub(super) async fn apply(&mut self, myself: &ActorRef<Msg>, effect: Effect) {
        match effect {
            Effect::SpawnLookup(lookup) => {
                let span = self.operations.step(lookup.op);
                let work = Lookup {
                    lookup,
                    began: self.operations.began(lookup.op),
                    setup: self.setup.clone(),
                    supervisor: myself.clone(),
                };
                self.spawn(myself, Child::Lookup(lookup), work, span).await;
            }
            Effect::SpawnConnector {
                op,
                epoch,
                route,
                resume,
            } => {
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
                        limit: self.setup.config.session.replay_timeout,
                        supervisor: myself.clone(),
                    };
                    let span = self.operations.step(Op::Recovery(recovery));
                    self.spawn(myself, Child::Replay(recovery, epoch), work, span)
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
                    let span = self.operations.step(Op::Refresh(refresh));
                    self.spawn(myself, Child::Probe(refresh), work, span).await;
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
                if let LinkSlot::Failed(Cause::Lost {
                    end: End::TimedOut { phase, .. },
                    ..
                }) = slot
                {
                    telemetry::count_recovery_timeout(words::phase_name(phase));
                }
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
            Effect::StartTimer(timer, wait) => {
                if let Timer::Deadline(recovery) = timer {
                    self.operations.step(Op::Recovery(recovery));
                }
                self.start_timer(myself, timer, wait);
            }
            Effect::CancelTimer(timer) => {
                self.timers.remove(&timer);
            }
            Effect::Reply(waiter, answer) => self.reply(waiter, answer),
            Effect::Observe(attempt, outcome) => {
                let took = self.operations.took(Op::Attempt(attempt));
                self.setup.observe(outcome, took);
            }
            Effect::Trace(note) => match note {
                Note::Stale => telemetry::count_stale(),
                Note::ResumeFailed(recovery, failure) => {
                    let _in = self.operations.step(Op::Recovery(recovery)).entered();
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
