//! A child ended (15.7). It queues behind whatever the child said before: result-then-gone finds nothing to do, gone-without-result
//! is a failure of that step.
//!
//! | child | without a result |
//! |---|---|
//! | lookup or connector of an attempt | the attempt failed; the next caller may start another |
//! | lookup, connector or replay of a recovery | one failed resume; the deadline stays |
//! | lookup or probe of a refresh | the refresh's error, nothing changed |
//! | Reader or Writer of the current link | the other half is closed too; recovery |
//! | Reader or Writer of a candidate link | one failed resume |
//! | body table | its streams fail, the session stays |
//! | process table | the session failed; the environment can reconnect |
//! | a start, a policy decision | the shell's: unknown outcome and clean-up, deny |
//! | any, more than three crashes in a minute | the session failed: no loop |

use crate::cause::{Cause, Down, Failure};
use crate::effect::{Effect, Wait};
use crate::event::How;
use crate::ids::{CauseId, Child, Epoch, Gen, LookupTag, Op, RefreshId, Timer};
use crate::machine::{Effects, Machine};
use crate::state::{Refresh, RefreshStage};

impl Machine {
    pub(crate) fn child_gone(&mut self, child: Child, how: How, out: &mut Effects) {
        match how {
            How::Failed | How::Panicked => self.count_crash(out),
            How::Stopped | How::Killed => {}
        }
        match child {
            Child::Lookup(lookup) => self.lookup_gone(lookup, out),
            Child::Connector(Op::Attempt(id), epoch) => {
                if self
                    .attempt
                    .as_ref()
                    .is_some_and(|attempt| attempt.connects(id, epoch))
                {
                    self.attempt_failed(Failure::CRASHED, out);
                }
            }
            Child::Connector(Op::Recovery(id), epoch) => {
                if self
                    .recovery(id)
                    .is_some_and(|recovery| recovery.connects(epoch))
                {
                    self.resume_failed(Failure::CRASHED, out);
                }
            }
            // A refresh connects through its attempt.
            Child::Connector(Op::Refresh(_), _) => {}
            Child::Replay(id, epoch) => {
                if self.recovery(id).is_some() && self.replays_on(epoch) {
                    self.resume_failed(Failure::CRASHED, out);
                }
            }
            Child::Probe(id) => self.refresh_crashed(|refresh| refresh.is_probe(id), out),
            Child::Reader(epoch) | Child::Writer(epoch) => self.half_gone(epoch, out),
            Child::ProcessTable(generation) => {
                if self.lives(generation) {
                    self.fail_session(Cause::ProcessTableLost, out);
                }
            }
            Child::BodyTable(generation) => {
                if self.lives(generation) {
                    out.push(Effect::FailStreams(generation, Cause::BodyTableLost));
                }
            }
            Child::Operation => {}
        }
    }

    fn lookup_gone(&mut self, lookup: LookupTag, out: &mut Effects) {
        match lookup.op {
            Op::Attempt(_) => {
                if self
                    .attempt
                    .as_ref()
                    .is_some_and(|attempt| attempt.looks_up(lookup))
                {
                    self.attempt_failed(Failure::CRASHED, out);
                }
            }
            Op::Recovery(_) => {
                if self
                    .running_recovery()
                    .is_some_and(|recovery| recovery.looks_up(lookup))
                {
                    self.resume_failed(Failure::CRASHED, out);
                }
            }
            Op::Refresh(_) => self.refresh_crashed(|refresh| refresh.looks_up(lookup), out),
        }
    }

    /// One half of a link is gone: so is the link.
    fn half_gone(&mut self, epoch: Epoch, out: &mut Effects) {
        if self.current_link() == Some(epoch) {
            out.push(Effect::CloseLink(epoch));
            self.recover(Down::Crashed, None, out);
        } else if self.replays_on(epoch) {
            self.resume_failed(Failure::CRASHED, out);
        } else if let Some(connecting) = self.connecting(epoch) {
            connecting.down.get_or_insert(CauseId::CRASHED);
        }
    }

    /// A bug that strikes again and again must not look like a bad network.
    fn count_crash(&mut self, out: &mut Effects) {
        self.last.panic = self.last.panic.wrapping_add(1);
        self.panics = self.panics.saturating_add(1);
        out.push(Effect::StartTimer(
            Timer::Panic(self.last.panic),
            Wait::PanicWindow,
        ));
        if self.panics > self.rules.panic_budget
            && self
                .session
                .as_ref()
                .is_some_and(|session| !session.failed())
        {
            self.fail_session(Cause::TooManyPanics, out);
        }
    }

    fn lives(&self, generation: Gen) -> bool {
        self.session
            .as_ref()
            .is_some_and(|session| session.generation == generation && !session.failed())
    }
}

impl Refresh {
    fn is_probe(&self, id: RefreshId) -> bool {
        self.id == id && matches!(self.stage, RefreshStage::Probing { .. })
    }
}
