//! How a session ends: failed, retired, shut down (2.3 T8–T11, 7). The order of the effects is the order in which others may learn of it.

use crate::cause::Cause;
use crate::conn::LinkSlot;
use crate::effect::{Answer, Effect, Outcome};
use crate::event::Event;
use crate::ids::{Gen, WaiterId};
use crate::machine::{Effects, Machine, reply, stale, stale_link};
use crate::state::{Session, Status};

impl Machine {
    /// Irrevocable. One step: whatever recovery or a caller does later finds the gate set.
    pub(crate) fn retire(&mut self, out: &mut Effects) {
        self.startup.superseded = true;
        let Some(session) = self.session.take() else {
            return;
        };
        out.push(Effect::SetGate(session.generation));
        self.publish_conn(out);
        out.push(Effect::PublishSlot(session.generation, LinkSlot::Retired));
        self.handoff = None;
        session.tear_down(Cause::Replaced, out);
    }

    /// T8, T9, and failures of our own. The failed session stays current until another replaces it.
    pub(crate) fn fail_session(&mut self, cause: Cause, out: &mut Effects) {
        let Some(session) = &mut self.session else {
            return;
        };
        let ended = std::mem::replace(session, session.ended(cause));
        match cause {
            // The link is dead: answers that were read before it died are true (R12).
            Cause::Lost { .. } => {}
            // It still works, and must deliver nothing more.
            _ => out.push(Effect::SetGate(ended.generation)),
        }
        out.push(Effect::PublishSlot(
            ended.generation,
            LinkSlot::Failed(cause),
        ));
        self.publish_conn(out);
        self.handoff = None;
        ended.tear_down(cause, out);
    }

    /// Ends everything. What comes later finds the machine shut down.
    pub(crate) fn shut_down(&mut self, waiter: WaiterId, out: &mut Effects) {
        self.shut_down = true;
        // A failed session keeps its cause.
        if let Some(session) = self.session.take().filter(|session| !session.failed()) {
            out.push(Effect::SetGate(session.generation));
            self.publish_conn(out);
            out.push(Effect::PublishSlot(
                session.generation,
                LinkSlot::Failed(Cause::ShutDown),
            ));
            session.tear_down(Cause::ShutDown, out);
        }
        if let Some(attempt) = self.attempt.take() {
            attempt.stop(out);
            attempt.observe(Outcome::Cancelled, out);
            for (waiter, _) in attempt.waiters {
                reply(waiter, Answer::Failed(Cause::ShutDown), out);
            }
        }
        self.end_refreshes(Cause::ShutDown, out);
        self.end_cooldown(out);
        self.handoff = None;
        reply(waiter, Answer::ShutDown, out);
    }

    pub(crate) fn after_shutdown(&mut self, event: Event, out: &mut Effects) {
        match event {
            Event::Acquire { waiter, .. }
            | Event::AwaitLink { waiter, .. }
            | Event::AwaitReady { waiter }
            | Event::Refresh { waiter }
            | Event::ClaimReplacement { waiter }
            | Event::ReplaceSocket { waiter, .. } => {
                reply(waiter, Answer::Failed(Cause::ShutDown), out)
            }
            Event::Snapshot { waiter } => reply(waiter, Answer::Snapshot(self.snapshot()), out),
            Event::Shutdown { waiter } => reply(waiter, Answer::ShutDown, out),
            Event::LinkReady { epoch, .. } => stale_link(epoch, out),
            _ => stale(out),
        }
    }

    pub(crate) fn retire_for_test(&mut self, generation: Gen, out: &mut Effects) {
        if self
            .session
            .as_ref()
            .is_some_and(|session| session.generation == generation)
        {
            self.retire(out);
        }
    }
}

impl Session {
    /// What is left of it when it has failed.
    fn ended(&self, cause: Cause) -> Session {
        Session {
            status: Status::Failed(cause),
            waiters: Vec::new(),
            ..self.clone()
        }
    }

    /// Waiters first, the slow clean-up last: nothing waits for it (R11).
    fn tear_down(self, cause: Cause, out: &mut Effects) {
        for waiter in &self.waiters {
            reply(*waiter, Answer::Failed(cause), out);
        }
        match &self.status {
            Status::Connected(epoch) => out.push(Effect::CloseLink(*epoch)),
            Status::Recovering(recovery) => recovery.stop(out),
            Status::Failed(_) => {}
        }
        out.push(Effect::FailProcesses(self.generation, cause));
        out.push(Effect::FailStreams(self.generation, cause));
    }
}
