//! The tries of a recovery (5.3): one child at a time, lookup, then Handshake, then Replay.

use crate::cause::{Class, Down, End, Failure};
use crate::config::Transport;
use crate::effect::{Effect, Note, Route, Wait};
use crate::event::Bundle;
use crate::ids::{
    CauseId, Child, Epoch, LookupTag, Op, RecoveryId, Registration, SessionId, Timer,
};
use crate::machine::{Effects, Machine, stale, stale_link};
use crate::state::{Connecting, Handoff, Recovery, ResumeStage, Status};

impl Machine {
    pub(crate) fn starts_drained(&mut self, id: RecoveryId, out: &mut Effects) {
        let Some(recovery) = self.recovery(id) else {
            return stale(out);
        };
        match recovery.stage {
            ResumeStage::Draining { restart: None } => self.resume(out),
            // Everybody lost the same peer: come back one by one (W3).
            ResumeStage::Draining {
                restart: Some(cause),
            } => {
                recovery.stage = ResumeStage::Waiting;
                out.push(Effect::StartTimer(Timer::Retry(id), Wait::Restart(cause)));
            }
            _ => stale(out),
        }
    }

    pub(crate) fn retry_due(&mut self, id: RecoveryId, out: &mut Effects) {
        match self.recovery(id).map(|recovery| &recovery.stage) {
            Some(ResumeStage::Waiting) => self.resume(out),
            _ => stale(out),
        }
    }

    /// Whatever it waits for between resumes is over now, and failures count from zero.
    pub(crate) fn nudge_recovery(&mut self, out: &mut Effects) {
        let Some(recovery) = self.running_recovery() else {
            return;
        };
        recovery.failures = 0;
        match &mut recovery.stage {
            ResumeStage::Draining { restart } => *restart = None,
            ResumeStage::Waiting => {
                out.push(Effect::CancelTimer(Timer::Retry(recovery.id)));
                self.resume(out);
            }
            ResumeStage::AwaitSocket
            | ResumeStage::Looking
            | ResumeStage::Connecting(_)
            | ResumeStage::Replaying { .. } => {}
        }
    }

    fn resume(&mut self, out: &mut Effects) {
        match self.rules.transport {
            Transport::Noise => {
                let Some(recovery) = self.running_recovery() else {
                    return;
                };
                recovery.lookups += 1;
                recovery.stage = ResumeStage::Looking;
                out.push(Effect::SpawnLookup(recovery.lookup()));
            }
            Transport::WebSocket => self.resume_dials(Route::Configured, None, out),
            Transport::Accepted => self.resume_on_socket(out),
            // It cannot recover.
            Transport::Once => {}
        }
    }

    /// Uses the host's socket, or waits for it.
    pub(crate) fn resume_on_socket(&mut self, out: &mut Effects) {
        if let Some(Handoff::Queued(claim, socket)) = self.handoff {
            self.handoff = Some(Handoff::InUse(claim));
            self.resume_dials(Route::Socket(socket), None, out);
        } else if let Some(recovery) = self.running_recovery() {
            recovery.stage = ResumeStage::AwaitSocket;
        }
    }

    fn resume_dials(&mut self, route: Route, bundle: Option<Bundle>, out: &mut Effects) {
        let Some(session) = &mut self.session else {
            return;
        };
        let Status::Recovering(recovery) = &mut session.status else {
            return;
        };
        self.last.epoch = self.last.epoch.next();
        let epoch = self.last.epoch;
        recovery.stage = ResumeStage::Connecting(Connecting {
            epoch,
            bundle,
            down: None,
        });
        let (op, resume) = (Op::Recovery(recovery.id), Some(session.id));
        out.push(Effect::SpawnConnector {
            op,
            epoch,
            route,
            resume,
        });
    }

    pub(crate) fn recovery_looked_up(
        &mut self,
        lookup: LookupTag,
        result: Result<Bundle, Failure>,
        out: &mut Effects,
    ) {
        let Some(session) = &self.session else {
            return stale(out);
        };
        match &session.status {
            Status::Recovering(recovery) if recovery.looks_up(lookup) => match result {
                // Before dialling: another key is another executor, which cannot know the session (R13).
                Ok(bundle) if session.key != Some(bundle.key) => {
                    self.recovery_over(End::KeyChanged, out)
                }
                Ok(bundle) => self.resume_dials(Route::Bundle(bundle), Some(bundle), out),
                Err(failure) => self.resume_failed(failure, out),
            },
            _ => stale(out),
        }
    }

    pub(crate) fn recovery_connect_failed(
        &mut self,
        id: RecoveryId,
        epoch: Epoch,
        failure: Failure,
        out: &mut Effects,
    ) {
        match self.recovery(id) {
            Some(recovery) if recovery.connects(epoch) => self.resume_failed(failure, out),
            _ => stale(out),
        }
    }

    pub(crate) fn recovery_connected(
        &mut self,
        id: RecoveryId,
        epoch: Epoch,
        answered: SessionId,
        out: &mut Effects,
    ) {
        let Some(session) = &mut self.session else {
            return stale_link(epoch, out);
        };
        let Status::Recovering(recovery) = &mut session.status else {
            return stale_link(epoch, out);
        };
        let ResumeStage::Connecting(Connecting { bundle, down, .. }) = recovery.stage else {
            return stale_link(epoch, out);
        };
        if recovery.id != id || !recovery.connects(epoch) {
            return stale_link(epoch, out);
        }
        // From here the link is ours to close.
        let registration = bundle.map(|bundle| bundle.registration);
        recovery.stage = ResumeStage::Replaying {
            epoch,
            registration,
        };
        if let Some(cause) = down {
            self.resume_failed(Failure::closed(cause), out);
        } else if answered != session.id {
            self.recovery_over(End::SessionChanged, out);
        } else {
            out.push(Effect::SpawnReplay {
                recovery: id,
                generation: session.generation,
                epoch,
            });
        }
    }

    /// One resume failed: try again later, or give up if it will not get better.
    pub(crate) fn resume_failed(&mut self, failure: Failure, out: &mut Effects) {
        let accepted = self.rules.transport == Transport::Accepted;
        let Some(recovery) = self.running_recovery() else {
            return;
        };
        let again = failure.class == Class::Unauthorized && recovery.unauthorized;
        if !failure.class.recovery_retryable() || again {
            return self.recovery_over(End::Fatal(failure), out);
        }
        recovery.drop_candidate(out);
        recovery.stage = ResumeStage::Waiting;
        recovery.last = Some(failure);
        recovery.unauthorized |= failure.class == Class::Unauthorized;
        let (id, earlier) = (recovery.id, recovery.failures);
        recovery.failures = earlier.saturating_add(1);
        out.push(Effect::Trace(Note::ResumeFailed(id, failure)));
        self.free_used_socket();
        if accepted {
            // The next try is the host's.
            self.resume_on_socket(out);
        } else {
            out.push(Effect::StartTimer(
                Timer::Retry(id),
                Wait::Backoff {
                    after: failure,
                    earlier,
                },
            ));
        }
    }
}

impl Recovery {
    pub(crate) fn new(id: RecoveryId, down: Down, restart: Option<CauseId>) -> Self {
        Self {
            id,
            down,
            failures: 0,
            last: None,
            unauthorized: false,
            lookups: 0,
            stage: ResumeStage::Draining { restart },
        }
    }

    pub(crate) fn looks_up(&self, lookup: LookupTag) -> bool {
        self.stage == ResumeStage::Looking && self.lookup() == lookup
    }

    pub(crate) fn connects(&self, epoch: Epoch) -> bool {
        matches!(&self.stage, ResumeStage::Connecting(connecting) if connecting.epoch == epoch)
    }

    /// The registration that comes with the link, if it is this recovery's and its replay runs.
    pub(crate) fn replays(&self, id: RecoveryId, epoch: Epoch) -> Option<Option<Registration>> {
        match self.stage {
            ResumeStage::Replaying {
                epoch: on,
                registration,
            } if (self.id, on) == (id, epoch) => Some(registration),
            _ => None,
        }
    }

    /// Ends everything that runs for it: the children and the timers.
    pub(crate) fn stop(&self, out: &mut Effects) {
        out.push(Effect::CancelTimer(Timer::Deadline(self.id)));
        if self.stage == ResumeStage::Waiting {
            out.push(Effect::CancelTimer(Timer::Retry(self.id)));
        }
        match &self.stage {
            ResumeStage::Draining { .. } | ResumeStage::Waiting | ResumeStage::AwaitSocket => {}
            ResumeStage::Looking => out.push(Effect::Stop(Child::Lookup(self.lookup()))),
            ResumeStage::Connecting(connecting) => {
                let op = Op::Recovery(self.id);
                out.push(Effect::Stop(Child::Connector(op, connecting.epoch)));
            }
            ResumeStage::Replaying { .. } => self.drop_candidate(out),
        }
    }

    /// A resume that failed has one thing left to clean up: the link that was to become current. Lookup and Handshake have
    /// reported.
    fn drop_candidate(&self, out: &mut Effects) {
        if let ResumeStage::Replaying { epoch, .. } = self.stage {
            out.push(Effect::Stop(Child::Replay(self.id, epoch)));
            out.push(Effect::CloseLink(epoch));
        }
    }

    /// The tag of its latest lookup.
    fn lookup(&self) -> LookupTag {
        LookupTag {
            op: Op::Recovery(self.id),
            turn: self.lookups.saturating_sub(1),
        }
    }
}
