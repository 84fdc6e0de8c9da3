//! One attempt at a time to obtain a new session (3.4), and the pauses between attempts that fail (W16).

use crate::cause::{Cause, Class, Failure};
use crate::config::Transport;
use crate::conn::LinkSlot;
use crate::effect::{Answer, Effect, Outcome, Route, Wait};
use crate::event::{Bundle, Provisioning};
use crate::ids::{AttemptId, Child, Epoch, Gen, LookupTag, Op, SessionId, Timer, WaiterId};
use crate::machine::{Effects, Machine, reply, stale, stale_link};
use crate::state::{Attempt, AttemptKind, AttemptStage, Connecting, Session, Status, Want};

impl Machine {
    /// Starts an attempt; there is none. A replacement comes with the bundle its refresh decided on.
    pub(crate) fn start_attempt(
        &mut self,
        kind: AttemptKind,
        prefetched: Option<Bundle>,
        waiters: Vec<(WaiterId, Want)>,
        out: &mut Effects,
    ) {
        self.last.attempt = self.last.attempt.next();
        self.attempt = Some(Attempt {
            id: self.last.attempt,
            kind,
            observed: self.last.generation == Gen::default() && kind != AttemptKind::Replacement,
            prefetched,
            looked_again: false,
            stage: AttemptStage::Cooling,
            waiters,
        });
        self.advance_attempt(out);
    }

    /// Moves an attempt that has not begun as far as it gets: past the cooldown, past provisioning, to its lookup or dial.
    fn advance_attempt(&mut self, out: &mut Effects) {
        let Some(attempt) = &mut self.attempt else {
            return;
        };
        if !matches!(
            attempt.stage,
            AttemptStage::Cooling | AttemptStage::Provisioning
        ) {
            return;
        }
        if self.cooldown.timer.is_some() {
            attempt.stage = AttemptStage::Cooling;
            return;
        }
        match self.provisioning {
            Provisioning::Pending => attempt.stage = AttemptStage::Provisioning,
            Provisioning::Failed(failure) => self.attempt_failed(failure, out),
            Provisioning::Ready => match (self.rules.transport, attempt.prefetched.take()) {
                (Transport::Noise, None) => {
                    attempt.stage = AttemptStage::Looking;
                    out.push(Effect::SpawnLookup(attempt.lookup()));
                }
                (_, bundle) => self.attempt_dials(bundle, out),
            },
        }
    }

    fn attempt_dials(&mut self, bundle: Option<Bundle>, out: &mut Effects) {
        let Some(attempt) = &mut self.attempt else {
            return;
        };
        self.last.epoch = self.last.epoch.next();
        let epoch = self.last.epoch;
        attempt.stage = AttemptStage::Connecting(Connecting {
            epoch,
            bundle,
            down: None,
        });
        let route = bundle.map_or(Route::Configured, Route::Bundle);
        // No resume id: a fresh session.
        out.push(Effect::SpawnConnector {
            op: Op::Attempt(attempt.id),
            epoch,
            route,
            resume: None,
        });
    }

    pub(crate) fn attempt_looked_up(
        &mut self,
        lookup: LookupTag,
        result: Result<Bundle, Failure>,
        out: &mut Effects,
    ) {
        match &self.attempt {
            Some(attempt) if attempt.looks_up(lookup) => match result {
                Ok(bundle) => self.attempt_dials(Some(bundle), out),
                Err(failure) => self.attempt_failed(failure, out),
            },
            _ => stale(out),
        }
    }

    pub(crate) fn attempt_connect_failed(
        &mut self,
        id: AttemptId,
        epoch: Epoch,
        failure: Failure,
        out: &mut Effects,
    ) {
        let Some(attempt) = self
            .attempt
            .as_mut()
            .filter(|attempt| attempt.connects(id, epoch))
        else {
            return stale(out);
        };
        // The bundle had gone stale: one new lookup.
        if failure.class == Class::Unauthorized && self.rules.can_refresh() && !attempt.looked_again
        {
            attempt.looked_again = true;
            attempt.stage = AttemptStage::Looking;
            out.push(Effect::SpawnLookup(attempt.lookup()));
        } else {
            self.attempt_failed(failure, out);
        }
    }

    pub(crate) fn attempt_connected(
        &mut self,
        id: AttemptId,
        epoch: Epoch,
        session: SessionId,
        out: &mut Effects,
    ) {
        let Some(attempt) = self.attempt.take_if(|attempt| attempt.connects(id, epoch)) else {
            return stale_link(epoch, out);
        };
        let AttemptStage::Connecting(Connecting { bundle, down, .. }) = attempt.stage else {
            return;
        };
        if let Some(cause) = down {
            out.push(Effect::CloseLink(epoch));
            self.end_attempt(
                attempt,
                Failure {
                    cause,
                    class: Class::Closed,
                },
                out,
            );
        } else {
            self.install(attempt, epoch, session, bundle, out);
        }
    }

    /// The new session becomes current; everybody who waited for it gets it.
    fn install(
        &mut self,
        attempt: Attempt,
        epoch: Epoch,
        id: SessionId,
        bundle: Option<Bundle>,
        out: &mut Effects,
    ) {
        self.last.generation = self.last.generation.next();
        let generation = self.last.generation;
        self.registration = bundle.map(|bundle| bundle.registration);
        self.session = Some(Session {
            generation,
            id,
            key: bundle.map(|bundle| bundle.key),
            registration: self.registration,
            status: Status::Connected(epoch),
            waiters: Vec::new(),
        });
        if attempt.kind == AttemptKind::Startup {
            self.startup.result = Some(Ok(()));
        }
        self.end_cooldown(out);
        out.push(Effect::Install {
            generation,
            epoch,
            session: id,
        });
        out.push(Effect::PublishSlot(generation, LinkSlot::Up(epoch)));
        self.publish_conn(out);
        if attempt.observed {
            out.push(Effect::Observe(attempt.id, Outcome::Success));
        }
        for (waiter, want) in attempt.waiters {
            let answer = match want {
                Want::Session => Answer::Session(generation),
                Want::Ready => Answer::Ready,
            };
            reply(waiter, answer, out);
        }
        self.replacement_installed(attempt.id, out);
    }

    pub(crate) fn attempt_failed(&mut self, failure: Failure, out: &mut Effects) {
        if let Some(attempt) = self.attempt.take() {
            self.end_attempt(attempt, failure, out);
        }
    }

    /// The attempt is forgotten; all its waiters share its error.
    fn end_attempt(&mut self, attempt: Attempt, failure: Failure, out: &mut Effects) {
        if attempt.kind == AttemptKind::Startup {
            self.startup.result = Some(Err(failure));
        }
        // A failed provisioning costs nobody anything, and its change is what everybody waits for.
        if failure.class != Class::Provisioning {
            self.cool_down(attempt.id, failure, out);
        }
        attempt.observe(Outcome::Failure, out);
        for (waiter, _) in attempt.waiters {
            reply(waiter, Answer::Failed(Cause::Attempt(failure)), out);
        }
        self.replacement_failed(attempt.id, failure, out);
    }

    /// A refresh decided for another executor: from here this attempt can install nothing (R2).
    pub(crate) fn supersede_attempt(&mut self, out: &mut Effects) {
        let Some(attempt) = self.attempt.take() else {
            return;
        };
        attempt.stop(out);
        attempt.observe(Outcome::Cancelled, out);
        for (waiter, _) in attempt.waiters {
            reply(waiter, Answer::Failed(Cause::Superseded), out);
        }
    }

    /// The environment manager's report. It matters to an attempt that waits, and to later ones.
    pub(crate) fn provisioning_changed(&mut self, now: Provisioning, out: &mut Effects) {
        if !self.rules.deferred {
            return stale(out);
        }
        self.provisioning = now;
        self.end_cooldown(out);
    }

    /// The first attempt after a failure starts at once, later ones wait.
    fn cool_down(&mut self, attempt: AttemptId, failure: Failure, out: &mut Effects) {
        if let Some(earlier) = self.cooldown.failures.checked_sub(1) {
            self.cooldown.timer = Some(attempt);
            out.push(Effect::StartTimer(
                Timer::Cooldown(attempt),
                Wait::Backoff {
                    after: failure,
                    earlier,
                },
            ));
        }
        self.cooldown.failures = self.cooldown.failures.saturating_add(1);
    }

    pub(crate) fn cooldown_over(&mut self, attempt: AttemptId, out: &mut Effects) {
        if self.cooldown.timer != Some(attempt) {
            return stale(out);
        }
        self.cooldown.timer = None;
        self.advance_attempt(out);
    }

    /// Something changed for the better: what waits starts now, and failures count from zero.
    pub(crate) fn end_cooldown(&mut self, out: &mut Effects) {
        self.cooldown.failures = 0;
        if let Some(attempt) = self.cooldown.timer.take() {
            out.push(Effect::CancelTimer(Timer::Cooldown(attempt)));
        }
        self.advance_attempt(out);
    }
}

impl Attempt {
    /// The tag of its latest lookup.
    pub(crate) fn lookup(&self) -> LookupTag {
        LookupTag {
            op: Op::Attempt(self.id),
            turn: u32::from(self.looked_again),
        }
    }

    pub(crate) fn looks_up(&self, lookup: LookupTag) -> bool {
        self.stage == AttemptStage::Looking && self.lookup() == lookup
    }

    /// Whether this link is the one it is connecting.
    pub(crate) fn connects(&self, id: AttemptId, epoch: Epoch) -> bool {
        self.id == id
            && matches!(&self.stage, AttemptStage::Connecting(connecting) if connecting.epoch == epoch)
    }

    pub(crate) fn stop(&self, out: &mut Effects) {
        match &self.stage {
            AttemptStage::Cooling | AttemptStage::Provisioning => {}
            AttemptStage::Looking => out.push(Effect::Stop(Child::Lookup(self.lookup()))),
            AttemptStage::Connecting(connecting) => {
                out.push(Effect::Stop(Child::Connector(
                    Op::Attempt(self.id),
                    connecting.epoch,
                )));
            }
        }
    }

    /// Tells the observer, unless it never got past provisioning.
    pub(crate) fn observe(&self, outcome: Outcome, out: &mut Effects) {
        let begun = matches!(
            self.stage,
            AttemptStage::Looking | AttemptStage::Connecting(_)
        );
        if self.observed && begun {
            out.push(Effect::Observe(self.id, outcome));
        }
    }
}
