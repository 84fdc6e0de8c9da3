//! Sockets that the host supplies (5.7). One handoff at a time: claimed, queued, in use, free again when its resume has ended.

use crate::cause::{Cause, Down};
use crate::config::Transport;
use crate::effect::{Answer, Effect};
use crate::ids::{ClaimId, SocketId, Timer, WaiterId};
use crate::machine::{Effects, Machine, reply};
use crate::state::{Handoff, Recovery, ResumeStage, Status};

impl Machine {
    pub(crate) fn claim_replacement(&mut self, waiter: WaiterId, out: &mut Effects) {
        let answer = match (self.why_no_handoff(), self.handoff) {
            (Some(cause), _) => Answer::Failed(cause),
            (None, Some(_)) => Answer::Failed(Cause::HandoffInProgress),
            (None, None) => {
                self.last.claim = self.last.claim.next();
                self.handoff = Some(Handoff::Claimed(self.last.claim));
                Answer::Claim(self.last.claim)
            }
        };
        reply(waiter, answer, out);
    }

    /// T12. Whoever gets `SocketTaken` knows that somebody will use the socket: the session has not failed in this very step.
    pub(crate) fn replace_socket(
        &mut self,
        claim: ClaimId,
        socket: SocketId,
        waiter: WaiterId,
        out: &mut Effects,
    ) {
        if self.handoff != Some(Handoff::Claimed(claim)) {
            return reply(waiter, Answer::Failed(Cause::HandoffInProgress), out);
        }
        if let Some(cause) = self.why_no_handoff() {
            self.handoff = None;
            return reply(waiter, Answer::Failed(cause), out);
        }
        self.handoff = Some(Handoff::Queued(claim, socket));
        reply(waiter, Answer::SocketTaken, out);
        match self.session.as_ref().map(|session| &session.status) {
            Some(Status::Connected(epoch)) => {
                out.push(Effect::CloseLink(*epoch));
                self.recover(Down::SocketReplaced, None, out);
            }
            Some(Status::Recovering(Recovery {
                stage: ResumeStage::AwaitSocket,
                ..
            })) => self.resume_on_socket(out),
            // It waits for a restart that is over, as the socket shows.
            Some(Status::Recovering(Recovery {
                id,
                stage: ResumeStage::Waiting,
                ..
            })) => {
                out.push(Effect::CancelTimer(Timer::Retry(*id)));
                self.resume_on_socket(out);
            }
            // It gets its turn when the stage ends.
            Some(Status::Recovering(_)) | Some(Status::Failed(_)) | None => {}
        }
    }

    pub(crate) fn abandon_claim(&mut self, claim: ClaimId) {
        if self.handoff == Some(Handoff::Claimed(claim)) {
            self.handoff = None;
        }
    }

    /// The resume that used the socket has ended.
    pub(crate) fn free_used_socket(&mut self) {
        if let Some(Handoff::InUse(_)) = self.handoff {
            self.handoff = None;
        }
    }

    fn why_no_handoff(&self) -> Option<Cause> {
        if self.rules.transport != Transport::Accepted {
            return Some(Cause::CannotReplaceSocket);
        }
        match self.session.as_ref().map(|session| &session.status) {
            None => Some(Cause::NotReady),
            Some(Status::Failed(cause)) => Some(*cause),
            Some(Status::Connected(_) | Status::Recovering(_)) => None,
        }
    }
}
