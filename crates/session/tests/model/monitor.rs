//! The invariants of one step, by their number in the specification.

use mainstay_session::ids::*;
use mainstay_session::publish::{View, publish};
use mainstay_session::*;

use crate::bounds::Bounds;
use crate::stale;
use crate::world::{Ask, SESSION, World};

impl World {
    /// One event, all its effects, all that must hold.
    pub(crate) fn next(&self, event: Event, bounds: &Bounds) -> World {
        let mut next = self.clone();
        next.pay(&event);
        next.happens(&event);
        let effects = next.machine.step(event);
        for effect in &effects {
            self.check_effect(&mut next, &event, effect);
            next.apply(effect);
        }
        self.check_step(&mut next, &event, &effects);
        next.settle();
        next.check_state(bounds);
        stale::check(&mut next);
        next
    }

    fn check_effect(&self, next: &mut World, event: &Event, effect: &Effect) {
        match *effect {
            Effect::SetGate(generation) => self.check_gate(next, event, generation),
            Effect::PublishSlot(generation, slot) => self.check_slot(next, generation, slot),
            Effect::Install {
                generation, epoch, ..
            } => {
                if generation.0 as usize != self.slots.len() + 1 {
                    next.breaks(1, "generations do not grow by one");
                }
                let live = match *event {
                    Event::LinkReady {
                        op: op @ Op::Attempt(_),
                        ..
                    } => self.children.contains(&Child::Connector(op, epoch)),
                    _ => false,
                };
                if !live {
                    next.breaks(4, "an attempt that is over installed a session");
                }
                if next.link(epoch).is_none_or(|link| link.resume) {
                    next.breaks(16, "a new session carries a resume id");
                }
            }
            Effect::Relink { epoch, .. } => {
                let link = next.link(epoch).copied();
                if link.is_none_or(|link| link.bundle.map(|(_, key)| key) != self.pinned) {
                    next.breaks(16, "a resume went to another key");
                }
                if link.is_none_or(|link| link.ready != Some(SESSION)) {
                    next.breaks(16, "a resume got another session");
                }
                if !matches!(event, Event::ReplayDone { result: Ok(()), epoch: on, .. } if *on == epoch)
                {
                    next.breaks(19, "a link is usable before its replay is done");
                }
            }
            Effect::SpawnConnector {
                op, epoch, resume, ..
            } => {
                if epoch <= self.tags.epoch {
                    next.breaks(1, "epochs do not grow");
                }
                let expected = matches!(op, Op::Recovery(_)).then_some(SESSION);
                if resume != expected {
                    next.breaks(16, "the resume id does not fit the operation");
                }
                let looked_up =
                    matches!(event, Event::LookupDone { lookup, .. } if lookup.op == op);
                if let (Op::Attempt(attempt), false, Transport::Noise) =
                    (op, looked_up, next.transport())
                {
                    next.replacement = attempt;
                }
            }
            Effect::SpawnReplay { recovery, .. } if next.drained != recovery => {
                next.breaks(19, "replay before the starts were drained");
            }
            Effect::Reply(waiter, answer) => self.check_reply(next, event, waiter, answer),
            Effect::Observe(attempt, _) => {
                if attempt <= self.told_observer {
                    next.breaks(26, "an attempt was observed twice");
                }
                if !self.slots.is_empty() {
                    next.breaks(26, "an attempt after the first session was observed");
                }
                if attempt == next.replacement {
                    next.breaks(26, "a refresh's attempt was observed");
                }
            }
            _ => {}
        }
    }

    fn check_gate(&self, next: &mut World, event: &Event, generation: Gen) {
        let Event::LookupDone {
            lookup:
                LookupTag {
                    op: Op::Refresh(refresh),
                    ..
                },
            ..
        } = *event
        else {
            return;
        };
        let snapshot = self.machine.snapshot();
        let seen = snapshot.session.map(|(generation, _)| Observed {
            generation,
            registration: snapshot.registration,
        });
        let observed = self
            .observed
            .iter()
            .find(|(one, _)| *one == refresh)
            .map(|(_, seen)| *seen);
        if observed != Some(seen) || seen.map(|seen| seen.generation) != Some(generation) {
            next.breaks(5, "a refresh retired what it had not observed");
        }
    }

    fn check_slot(&self, next: &mut World, generation: Gen, slot: LinkSlot) {
        let before = self.slot(generation);
        match (before, slot) {
            (Some(LinkSlot::Retired), _) => next.breaks(3, "a retired session moved"),
            (Some(LinkSlot::Failed(_)), LinkSlot::Retired) => {}
            (Some(LinkSlot::Failed(_)), _) => next.breaks(3, "a failed session moved"),
            _ => {}
        }
        if let LinkSlot::Up(epoch) = slot {
            let usable = |link: &crate::world::Link| {
                link.ready.is_some() && (!link.resume || link.replayed) && !link.reported_down
            };
            if !next.link(epoch).is_some_and(usable) {
                next.breaks(2, "a link is up that is not usable");
            }
            if generation.0 as usize != next.slots.len() || next.gates & (1 << generation.0) != 0 {
                next.breaks(2, "a link is up for a session that is not current");
            }
        }
    }

    fn check_reply(&self, next: &mut World, event: &Event, waiter: WaiterId, answer: Answer) {
        let Some((_, ask)) = next.waiters.iter().find(|(one, _)| *one == waiter).copied() else {
            return next.breaks(13, "an answer to nobody");
        };
        let current = next.current();
        match (ask, answer) {
            (Ask::Refresh, Answer::Refreshed(generation)) => {
                let probed = match event {
                    Event::ProbeDone {
                        result: Ok(()),
                        epoch,
                        ..
                    } => Some((generation, LinkSlot::Up(*epoch))),
                    _ => None,
                };
                if probed.is_none() || current != probed {
                    next.breaks(
                        10,
                        "a refresh succeeded without a live answer from the current link",
                    );
                }
                if matches!(current, Some((_, LinkSlot::Recovering))) {
                    next.breaks(11, "a refresh succeeded while recovering");
                }
            }
            (Ask::Session, Answer::Session(generation)) => {
                if current.map(|(generation, _)| generation) != Some(generation) {
                    next.breaks(13, "a session was handed out that is not current");
                }
            }
            (Ask::Link(asked), Answer::Link(generation, epoch)) => {
                if asked != generation || current != Some((generation, LinkSlot::Up(epoch))) {
                    next.breaks(13, "a link was handed out that is not current");
                }
            }
            (Ask::Ready, Answer::Ready) | (_, Answer::Failed(_)) | (Ask::Other, _) => {}
            (Ask::Session | Ask::Ready | Ask::Link(_) | Ask::Refresh, _) => {
                next.breaks(13, "an answer to another question");
            }
        }
        if let (Event::Acquire { .. }, Answer::Failed(Cause::Attempt(failure))) = (event, answer) {
            let remembered = !matches!(self.provisioning, Provisioning::Failed(_));
            if remembered && failure.class.may_retry_startup() && next.can_reconnect() {
                next.breaks(20, "a startup failure was remembered that could pass");
            }
        }
    }

    fn check_step(&self, next: &mut World, event: &Event, effects: &[Effect]) {
        check_order(next, effects);
        self.check_watch(next, effects);
        let (before, after) = (self.machine.snapshot(), next.machine.snapshot());
        let installed = effects.iter().find_map(|effect| match effect {
            Effect::Install { epoch, .. } | Effect::Relink { epoch, .. } => Some(*epoch),
            _ => None,
        });
        let right = match installed {
            Some(epoch) => next
                .link(epoch)
                .and_then(|link| link.bundle)
                .map(|(registration, _)| registration),
            None => before.registration,
        };
        if after.registration != right {
            next.breaks(15, "the registration is not that of the installed link");
        }
        if let Event::Due(Timer::Deadline(_)) = event
            && matches!(next.current(), Some((_, LinkSlot::Recovering)))
        {
            next.breaks(22, "still recovering after the deadline");
        }
        let failed_refresh = match event {
            Event::LookupDone {
                lookup,
                result: Err(_),
            } => matches!(lookup.op, Op::Refresh(_)),
            Event::ChildGone {
                child: Child::Lookup(lookup),
                ..
            } => matches!(lookup.op, Op::Refresh(_)),
            _ => false,
        };
        if failed_refresh {
            let mut without = self.machine.clone();
            if let Event::ChildGone { how, .. } = event {
                without.step(Event::ChildGone {
                    child: Child::Operation,
                    how: *how,
                });
            }
            for effect in effects {
                if let Effect::Reply(waiter, _) = effect {
                    without.step(Event::ForgetWaiter(*waiter));
                }
            }
            if without != next.machine {
                next.breaks(12, "a refresh that failed before its decision left traces");
            }
        }
    }

    /// 6 and 24: the watch shows the state, and wakes only when there is something to see.
    fn check_watch(&self, next: &mut World, effects: &[Effect]) {
        let wakes = |effect: &Effect| {
            matches!(
                effect,
                Effect::PublishSlot(_, LinkSlot::Failed(_) | LinkSlot::Retired)
            )
        };
        let mut shown = self.conn;
        for effect in effects {
            if let Effect::PublishConn(conn) = effect {
                if *conn == shown && !effects.iter().any(wakes) {
                    next.breaks(24, "the watch woke for nothing");
                }
                shown = *conn;
            }
        }
        let view = next.current().map(|(_, slot)| match slot {
            LinkSlot::Up(_) => View::Connected { link_open: true },
            LinkSlot::Recovering => View::Recovering,
            LinkSlot::Failed(_) => View::Failed,
            LinkSlot::Retired => View::Retired,
        });
        let over = next.machine.snapshot().phase == Phase::ShutDown;
        let right = if over {
            ConnState::Disconnected
        } else {
            publish(view, next.can_recover())
        };
        if shown != right || shown != next.machine.snapshot().conn {
            next.breaks(6, "the watch does not show the state");
        }
    }

    /// What holds between steps.
    fn check_state(&mut self, bounds: &Bounds) {
        let ops = |attempts: fn(&Op) -> bool| {
            let op = |child: &Child| match child {
                Child::Lookup(lookup) => Some(lookup.op),
                Child::Connector(op, _) => Some(*op),
                Child::Replay(recovery, _) => Some(Op::Recovery(*recovery)),
                _ => None,
            };
            self.children.iter().filter_map(op).filter(attempts).count()
        };
        let attempts = ops(|op| matches!(op, Op::Attempt(_)));
        let recoveries = ops(|op| matches!(op, Op::Recovery(_)));
        let refreshes = ops(|op| matches!(op, Op::Refresh(_)));
        if attempts > 1 || recoveries > 1 || refreshes > 1 {
            self.breaks(14, "two at a time");
        }
        let timer =
            |kind: fn(&Timer) -> bool| self.timers.iter().filter(|timer| kind(timer)).count();
        let deadlines = timer(|timer| matches!(timer, Timer::Deadline(_)));
        let retries = timer(|timer| matches!(timer, Timer::Retry(_)));
        let cooldowns = timer(|timer| matches!(timer, Timer::Cooldown(_)));
        let recovering = matches!(self.current(), Some((_, LinkSlot::Recovering)));
        if deadlines != usize::from(recovering) || (recoveries + retries > 0 && !recovering) {
            self.breaks(14, "a recovery without its phase, or the other way round");
        }
        let accepted = bounds.rules.transport == Transport::Accepted;
        let owed = recoveries + retries + usize::from(self.draining.is_some());
        if recovering && owed != 1 && !(accepted && owed == 0) {
            self.breaks(21, "recovering, and nobody is at work");
        }
        let connecting = matches!(self.machine.snapshot().phase, Phase::Connecting(_));
        let pending = matches!(self.provisioning, Provisioning::Pending);
        if connecting && attempts == 0 && !pending && cooldowns == 0 {
            self.breaks(21, "connecting, and nobody is at work");
        }
        if !connecting && attempts > 0 {
            self.breaks(21, "an attempt's child without its attempt");
        }
    }

    fn transport(&self) -> Transport {
        self.rules.transport
    }

    fn can_reconnect(&self) -> bool {
        self.rules.can_reconnect()
    }

    fn can_recover(&self) -> bool {
        self.rules.can_recover()
    }
}

/// 18: the gate first, the slow clean-up last, no waiter behind it.
fn check_order(next: &mut World, effects: &[Effect]) {
    let mut rank = 0;
    for effect in effects {
        let at = match effect {
            Effect::SetGate(_) => 1,
            Effect::CloseLink(_) => 2,
            Effect::FailProcesses(..) => 3,
            Effect::FailStreams(..) => 4,
            _ => continue,
        };
        if at < rank {
            next.breaks(18, "effects out of order");
        }
        rank = at;
    }
    let last = effects
        .iter()
        .position(|effect| matches!(effect, Effect::FailStreams(..)));
    let waits =
        |effect: &Effect| matches!(effect, Effect::Reply(_, Answer::Failed(Cause::Replaced)));
    if let Some(last) = last
        && effects[last..].iter().any(waits)
    {
        next.breaks(18, "a waiter behind the clean-up of streams");
    }
}
