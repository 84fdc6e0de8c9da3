//! Callers: who gets which session, and when one is obtained (3.1–3.3).

use crate::cause::Cause;
use crate::config::Transport;
use crate::effect::Answer;
use crate::event::Mode;
use crate::ids::{Epoch, Gen, WaiterId};
use crate::machine::{Effects, Machine, reply};
use crate::state::{AttemptKind, Session, Status, Want};

impl Machine {
    pub(crate) fn acquire(&mut self, mode: Mode, waiter: WaiterId, out: &mut Effects) {
        match mode {
            Mode::FailFast => reply(waiter, self.acquire_fail_fast(), out),
            Mode::Wait => match &self.session {
                // Even while it is recovering: its calls wait.
                Some(session) if !session.failed() => {
                    reply(waiter, Answer::Session(session.generation), out)
                }
                // Its calls fail with its cause.
                Some(session) if !self.rules.can_reconnect() => {
                    reply(waiter, Answer::Session(session.generation), out);
                }
                Some(_) | None => self.connect(Some((waiter, Want::Session)), out),
            },
        }
    }

    /// Never starts, waits for or recovers anything (R10).
    fn acquire_fail_fast(&self) -> Answer {
        match &self.session {
            Some(Session {
                generation,
                status: Status::Connected(_),
                ..
            }) => Answer::Session(*generation),
            Some(Session {
                status: Status::Recovering(_),
                ..
            }) => Answer::Failed(Cause::Recovering),
            Some(Session {
                status: Status::Failed(cause),
                ..
            }) => Answer::Failed(*cause),
            None => Answer::Failed(match self.startup.result {
                Some(Err(failure)) if !self.startup.superseded => Cause::Attempt(failure),
                _ => Cause::NotReady,
            }),
        }
    }

    /// A holder of a session waits for its link.
    pub(crate) fn await_link(
        &mut self,
        generation: Gen,
        dead: Option<Epoch>,
        waiter: WaiterId,
        out: &mut Effects,
    ) {
        let Some(session) = self
            .session
            .as_mut()
            .filter(|session| session.generation == generation)
        else {
            return reply(waiter, Answer::Failed(Cause::NotCurrent), out);
        };
        match &session.status {
            Status::Connected(epoch) if dead != Some(*epoch) => {
                reply(waiter, Answer::Link(generation, *epoch), out)
            }
            // The link's report is behind this request in the mailbox.
            Status::Connected(_) | Status::Recovering(_) => session.waiters.push(waiter),
            Status::Failed(cause) => reply(waiter, Answer::Failed(*cause), out),
        }
    }

    pub(crate) fn await_ready(&mut self, waiter: WaiterId, out: &mut Effects) {
        let usable = self
            .session
            .as_ref()
            .is_some_and(|session| !session.failed());
        let started = self.startup.result == Some(Ok(())) && !self.startup.superseded;
        if usable || started {
            reply(waiter, Answer::Ready, out);
        } else {
            self.connect(Some((waiter, Want::Ready)), out);
        }
    }

    pub(crate) fn start_connecting(&mut self, out: &mut Effects) {
        // Starting a program stays lazy.
        if self.rules.transport != Transport::Once && self.session.is_none() {
            self.connect(None, out);
        }
    }

    /// Joins the running attempt, or starts one, or answers from the startup memory. There is no usable session.
    fn connect(&mut self, waiter: Option<(WaiterId, Want)>, out: &mut Effects) {
        if let Some(attempt) = &mut self.attempt {
            attempt.waiters.extend(waiter);
            return;
        }
        let waiters = waiter.into_iter().collect();
        let reconnect = self.session.is_some() || self.startup.superseded;
        match self.startup.result {
            _ if reconnect => self.start_attempt(AttemptKind::Reconnect, None, waiters, out),
            None => self.start_attempt(AttemptKind::Startup, None, waiters, out),
            Some(Err(failure))
                if self.rules.can_reconnect() && failure.class.may_retry_startup() =>
            {
                self.start_attempt(AttemptKind::Reconnect, None, waiters, out);
            }
            Some(Err(failure)) => {
                for (waiter, _) in waiters {
                    reply(waiter, Answer::Failed(Cause::Attempt(failure)), out);
                }
            }
            // A started session is current until a refresh retires it, and that supersedes the startup.
            Some(Ok(())) => self.start_attempt(AttemptKind::Reconnect, None, waiters, out),
        }
    }

    /// The credentials that a remembered startup failure is about are not the ones in use any more (W15).
    pub(crate) fn credentials_changed(&mut self, out: &mut Effects) {
        if let Some(Err(_)) = self.startup.result {
            self.startup.result = None;
        }
        self.end_cooldown(out);
    }

    /// The caller is gone. An attempt goes on without it; a refresh that nobody waits for does not.
    pub(crate) fn forget(&mut self, waiter: WaiterId, out: &mut Effects) {
        if let Some(session) = &mut self.session {
            session.waiters.retain(|one| *one != waiter);
        }
        if let Some(attempt) = &mut self.attempt {
            attempt.waiters.retain(|(one, _)| *one != waiter);
        }
        self.forget_refresh(waiter, out);
    }
}
