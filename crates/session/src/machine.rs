//! The supervisor's decisions: one event in, a list of effects out.
//!
//! | part | file |
//! |---|---|
//! | what it knows | `state` |
//! | callers, startup memory | `acquire` |
//! | a new session | `attempt` |
//! | the same session on a new link | `recovery`, `handoff` |
//! | planned replacement | `refresh` |
//! | how a session ends | `retire` |
//! | what others see | `publish` |
//! | crashed children | `child_gone` |

use crate::cause::Failure;
use crate::config::Rules;
use crate::conn::ConnState;
use crate::effect::{Answer, Effect, Note};
use crate::event::{Event, Provisioning};
use crate::ids::{BundleId, CauseId, Op, Registration, SocketId, Timer, WaiterId};
use crate::state::{
    Attempt, AttemptStage, Connecting, Cooldown, Counters, Handoff, Refreshes, ResumeStage,
    Session, Startup, Status,
};

/// The state of one environment client. Equal states behave equally.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Machine {
    pub(crate) rules: Rules,
    pub(crate) last: Counters,
    pub(crate) session: Option<Session>,
    pub(crate) attempt: Option<Attempt>,
    pub(crate) refreshes: Refreshes,
    pub(crate) startup: Startup,
    pub(crate) cooldown: Cooldown,
    pub(crate) provisioning: Provisioning,
    pub(crate) handoff: Option<Handoff>,
    /// Crashes that still count.
    pub(crate) panics: u32,
    /// Registration of the last installed session.
    pub(crate) registration: Option<Registration>,
    /// The last published value.
    pub(crate) conn: ConnState,
    pub(crate) shut_down: bool,
}

/// What the machine may still name: everything else of these kinds the shell may forget, once it has applied the effects of the step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Errors.
    pub causes: Vec<CauseId>,
    /// The registry answer that waits for provisioning.
    pub bundle: Option<BundleId>,
    /// The host's socket that waits for its turn.
    pub socket: Option<SocketId>,
}

/// The effects of a step, in order.
pub(crate) type Effects = Vec<Effect>;

impl Machine {
    /// Nothing connected, nothing asked for.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            last: Counters::default(),
            session: None,
            attempt: None,
            refreshes: Refreshes::default(),
            startup: Startup::default(),
            cooldown: Cooldown::default(),
            provisioning: if rules.deferred {
                Provisioning::Pending
            } else {
                Provisioning::Ready
            },
            handoff: None,
            panics: 0,
            registration: None,
            conn: ConnState::Disconnected,
            shut_down: false,
        }
    }

    /// Takes one event and says what to do, in order.
    pub fn step(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        let out = &mut effects;
        if self.shut_down {
            self.after_shutdown(event, out);
            return effects;
        }
        match event {
            Event::Acquire { mode, waiter } => self.acquire(mode, waiter, out),
            Event::AwaitLink {
                generation,
                dead,
                waiter,
            } => self.await_link(generation, dead, waiter, out),
            Event::AwaitReady { waiter } => self.await_ready(waiter, out),
            Event::StartConnecting => self.start_connecting(out),
            Event::Refresh { waiter } => self.refresh(waiter, out),
            Event::Snapshot { waiter } => reply(waiter, Answer::Snapshot(self.snapshot()), out),
            Event::ForgetWaiter(waiter) => self.forget(waiter, out),
            Event::ClaimReplacement { waiter } => self.claim_replacement(waiter, out),
            Event::ReplaceSocket {
                claim,
                socket,
                waiter,
            } => self.replace_socket(claim, socket, waiter, out),
            Event::AbandonClaim(claim) => self.abandon_claim(claim),
            Event::ProvisioningChanged(now) => self.provisioning_changed(now, out),
            Event::PolicyPublished => self.end_cooldown(out),
            Event::CredentialsChanged => self.credentials_changed(out),
            Event::LookupDone { lookup, result } => match lookup.op {
                Op::Attempt(_) => self.attempt_looked_up(lookup, result, out),
                Op::Recovery(_) => self.recovery_looked_up(lookup, result, out),
                Op::Refresh(_) => self.refresh_looked_up(lookup, result, out),
            },
            Event::LinkReady { op, epoch, session } => match op {
                Op::Attempt(id) => self.attempt_connected(id, epoch, session, out),
                Op::Recovery(id) => self.recovery_connected(id, epoch, session, out),
                // A refresh connects through its attempt.
                Op::Refresh(_) => stale_link(epoch, out),
            },
            Event::ConnectFailed {
                op,
                epoch,
                stage: _,
                failure,
            } => self.connect_failed(op, epoch, failure, out),
            Event::ReplayDone {
                recovery,
                epoch,
                result,
            } => self.replay_done(recovery, epoch, result, out),
            Event::StartsDrained(recovery) => self.starts_drained(recovery, out),
            Event::LinkDown {
                epoch,
                cause,
                restart,
            } => self.link_down(epoch, cause, restart, out),
            Event::LinkFault {
                epoch,
                fault,
                cause,
            } => self.link_fault(epoch, fault, cause, out),
            Event::ProbeDone {
                refresh,
                epoch,
                result,
            } => self.probe_done(refresh, epoch, result, out),
            Event::Due(Timer::Deadline(recovery)) => self.deadline_hit(recovery, out),
            Event::Due(Timer::Retry(recovery)) => self.retry_due(recovery, out),
            Event::Due(Timer::Cooldown(attempt)) => self.cooldown_over(attempt, out),
            Event::Due(Timer::Panic(_)) => self.panics = self.panics.saturating_sub(1),
            Event::ChildGone { child, how } => self.child_gone(child, how, out),
            Event::Nudge => self.nudge(out),
            Event::Shutdown { waiter } => self.shut_down(waiter, out),
            Event::RetireForTest(generation) => self.retire_for_test(generation, out),
        }
        effects
    }

    /// What the shell must keep.
    #[must_use]
    pub fn keeps(&self) -> Kept {
        let mut kept = Kept::default();
        let failure = |kept: &mut Kept, failure: Failure| kept.causes.push(failure.cause);
        if let Some(Err(remembered)) = self.startup.result {
            failure(&mut kept, remembered);
        }
        if let Provisioning::Failed(told) = self.provisioning {
            failure(&mut kept, told);
        }
        match self.session.as_ref().map(|session| &session.status) {
            Some(Status::Failed(cause)) => kept.causes.extend(cause.causes()),
            Some(Status::Recovering(recovery)) => {
                kept.causes.extend(recovery.down.cause());
                kept.causes.extend(recovery.last.map(|last| last.cause));
                match &recovery.stage {
                    ResumeStage::Draining { restart } => kept.causes.extend(*restart),
                    ResumeStage::Connecting(connecting) => kept.causes.extend(connecting.down),
                    ResumeStage::Waiting
                    | ResumeStage::AwaitSocket
                    | ResumeStage::Looking
                    | ResumeStage::Replaying { .. } => {}
                }
            }
            Some(Status::Connected(_)) | None => {}
        }
        if let Some(attempt) = &self.attempt {
            if let AttemptStage::Connecting(Connecting { down, .. }) = &attempt.stage {
                kept.causes.extend(*down);
            }
            kept.bundle = attempt.prefetched.map(|bundle| bundle.id);
        }
        if let Some(Handoff::Queued(_, socket)) = self.handoff {
            kept.socket = Some(socket);
        }
        kept
    }

    /// Whether this operation is under way.
    #[must_use]
    pub fn is_live(&self, op: Op) -> bool {
        match op {
            Op::Attempt(id) => self
                .attempt
                .as_ref()
                .is_some_and(|attempt| attempt.id == id),
            Op::Recovery(id) => matches!(
                self.session.as_ref().map(|session| &session.status),
                Some(Status::Recovering(recovery)) if recovery.id == id
            ),
            Op::Refresh(id) => {
                let refreshes = [&self.refreshes.active, &self.refreshes.overtaker];
                refreshes
                    .into_iter()
                    .flatten()
                    .any(|refresh| refresh.id == id)
            }
        }
    }

    /// Handshake's failure goes to whoever asked for the link.
    fn connect_failed(
        &mut self,
        op: Op,
        epoch: crate::ids::Epoch,
        failure: Failure,
        out: &mut Effects,
    ) {
        match op {
            Op::Attempt(id) => self.attempt_connect_failed(id, epoch, failure, out),
            Op::Recovery(id) => self.recovery_connect_failed(id, epoch, failure, out),
            Op::Refresh(_) => stale(out),
        }
    }

    /// The network is back or the machine woke up.
    fn nudge(&mut self, out: &mut Effects) {
        self.nudge_recovery(out);
        self.end_cooldown(out);
    }
}

pub(crate) fn reply(waiter: WaiterId, answer: Answer, out: &mut Effects) {
    out.push(Effect::Reply(waiter, answer));
}

/// An event whose tag is not live changes nothing.
pub(crate) fn stale(out: &mut Effects) {
    out.push(Effect::Trace(Note::Stale));
}

/// A link that nobody wants any more must not stay open.
pub(crate) fn stale_link(epoch: crate::ids::Epoch, out: &mut Effects) {
    stale(out);
    out.push(Effect::CloseLink(epoch));
}
