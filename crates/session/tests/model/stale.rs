//! What must change nothing: reports with a tag that is not live (4, 23), fail-fast requests and snapshots (17). Tried once in every
//! state of the machine and of what decides who could still report: the children that live, the tags so far.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hash, Hasher};

use mainstay_session::ids::*;
use mainstay_session::*;

use crate::actions::{TOLD, failure};
use crate::world::{Broken, SESSION, World};

thread_local! {
    /// States that were tried by this thread.
    static TRIED: RefCell<Hashes> = RefCell::default();
    /// What was wrong with those that failed: a step must have the same result whenever it is taken.
    static FAILED: RefCell<HashMap<u64, Broken>> = RefCell::default();
}

/// A set of hashes.
pub(crate) type Hashes = HashSet<u64, BuildHasherDefault<Mixer>>;

/// Multiplies and folds: far cheaper than the standard library's, and nobody attacks a test.
#[derive(Default)]
pub(crate) struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let product =
            u128::from(self.0 ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xda94_2042_e4dd_58b5_u128;
        self.0 = (product as u64) ^ ((product >> 64) as u64).rotate_left(23);
    }

    fn write_u8(&mut self, word: u8) {
        self.write_u64(word.into());
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

pub(crate) fn hash(value: &impl Hash) -> u64 {
    let mut hasher = Mixer::default();
    value.hash(&mut hasher);
    hasher.finish()
}

pub(crate) fn check(world: &mut World) {
    let here = hash(&(&world.machine, &world.children, &world.tags));
    if TRIED.with_borrow_mut(|tried| tried.insert(here)) {
        let before = world.broken.take();
        check_requests(world);
        check_reports(world);
        if let Some(broken) = world.broken {
            FAILED.with_borrow_mut(|failed| failed.insert(here, broken));
        }
        world.broken = before.or(world.broken);
    } else if let Some(broken) = FAILED.with_borrow(|failed| failed.get(&here).copied()) {
        world.breaks(broken.invariant, broken.what);
    }
}

fn check_reports(world: &mut World) {
    let mut machine = world.machine.clone();
    for event in dead_reports(world) {
        let effects = machine.step(event);
        let closes = match event {
            Event::LinkReady { epoch, .. } => Some(Effect::CloseLink(epoch)),
            _ => None,
        };
        let harmless =
            |effect: &Effect| matches!(effect, Effect::Trace(_)) || Some(*effect) == closes;
        if machine != world.machine || !effects.iter().all(harmless) {
            return world.breaks(23, "a report with a dead tag changed something");
        }
        if closes.is_some_and(|closes| !effects.contains(&closes)) {
            return world.breaks(4, "a link that nobody wants stays open");
        }
    }
}

fn check_requests(world: &mut World) {
    let waiter = WaiterId(99);
    for event in [
        Event::Acquire {
            mode: Mode::FailFast,
            waiter,
        },
        Event::Snapshot { waiter },
    ] {
        let mut machine = world.machine.clone();
        let effects = machine.step(event);
        if machine != world.machine || !matches!(effects[..], [Effect::Reply(..)]) {
            world.breaks(17, "a request that must not move anything did");
        }
    }
}

/// Every report that some dead child could still have sent.
fn dead_reports(world: &World) -> Vec<Event> {
    let mut reports = Vec::new();
    let tags = &world.tags;
    let how = How::Stopped;
    let bundle = Bundle {
        id: BundleId(0),
        registration: Registration(1),
        key: ExecutorKey(1),
    };
    let ops = (1..=tags.attempt.0).map(|id| Op::Attempt(AttemptId(id)));
    let ops = ops.chain((1..=tags.recovery.0).map(|id| Op::Recovery(RecoveryId(id))));
    let ops: Vec<Op> = ops
        .chain((1..=tags.refresh.0).map(|id| Op::Refresh(RefreshId(id))))
        .collect();
    let epochs: Vec<Epoch> = (1..=tags.epoch.0).map(Epoch).collect();
    for op in &ops {
        for turn in 0..3 {
            let lookup = LookupTag { op: *op, turn };
            let child = Child::Lookup(lookup);
            if !world.children.contains(&child) {
                reports.push(Event::LookupDone {
                    lookup,
                    result: Ok(bundle),
                });
                reports.push(Event::LookupDone {
                    lookup,
                    result: Err(failure(Class::Terminal)),
                });
                reports.push(Event::ChildGone { child, how });
            }
        }
        for epoch in &epochs {
            let (op, epoch) = (*op, *epoch);
            let child = Child::Connector(op, epoch);
            if !world.children.contains(&child) && world.link(epoch).is_none() {
                reports.push(Event::LinkReady {
                    op,
                    epoch,
                    session: SESSION,
                });
                let stage = Stage::Initialize;
                reports.push(Event::ConnectFailed {
                    op,
                    epoch,
                    stage,
                    failure: failure(Class::Terminal),
                });
                reports.push(Event::ChildGone { child, how });
            }
            if let Op::Recovery(recovery) = op {
                let child = Child::Replay(recovery, epoch);
                if !world.children.contains(&child) {
                    reports.push(Event::ReplayDone {
                        recovery,
                        epoch,
                        result: Ok(()),
                    });
                    reports.push(Event::ReplayDone {
                        recovery,
                        epoch,
                        result: Err(failure(Class::Closed)),
                    });
                    reports.push(Event::ChildGone { child, how });
                }
            }
            if let Op::Refresh(refresh) = op {
                let live = world.children.contains(&Child::Probe(refresh));
                if !live || world.probed(refresh) != epoch {
                    reports.push(Event::ProbeDone {
                        refresh,
                        epoch,
                        result: Ok(()),
                    });
                }
            }
        }
        match *op {
            Op::Recovery(recovery) => {
                if world.draining != Some(recovery) {
                    reports.push(Event::StartsDrained(recovery));
                }
                dead_timer(world, Timer::Deadline(recovery), &mut reports);
                dead_timer(world, Timer::Retry(recovery), &mut reports);
            }
            Op::Attempt(attempt) => dead_timer(world, Timer::Cooldown(attempt), &mut reports),
            Op::Refresh(refresh) => {
                let child = Child::Probe(refresh);
                if !world.children.contains(&child) {
                    reports.push(Event::ChildGone { child, how });
                }
            }
        }
    }
    for epoch in epochs {
        if world.link(epoch).is_none() {
            reports.push(Event::LinkDown {
                epoch,
                cause: TOLD,
                restart: true,
            });
            reports.push(Event::LinkFault {
                epoch,
                fault: Fault::BadNotification,
                cause: TOLD,
            });
            reports.push(Event::ChildGone {
                child: Child::Reader(epoch),
                how,
            });
            reports.push(Event::ChildGone {
                child: Child::Writer(epoch),
                how,
            });
        }
    }
    reports
}

fn dead_timer(world: &World, timer: Timer, reports: &mut Vec<Event>) {
    if !world.timers.contains(&timer) {
        reports.push(Event::Due(timer));
    }
}
