//! Liveness: from every state a fair scheduler, with a network that works again, reaches rest within 200 steps, no waiter is left, and
//! an outage ends Connected.

use std::cell::RefCell;
use std::hash::Hash;

use mainstay_session::ids::*;
use mainstay_session::*;

use crate::bounds::Bounds;
use crate::stale::{Hashes, hash};
use crate::world::{Ask, SESSION, World};

/// Steps that a fair scheduler may need.
const STEPS: usize = 200;

thread_local! {
    /// Worlds from which rest is reached. The scheduler is deterministic, so a path that meets one of them may stop.
    static COMES_TO_REST: RefCell<Hashes> = RefCell::default();
}

pub(crate) fn comes_to_rest(start: &World, bounds: &Bounds) -> bool {
    let next = |world: &World| world.fair().map(|event| world.next(event, bounds));
    let ends_connected = |before: &World, after: &World| before.outlives(after);
    let broken = |world: &World| world.broken.is_some();
    walk(start, next, World::rests, broken, ends_connected)
}

/// Follows a deterministic scheduler from `start` until nothing is left to do; that must be rest.
pub(crate) fn walk<S: Clone + Hash>(
    start: &S,
    next: impl Fn(&S) -> Option<S>,
    rests: impl Fn(&S) -> bool,
    broken: impl Fn(&S) -> bool,
    lawful: impl Fn(&S, &S) -> bool,
) -> bool {
    let mut path = Vec::new();
    let mut state = start.clone();
    while path.len() < STEPS {
        let here = hash(&state);
        if COMES_TO_REST.with_borrow(|known| known.contains(&here)) {
            break;
        }
        path.push(here);
        match next(&state) {
            // A broken invariant on the way is found as such.
            Some(after) if broken(&after) => return true,
            Some(after) if !lawful(&state, &after) => return false,
            Some(after) => state = after,
            None if rests(&state) => break,
            None => return false,
        }
    }
    let reached = path.len() < STEPS;
    if reached {
        COMES_TO_REST.with_borrow_mut(|known| known.extend(path));
    }
    reached
}

impl World {
    /// What a fair scheduler delivers next when everything works again.
    pub(crate) fn fair(&self) -> Option<Event> {
        if let Some(child) = self.children.first() {
            return Some(self.good_outcome(*child));
        }
        if let Some(recovery) = self.draining {
            return Some(Event::StartsDrained(recovery));
        }
        if let Some((generation, LinkSlot::Up(epoch))) = self.current() {
            // Its holder saw that the link is closed, so the Reader's report is on its way.
            let owed = self
                .waiters
                .iter()
                .any(|(_, ask)| *ask == Ask::Link(generation));
            let link = self.link(epoch).is_some_and(|link| !link.reported_down);
            if owed && link {
                return Some(Event::LinkDown {
                    epoch,
                    cause: CauseId(1),
                    restart: false,
                });
            }
        }
        let deadline = |timer: &&Timer| matches!(timer, Timer::Deadline(_));
        if let Some(timer) = self.timers.iter().find(|timer| !deadline(timer)) {
            return Some(Event::Due(*timer));
        }
        if self.connecting() && self.provisioning == Provisioning::Pending {
            return Some(Event::ProvisioningChanged(Provisioning::Ready));
        }
        // Only a host's socket could still help.
        self.timers.first().map(|timer| Event::Due(*timer))
    }

    fn good_outcome(&self, child: Child) -> Event {
        match child {
            Child::Lookup(lookup) => {
                let key = match lookup.op {
                    Op::Recovery(_) => self.pinned.unwrap_or(ExecutorKey(1)),
                    Op::Attempt(_) | Op::Refresh(_) => ExecutorKey(1),
                };
                let bundle = Bundle {
                    id: BundleId(0),
                    registration: Registration(1),
                    key,
                };
                Event::LookupDone {
                    lookup,
                    result: Ok(bundle),
                }
            }
            Child::Connector(op, epoch) => Event::LinkReady {
                op,
                epoch,
                session: SESSION,
            },
            Child::Replay(recovery, epoch) => Event::ReplayDone {
                recovery,
                epoch,
                result: Ok(()),
            },
            Child::Probe(refresh) => Event::ProbeDone {
                refresh,
                epoch: self.probed(refresh),
                result: Ok(()),
            },
            child => Event::ChildGone {
                child,
                how: How::Killed,
            },
        }
    }

    /// Nothing runs, nobody waits.
    pub(crate) fn rests(&self) -> bool {
        let recovering = matches!(self.current(), Some((_, LinkSlot::Recovering)));
        self.waiters.is_empty() && !recovering && !self.connecting()
    }

    /// An outage that ends before the deadline does not end the session; where sockets come from the host, it may.
    pub(crate) fn outlives(&self, after: &World) -> bool {
        let recovering = matches!(self.current(), Some((_, LinkSlot::Recovering)));
        let failed = matches!(after.current(), Some((_, LinkSlot::Failed(_))));
        !(recovering && failed) || self.rules.transport == Transport::Accepted
    }

    fn connecting(&self) -> bool {
        matches!(self.machine.snapshot().phase, Phase::Connecting(_))
    }
}
