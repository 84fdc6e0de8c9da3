//! Keeping the same session over the loss of its link (5): what starts a recovery, and how it ends. `resume` has the tries between.

use crate::cause::{Cause, Down, End, Failure};
use crate::conn::LinkSlot;
use crate::effect::{Answer, Effect, Wait};
use crate::event::Fault;
use crate::ids::{CauseId, Epoch, RecoveryId, Timer};
use crate::machine::{Effects, Machine, reply, stale};
use crate::state::{AttemptStage, Connecting, Recovery, ResumeStage, Session, Status};

impl Machine {
    /// T1, T5. The report counts for the current link, and for the one that is to become current.
    pub(crate) fn link_down(
        &mut self,
        epoch: Epoch,
        cause: CauseId,
        restart: bool,
        out: &mut Effects,
    ) {
        if self.current_link() == Some(epoch) {
            self.recover(Down::Told(cause), restart.then_some(cause), out);
        } else if self.replays_on(epoch) {
            self.resume_failed(Failure::closed(cause), out);
        } else if let Some(connecting) = self.connecting(epoch) {
            // Handshake reports too, and knows more.
            connecting.down = Some(cause);
        } else {
            stale(out);
        }
    }

    /// T2 and T4: the link is closed first, so that its pending calls end.
    pub(crate) fn link_fault(
        &mut self,
        epoch: Epoch,
        fault: Fault,
        cause: CauseId,
        out: &mut Effects,
    ) {
        let moves = match fault {
            Fault::BadId | Fault::DuplicateId | Fault::BadNotification => true,
            // Only the caller's call is lost when there is nothing to recover with.
            Fault::RpcTimeout => self.rules.can_recover(),
        };
        if !moves {
            stale(out);
        } else if self.current_link() == Some(epoch) {
            out.push(Effect::CloseLink(epoch));
            self.recover(Down::Told(cause), None, out);
        } else if self.replays_on(epoch) {
            self.resume_failed(Failure::closed(cause), out);
        } else if let Some(connecting) = self.connecting(epoch) {
            // It is not taken when Handshake reports it.
            connecting.down = Some(cause);
        } else {
            stale(out);
        }
    }

    /// Enters Recovering; the first resume follows when the starts of the dead link have ended (R14).
    pub(crate) fn recover(&mut self, down: Down, restart: Option<CauseId>, out: &mut Effects) {
        if !self.rules.can_recover() {
            return self.fail_session(
                Cause::Lost {
                    down,
                    end: End::NoStrategy,
                },
                out,
            );
        }
        let Some(session) = &mut self.session else {
            return;
        };
        let Status::Connected(epoch) = session.status else {
            return;
        };
        let generation = session.generation;
        self.last.recovery = self.last.recovery.next();
        let id = self.last.recovery;
        session.status = Status::Recovering(Recovery::new(id, down, restart));
        out.push(Effect::PublishSlot(generation, LinkSlot::Recovering));
        self.publish_conn(out);
        out.push(Effect::StartTimer(
            Timer::Deadline(id),
            Wait::RecoveryDeadline,
        ));
        out.push(Effect::FailStreams(generation, Cause::LinkLost(down)));
        out.push(Effect::DrainStarts {
            recovery: id,
            generation,
            epoch,
        });
    }

    /// T6: link and registration become visible in one step (R6), after the replay (R15).
    pub(crate) fn replay_done(
        &mut self,
        id: RecoveryId,
        epoch: Epoch,
        result: Result<(), Failure>,
        out: &mut Effects,
    ) {
        let Some(session) = &mut self.session else {
            return stale(out);
        };
        let Status::Recovering(recovery) = &session.status else {
            return stale(out);
        };
        let Some(registration) = recovery.replays(id, epoch) else {
            return stale(out);
        };
        if let Err(failure) = result {
            return self.resume_failed(failure, out);
        }
        let generation = session.generation;
        session.status = Status::Connected(epoch);
        session.registration = registration;
        let waiters = std::mem::take(&mut session.waiters);
        self.registration = registration;
        self.free_used_socket();
        out.push(Effect::CancelTimer(Timer::Deadline(id)));
        out.push(Effect::Relink { generation, epoch });
        out.push(Effect::PublishSlot(generation, LinkSlot::Up(epoch)));
        self.publish_conn(out);
        for waiter in waiters {
            reply(waiter, Answer::Link(generation, epoch), out);
        }
    }

    /// T8, whatever the recovery is doing.
    pub(crate) fn deadline_hit(&mut self, id: RecoveryId, out: &mut Effects) {
        let Some(recovery) = self.recovery(id) else {
            return stale(out);
        };
        let end = End::TimedOut {
            phase: recovery.stage.phase(),
            last: recovery.last,
        };
        self.recovery_over(end, out);
    }

    /// T8, T9.
    pub(crate) fn recovery_over(&mut self, end: End, out: &mut Effects) {
        if let Some(recovery) = self.running_recovery() {
            let down = recovery.down;
            self.fail_session(Cause::Lost { down, end }, out);
        }
    }

    /// The link that calls use.
    pub(crate) fn current_link(&self) -> Option<Epoch> {
        match self.session {
            Some(Session {
                status: Status::Connected(epoch),
                ..
            }) => Some(epoch),
            _ => None,
        }
    }

    /// Whether this link is initialised and its processes are catching up.
    pub(crate) fn replays_on(&self, epoch: Epoch) -> bool {
        match self.session.as_ref().map(|session| &session.status) {
            Some(Status::Recovering(recovery)) => recovery.replays(recovery.id, epoch).is_some(),
            _ => false,
        }
    }

    /// The running Handshake of this link, whoever it works for.
    pub(crate) fn connecting(&mut self, epoch: Epoch) -> Option<&mut Connecting> {
        let attempt = match self.attempt.as_mut().map(|attempt| &mut attempt.stage) {
            Some(AttemptStage::Connecting(connecting)) => Some(connecting),
            _ => None,
        };
        let recovery = match self.session.as_mut().map(|session| &mut session.status) {
            Some(Status::Recovering(Recovery {
                stage: ResumeStage::Connecting(connecting),
                ..
            })) => Some(connecting),
            _ => None,
        };
        attempt
            .into_iter()
            .chain(recovery)
            .find(|connecting| connecting.epoch == epoch)
    }

    pub(crate) fn running_recovery(&mut self) -> Option<&mut Recovery> {
        match self.session.as_mut().map(|session| &mut session.status) {
            Some(Status::Recovering(recovery)) => Some(recovery),
            _ => None,
        }
    }

    pub(crate) fn recovery(&mut self, id: RecoveryId) -> Option<&mut Recovery> {
        self.running_recovery().filter(|recovery| recovery.id == id)
    }
}
