//! What may happen in a world.

use mainstay_session::ids::*;
use mainstay_session::*;

use crate::bounds::Bounds;
use crate::world::{Ask, SESSION, World};

/// A cause's text never matters.
pub(crate) const TOLD: CauseId = CauseId(1);

pub(crate) fn failure(class: Class) -> Failure {
    Failure { cause: TOLD, class }
}

impl World {
    /// Everything that may happen next, within the bounds.
    pub(crate) fn possible(&self, bounds: &Bounds, out: &mut Vec<Event>) {
        if self.broken.is_some() {
            return;
        }
        self.requests(bounds, out);
        for child in &self.children {
            self.outcomes(*child, bounds, out);
        }
        for link in &self.links {
            if !link.reported_down {
                let epoch = link.epoch;
                out.push(Event::LinkDown {
                    epoch,
                    cause: TOLD,
                    restart: false,
                });
                let usable = matches!(self.current(), Some((_, LinkSlot::Up(up))) if up == epoch);
                if usable && self.budget.restarts > 0 {
                    out.push(Event::LinkDown {
                        epoch,
                        cause: TOLD,
                        restart: true,
                    });
                }
                if self.budget.faults > 0 {
                    out.push(Event::LinkFault {
                        epoch,
                        fault: Fault::BadId,
                        cause: TOLD,
                    });
                }
            }
        }
        out.extend(self.draining.map(Event::StartsDrained));
        out.extend(self.timers.iter().map(|timer| Event::Due(*timer)));
        if self.budget.crashes > 0 {
            let how = How::Panicked;
            out.extend(
                self.children
                    .iter()
                    .map(|child| Event::ChildGone { child: *child, how }),
            );
            out.extend(self.links.iter().map(|link| Event::ChildGone {
                child: Child::Reader(link.epoch),
                how,
            }));
            if let Some((generation, LinkSlot::Up(_) | LinkSlot::Recovering)) = self.current() {
                out.push(Event::ChildGone {
                    child: Child::ProcessTable(generation),
                    how,
                });
                out.push(Event::ChildGone {
                    child: Child::BodyTable(generation),
                    how,
                });
            }
        }
    }

    fn requests(&self, bounds: &Bounds, out: &mut Vec<Event>) {
        let budget = &self.budget;
        let waiter = self.next_waiter();
        if budget.acquires > 0 {
            out.push(Event::Acquire {
                mode: Mode::Wait,
                waiter,
            });
        }
        if budget.readies > 0 {
            out.push(Event::AwaitReady { waiter });
        }
        if budget.links > 0
            && let Some((generation, slot)) = self.current()
        {
            let dead = match slot {
                LinkSlot::Up(epoch) => Some(epoch),
                _ => None,
            };
            // A handle that found the link's closed flag set: the Reader's report is on its way.
            let closing =
                dead.is_none_or(|epoch| self.link(epoch).is_some_and(|link| !link.reported_down));
            if closing {
                out.push(Event::AwaitLink {
                    generation,
                    dead,
                    waiter,
                });
            }
        }
        if budget.refreshes > 0 {
            out.push(Event::Refresh { waiter });
        }
        if budget.forgets > 0 {
            out.extend(
                self.waiters
                    .iter()
                    .map(|(waiter, _)| Event::ForgetWaiter(*waiter)),
            );
        }
        if bounds.rules.deferred && budget.provisionings > 0 {
            let failed = Provisioning::Failed(failure(Class::Provisioning));
            for now in [Provisioning::Pending, Provisioning::Ready, failed] {
                out.push(Event::ProvisioningChanged(now));
            }
        }
        if budget.nudges > 0 {
            out.push(Event::Nudge);
        }
        if budget.renewals > 0 {
            out.push(Event::CredentialsChanged);
            out.push(Event::PolicyPublished);
        }
        if budget.retirements > 0
            && let Some((generation, _)) = self.current()
        {
            out.push(Event::RetireForTest(generation));
        }
        if budget.shutdowns > 0 {
            out.push(Event::Shutdown { waiter });
        }
        if budget.sockets > 0 {
            match self.claim {
                // Refused at once when there is nothing to hand over to: it changes nothing.
                None => out.push(Event::ClaimReplacement { waiter }),
                Some(claim) => {
                    out.push(Event::ReplaceSocket {
                        claim,
                        socket: SocketId(1),
                        waiter,
                    });
                    out.push(Event::AbandonClaim(claim));
                }
            }
        }
    }

    /// How a running child may end.
    fn outcomes(&self, child: Child, bounds: &Bounds, out: &mut Vec<Event>) {
        let may_fail =
            |op: Op| !matches!(op, Op::Recovery(_)) || self.failed_resumes < bounds.retries;
        // A recovery that has used up its retries can still fail for good.
        let fails = |op: Op, class: Class| may_fail(op) || !class.recovery_retryable();
        match child {
            Child::Lookup(lookup) => {
                let refresh = matches!(lookup.op, Op::Refresh(_));
                for (registration, key) in bounds.registrations {
                    let bundle = Bundle {
                        id: BundleId(0),
                        registration: Registration(*registration),
                        key: ExecutorKey(*key),
                    };
                    out.push(Event::LookupDone {
                        lookup,
                        result: Ok(bundle),
                    });
                }
                let failures = bounds.lookup_failures.iter().copied();
                // A refresh does not look at the class.
                let failures = failures.take(if refresh { 1 } else { usize::MAX });
                for class in failures.filter(|class| fails(lookup.op, *class)) {
                    out.push(Event::LookupDone {
                        lookup,
                        result: Err(failure(class)),
                    });
                }
            }
            Child::Connector(op, epoch) => {
                out.push(Event::LinkReady {
                    op,
                    epoch,
                    session: SESSION,
                });
                if matches!(op, Op::Recovery(_)) {
                    // An executor that forgot the session and says so by another id.
                    out.push(Event::LinkReady {
                        op,
                        epoch,
                        session: SESSION.next(),
                    });
                }
                let stage = Stage::Dial;
                for class in bounds
                    .dial_failures
                    .iter()
                    .copied()
                    .filter(|class| fails(op, *class))
                {
                    out.push(Event::ConnectFailed {
                        op,
                        epoch,
                        stage,
                        failure: failure(class),
                    });
                }
            }
            Child::Replay(recovery, epoch) => {
                out.push(Event::ReplayDone {
                    recovery,
                    epoch,
                    result: Ok(()),
                });
                if may_fail(Op::Recovery(recovery)) {
                    let result = Err(failure(Class::Closed));
                    out.push(Event::ReplayDone {
                        recovery,
                        epoch,
                        result,
                    });
                }
            }
            Child::Probe(refresh) => {
                let epoch = self.probed(refresh);
                out.push(Event::ProbeDone {
                    refresh,
                    epoch,
                    result: Ok(()),
                });
                out.push(Event::ProbeDone {
                    refresh,
                    epoch,
                    result: Err(failure(Class::Closed)),
                });
            }
            _ => {}
        }
    }

    /// The link a probe runs on: it answers for that link even if the link went down meanwhile.
    pub(crate) fn probed(&self, refresh: RefreshId) -> Epoch {
        self.probes
            .iter()
            .find(|(one, _)| *one == refresh)
            .map_or(Epoch::default(), |(_, epoch)| *epoch)
    }

    /// The smallest number that no pending request has.
    fn next_waiter(&self) -> WaiterId {
        let mut number = 1;
        while self.waiters.iter().any(|(waiter, _)| waiter.0 == number) {
            number += 1;
        }
        WaiterId(number)
    }

    /// Takes an event's cost off the budget, and notes a request.
    pub(crate) fn pay(&mut self, event: &Event) {
        let budget = &mut self.budget;
        let less = |count: &mut u8| *count = count.saturating_sub(1);
        match *event {
            Event::Acquire {
                mode: Mode::Wait,
                waiter,
            } => {
                less(&mut budget.acquires);
                self.waiters.push((waiter, Ask::Session));
            }
            Event::AwaitReady { waiter } => {
                less(&mut budget.readies);
                self.waiters.push((waiter, Ask::Ready));
            }
            Event::AwaitLink {
                generation, waiter, ..
            } => {
                less(&mut budget.links);
                self.waiters.push((waiter, Ask::Link(generation)));
            }
            Event::Refresh { waiter } => {
                less(&mut budget.refreshes);
                self.waiters.push((waiter, Ask::Refresh));
            }
            Event::ForgetWaiter(_) => less(&mut budget.forgets),
            Event::ProvisioningChanged(_) => less(&mut budget.provisionings),
            Event::Nudge => less(&mut budget.nudges),
            Event::CredentialsChanged | Event::PolicyPublished => less(&mut budget.renewals),
            Event::LinkDown { restart: true, .. } => less(&mut budget.restarts),
            Event::LinkFault { .. } => less(&mut budget.faults),
            Event::ChildGone { .. } => less(&mut budget.crashes),
            Event::RetireForTest(_) => less(&mut budget.retirements),
            Event::Shutdown { waiter } => {
                less(&mut budget.shutdowns);
                self.waiters.push((waiter, Ask::Other));
            }
            Event::ClaimReplacement { waiter } => self.waiters.push((waiter, Ask::Other)),
            Event::ReplaceSocket { waiter, .. } => {
                less(&mut budget.sockets);
                self.waiters.push((waiter, Ask::Other));
                self.claim = None;
            }
            Event::AbandonClaim(_) => {
                less(&mut budget.sockets);
                self.claim = None;
            }
            _ => {}
        }
        self.waiters.sort_unstable();
    }
}
