//! Refresh: move to the executor that is registered now (6). One at a time; the head of the queue may overtake an attempt (W18).

use crate::cause::{Cause, Failure};
use crate::effect::{Answer, Effect, Note};
use crate::event::Bundle;
use crate::ids::{AttemptId, Child, Epoch, ExecutorKey, LookupTag, Op, RefreshId, WaiterId};
use crate::machine::{Effects, Machine, reply, stale};
use crate::state::{AttemptKind, AttemptStage, Observed, Refresh, RefreshStage, Session, Status};

/// What a refresh finds when its lookup is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Current {
    /// The session and its registration.
    pub seen: Observed,
    /// Its pinned key.
    pub key: Option<ExecutorKey>,
    /// It has failed.
    pub failed: bool,
}

/// What a refresh does with its lookup's answer (6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// The session changed meanwhile: look up again.
    LookUpAgain,
    /// It is with the registered executor already.
    Keep,
    /// Retire it and connect to what the bundle names.
    Replace,
}

/// Decides what a lookup's answer means for the session that is current now (6.3, R1).
#[must_use]
pub fn decide_refresh(
    observed: Option<Observed>,
    current: Option<Current>,
    bundle: &Bundle,
) -> Decision {
    if observed != current.map(|current| current.seen) {
        return Decision::LookUpAgain;
    }
    match current {
        Some(current)
            if !current.failed
                && current.seen.registration == Some(bundle.registration)
                && current.key == Some(bundle.key) =>
        {
            Decision::Keep
        }
        Some(_) | None => Decision::Replace,
    }
}

impl Machine {
    pub(crate) fn refresh(&mut self, waiter: WaiterId, out: &mut Effects) {
        if !self.rules.can_refresh() {
            return reply(waiter, Answer::Failed(Cause::CannotRefresh), out);
        }
        self.refreshes.queued.push(waiter);
        self.next_refresh(out);
    }

    /// Starts what may start: the next refresh, or the lookup of the one that may overtake.
    fn next_refresh(&mut self, out: &mut Effects) {
        if self.refreshes.active.is_none() {
            self.refreshes.active = self.refreshes.overtaker.take();
        }
        if self.refreshes.active.is_none() {
            self.refreshes.active = self.queued_refresh(out);
        }
        let attempting = |refresh: &Refresh| matches!(refresh.stage, RefreshStage::Attempting(_));
        if self.refreshes.active.as_ref().is_some_and(attempting)
            && self.refreshes.overtaker.is_none()
        {
            self.refreshes.overtaker = self.queued_refresh(out);
        }
    }

    /// All who queue share one refresh: its lookup is sent after they came, so it knows every executor they can mean (15.6).
    fn queued_refresh(&mut self, out: &mut Effects) -> Option<Refresh> {
        let callers = std::mem::take(&mut self.refreshes.queued);
        if callers.is_empty() {
            return None;
        }
        self.last.refresh = self.last.refresh.next();
        let id = self.last.refresh;
        out.push(Effect::SpawnLookup(LookupTag {
            op: Op::Refresh(id),
            turn: 0,
        }));
        let observed = self.current().map(|current| current.seen);
        Some(Refresh {
            id,
            callers,
            stage: RefreshStage::Looking { turn: 0, observed },
        })
    }

    pub(crate) fn refresh_looked_up(
        &mut self,
        lookup: LookupTag,
        result: Result<Bundle, Failure>,
        out: &mut Effects,
    ) {
        if let Some(refresh) = self
            .refreshes
            .active
            .take_if(|refresh| refresh.looks_up(lookup))
        {
            match result {
                Ok(bundle) => self.decide(refresh, bundle, out),
                Err(failure) => refresh.end(Answer::Failed(Cause::Told(failure)), out),
            }
        } else if let Some(refresh) = self
            .refreshes
            .overtaker
            .take_if(|refresh| refresh.looks_up(lookup))
        {
            match result {
                Ok(bundle) => self.overtake(refresh, bundle, out),
                Err(failure) => refresh.end(Answer::Failed(Cause::Told(failure)), out),
            }
        } else {
            return stale(out);
        }
        self.next_refresh(out);
    }

    /// One step, so that no installation and no recovery can come between the check and the claim (R3).
    fn decide(&mut self, mut refresh: Refresh, bundle: Bundle, out: &mut Effects) {
        let RefreshStage::Looking { turn, observed } = refresh.stage else {
            return;
        };
        let current = self.current();
        match decide_refresh(observed, current, &bundle) {
            Decision::LookUpAgain => {
                let turn = turn + 1;
                refresh.stage = RefreshStage::Looking {
                    turn,
                    observed: current.map(|current| current.seen),
                };
                out.push(Effect::Trace(Note::StaleLookup(refresh.id)));
                out.push(Effect::SpawnLookup(LookupTag {
                    op: Op::Refresh(refresh.id),
                    turn,
                }));
                self.refreshes.active = Some(refresh);
            }
            Decision::Keep => {
                self.end_cooldown(out);
                self.probe(refresh, out);
            }
            Decision::Replace => {
                self.retire(out);
                self.replace(refresh, bundle, out);
            }
        }
    }

    /// The attempt's executor may be outdated already (W18). If it is not, its result is the answer for both.
    fn overtake(&mut self, overtaker: Refresh, bundle: Bundle, out: &mut Effects) {
        let Some(mut active) = self.refreshes.active.take() else {
            return;
        };
        active.callers.extend(overtaker.callers);
        if self.attempt_goes_to(&bundle) {
            self.refreshes.active = Some(active);
        } else {
            out.push(Effect::Trace(Note::Overtaken(overtaker.id)));
            self.replace(active, bundle, out);
        }
    }

    /// Supersedes whatever connects, and connects to what this bundle names.
    fn replace(&mut self, mut refresh: Refresh, bundle: Bundle, out: &mut Effects) {
        self.supersede_attempt(out);
        self.end_cooldown(out);
        refresh.stage = RefreshStage::Attempting(self.last.attempt.next());
        self.refreshes.active = Some(refresh);
        self.start_attempt(AttemptKind::Replacement, Some(bundle), Vec::new(), out);
    }

    pub(crate) fn replacement_installed(&mut self, attempt: AttemptId, out: &mut Effects) {
        let Some(refresh) = self
            .refreshes
            .active
            .take_if(|refresh| refresh.attempts(attempt))
        else {
            return;
        };
        // What it has seen is history. It goes first when its turn comes, with a new lookup.
        if let Some(overtaker) = self.refreshes.overtaker.take() {
            overtaker.stop(out);
            self.refreshes.queued.splice(0..0, overtaker.callers);
        }
        self.probe(refresh, out);
        self.next_refresh(out);
    }

    pub(crate) fn replacement_failed(
        &mut self,
        attempt: AttemptId,
        failure: Failure,
        out: &mut Effects,
    ) {
        let Some(refresh) = self
            .refreshes
            .active
            .take_if(|refresh| refresh.attempts(attempt))
        else {
            return;
        };
        refresh.end(Answer::Failed(Cause::Attempt(failure)), out);
        self.next_refresh(out);
    }

    /// Success is a live answer from the chosen session, asked for after the decision (R9).
    fn probe(&mut self, mut refresh: Refresh, out: &mut Effects) {
        match &self.session {
            Some(Session {
                generation,
                status: Status::Connected(epoch),
                ..
            }) => {
                let (generation, epoch) = (*generation, *epoch);
                out.push(Effect::SpawnProbe {
                    refresh: refresh.id,
                    generation,
                    epoch,
                });
                refresh.stage = RefreshStage::Probing { generation, epoch };
                self.refreshes.active = Some(refresh);
            }
            // It does not wait for a recovery.
            _ => refresh.end(Answer::Failed(self.why_not_usable()), out),
        }
    }

    pub(crate) fn probe_done(
        &mut self,
        id: RefreshId,
        epoch: Epoch,
        result: Result<(), Failure>,
        out: &mut Effects,
    ) {
        let probed = |refresh: &mut Refresh| refresh.id == id && refresh.probes(epoch);
        let Some(refresh) = self.refreshes.active.take_if(probed) else {
            return stale(out);
        };
        let RefreshStage::Probing { generation, .. } = refresh.stage else {
            return;
        };
        let answer = match result {
            Ok(()) if self.current_link() == Some(epoch) => Answer::Refreshed(generation),
            // It answered, and then the link went.
            Ok(()) => Answer::Failed(self.why_not_usable()),
            Err(failure) => Answer::Failed(Cause::Told(failure)),
        };
        refresh.end(answer, out);
        self.next_refresh(out);
    }

    /// A child of a refresh is gone without a result: an error, nothing changed.
    pub(crate) fn refresh_crashed(&mut self, lost: impl Fn(&Refresh) -> bool, out: &mut Effects) {
        let active = self.refreshes.active.take_if(|refresh| lost(refresh));
        let Some(refresh) =
            active.or_else(|| self.refreshes.overtaker.take_if(|refresh| lost(refresh)))
        else {
            return;
        };
        refresh.end(Answer::Failed(Cause::Crashed), out);
        self.next_refresh(out);
    }

    /// Nobody is there to hear a refresh whose last caller is gone. An attempt of it that runs stays, for whoever comes next.
    pub(crate) fn forget_refresh(&mut self, waiter: WaiterId, out: &mut Effects) {
        self.refreshes.queued.retain(|one| *one != waiter);
        let abandoned = |refresh: &mut Refresh| {
            refresh.callers.retain(|one| *one != waiter);
            refresh.callers.is_empty()
        };
        let active = self.refreshes.active.take_if(abandoned);
        let overtaker = self.refreshes.overtaker.take_if(abandoned);
        for refresh in active.iter().chain(&overtaker) {
            refresh.stop(out);
        }
        self.next_refresh(out);
    }

    pub(crate) fn end_refreshes(&mut self, cause: Cause, out: &mut Effects) {
        for refresh in self
            .refreshes
            .active
            .take()
            .into_iter()
            .chain(self.refreshes.overtaker.take())
        {
            refresh.stop(out);
            refresh.end(Answer::Failed(cause), out);
        }
        for waiter in std::mem::take(&mut self.refreshes.queued) {
            reply(waiter, Answer::Failed(cause), out);
        }
    }

    fn current(&self) -> Option<Current> {
        self.session.as_ref().map(|session| Current {
            seen: Observed {
                generation: session.generation,
                registration: session.registration,
            },
            key: session.key,
            failed: session.failed(),
        })
    }

    fn attempt_goes_to(&self, bundle: &Bundle) -> bool {
        let Some(attempt) = &self.attempt else {
            return false;
        };
        let target = match &attempt.stage {
            AttemptStage::Connecting(connecting) => connecting.bundle,
            AttemptStage::Cooling | AttemptStage::Provisioning => attempt.prefetched,
            // It is asking again itself; what it will hear is not known.
            AttemptStage::Looking => None,
        };
        target.is_some_and(|target| {
            (target.registration, target.key) == (bundle.registration, bundle.key)
        })
    }

    fn why_not_usable(&self) -> Cause {
        match self.session.as_ref().map(|session| &session.status) {
            Some(Status::Failed(cause)) => *cause,
            Some(Status::Recovering(_) | Status::Connected(_)) => Cause::Recovering,
            None => Cause::Replaced,
        }
    }
}

impl Refresh {
    pub(crate) fn looks_up(&self, lookup: LookupTag) -> bool {
        let RefreshStage::Looking { turn, .. } = self.stage else {
            return false;
        };
        lookup
            == LookupTag {
                op: Op::Refresh(self.id),
                turn,
            }
    }

    fn attempts(&self, attempt: AttemptId) -> bool {
        self.stage == RefreshStage::Attempting(attempt)
    }

    fn probes(&self, epoch: Epoch) -> bool {
        matches!(self.stage, RefreshStage::Probing { epoch: on, .. } if on == epoch)
    }

    fn stop(&self, out: &mut Effects) {
        match self.stage {
            RefreshStage::Looking { turn, .. } => {
                out.push(Effect::Stop(Child::Lookup(LookupTag {
                    op: Op::Refresh(self.id),
                    turn,
                })));
            }
            RefreshStage::Attempting(_) => {}
            RefreshStage::Probing { .. } => out.push(Effect::Stop(Child::Probe(self.id))),
        }
    }

    fn end(self, answer: Answer, out: &mut Effects) {
        for waiter in self.callers {
            reply(waiter, answer, out);
        }
    }
}
