//! The machine and everything that reacts to its effects: children, timers, waiters, watches. Built from effects alone, so that an
//! effect that is missing is missed.

use mainstay_session::ids::*;
use mainstay_session::*;

use crate::bounds::{Bounds, Budget};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) rules: Rules,
    pub(crate) machine: Machine,
    pub(crate) budget: Budget,
    /// Running, in order of their tags.
    pub(crate) children: Vec<Child>,
    pub(crate) timers: Vec<Timer>,
    pub(crate) waiters: Vec<(WaiterId, Ask)>,
    /// What each generation's holders see, the first generation first.
    pub(crate) slots: Vec<LinkSlot>,
    /// Generations whose gate is set, as bits.
    pub(crate) gates: u32,
    pub(crate) conn: ConnState,
    /// Links that are being made or used.
    pub(crate) links: Vec<Link>,
    /// The process table owes `StartsDrained`.
    pub(crate) draining: Option<RecoveryId>,
    /// The last recovery whose starts were drained.
    pub(crate) drained: RecoveryId,
    /// The current session's pinned key and its id.
    pub(crate) pinned: Option<ExecutorKey>,
    /// The link that each running probe asks.
    pub(crate) probes: Vec<(RefreshId, Epoch)>,
    /// The highest tags so far.
    pub(crate) tags: Tags,
    pub(crate) provisioning: Provisioning,
    /// What each refresh saw when it last looked up.
    pub(crate) observed: Vec<(RefreshId, Option<Observed>)>,
    /// Resumes of the current recovery that failed.
    pub(crate) failed_resumes: u32,
    /// The last attempt that the observer heard of, and the attempts that refreshes started.
    pub(crate) told_observer: AttemptId,
    pub(crate) replacement: AttemptId,
    pub(crate) claim: Option<ClaimId>,
    /// The invariant that the last step broke.
    pub(crate) broken: Option<Broken>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Ask {
    Session,
    Ready,
    Link(Gen),
    Refresh,
    Other,
}

/// The highest tag of each kind that the machine has handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Tags {
    pub(crate) epoch: Epoch,
    pub(crate) attempt: AttemptId,
    pub(crate) recovery: RecoveryId,
    pub(crate) refresh: RefreshId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Link {
    pub(crate) epoch: Epoch,
    pub(crate) resume: bool,
    pub(crate) bundle: Option<(Registration, ExecutorKey)>,
    /// Initialize succeeded, with this session id.
    pub(crate) ready: Option<SessionId>,
    pub(crate) replayed: bool,
    pub(crate) reported_down: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Broken {
    pub(crate) invariant: u8,
    pub(crate) what: &'static str,
}

/// The session id that executors answer with; one that forgot the session answers with another.
pub(crate) const SESSION: SessionId = SessionId(1);

impl World {
    pub(crate) fn new(bounds: &Bounds) -> Self {
        Self {
            rules: bounds.rules,
            machine: Machine::new(bounds.rules),
            budget: bounds.budget,
            children: Vec::new(),
            timers: Vec::new(),
            waiters: Vec::new(),
            slots: Vec::new(),
            gates: 0,
            conn: ConnState::Disconnected,
            links: Vec::new(),
            draining: None,
            drained: RecoveryId::default(),
            pinned: None,
            probes: Vec::new(),
            tags: Tags::default(),
            provisioning: if bounds.rules.deferred {
                Provisioning::Pending
            } else {
                Provisioning::Ready
            },
            observed: Vec::new(),
            failed_resumes: 0,
            told_observer: AttemptId::default(),
            replacement: AttemptId::default(),
            claim: None,
            broken: None,
        }
    }

    /// The newest generation and its slot, unless it is retired.
    pub(crate) fn current(&self) -> Option<(Gen, LinkSlot)> {
        let generation = Gen(u32::try_from(self.slots.len()).expect("small"));
        let slot = *self.slots.last()?;
        (slot != LinkSlot::Retired).then_some((generation, slot))
    }

    pub(crate) fn slot(&self, generation: Gen) -> Option<LinkSlot> {
        let index = (generation.0 as usize).checked_sub(1)?;
        self.slots.get(index).copied()
    }

    pub(crate) fn link(&self, epoch: Epoch) -> Option<&Link> {
        self.links.iter().find(|link| link.epoch == epoch)
    }

    fn link_mut(&mut self, epoch: Epoch) -> Option<&mut Link> {
        self.links.iter_mut().find(|link| link.epoch == epoch)
    }

    pub(crate) fn breaks(&mut self, invariant: u8, what: &'static str) {
        self.broken.get_or_insert(Broken { invariant, what });
    }

    /// What an event means outside the machine, before the machine hears of it.
    pub(crate) fn happens(&mut self, event: &Event) {
        match *event {
            Event::LookupDone { lookup, .. } => self.ends(Child::Lookup(lookup)),
            Event::LinkReady { op, epoch, session } => {
                self.ends(Child::Connector(op, epoch));
                if let Some(link) = self.link_mut(epoch) {
                    link.ready = Some(session);
                }
            }
            Event::ConnectFailed { op, epoch, .. } => {
                self.ends(Child::Connector(op, epoch));
                self.links.retain(|link| link.epoch != epoch);
            }
            Event::ReplayDone {
                recovery,
                epoch,
                result,
            } => {
                self.ends(Child::Replay(recovery, epoch));
                if let Some(link) = self.link_mut(epoch) {
                    link.replayed = result.is_ok();
                }
            }
            Event::ProbeDone { refresh, .. } => self.ends(Child::Probe(refresh)),
            Event::ChildGone { child, .. } => {
                self.ends(child);
                match child {
                    Child::Connector(_, epoch) => self.links.retain(|link| link.epoch != epoch),
                    Child::Reader(epoch) | Child::Writer(epoch) => self.report_down(epoch),
                    _ => {}
                }
            }
            Event::LinkDown { epoch, .. } | Event::LinkFault { epoch, .. } => {
                self.report_down(epoch)
            }
            Event::StartsDrained(recovery) => {
                self.draining = None;
                self.drained = recovery;
            }
            Event::Due(timer) => self.timers.retain(|one| *one != timer),
            Event::ProvisioningChanged(now) => self.provisioning = now,
            Event::ForgetWaiter(waiter) => self.waiters.retain(|(one, _)| *one != waiter),
            _ => {}
        }
    }

    fn report_down(&mut self, epoch: Epoch) {
        if let Some(link) = self.link_mut(epoch) {
            link.reported_down = true;
        }
    }

    fn tag(&mut self, op: Op) {
        match op {
            Op::Attempt(attempt) => self.tags.attempt = self.tags.attempt.max(attempt),
            Op::Recovery(recovery) => self.tags.recovery = self.tags.recovery.max(recovery),
            Op::Refresh(refresh) => self.tags.refresh = self.tags.refresh.max(refresh),
        }
    }

    fn ends(&mut self, child: Child) {
        self.children.retain(|one| *one != child);
    }

    fn runs(&mut self, child: Child) {
        self.children.push(child);
        self.children.sort_unstable();
    }

    /// Carries out an effect, as the shell would.
    pub(crate) fn apply(&mut self, effect: &Effect) {
        match *effect {
            Effect::SpawnLookup(lookup) => {
                self.tag(lookup.op);
                if let Op::Refresh(refresh) = lookup.op {
                    let snapshot = self.machine.snapshot();
                    let seen = snapshot.session.map(|(generation, _)| Observed {
                        generation,
                        registration: snapshot.registration,
                    });
                    self.observed.retain(|(one, _)| *one != refresh);
                    self.observed.push((refresh, seen));
                }
                self.runs(Child::Lookup(lookup));
            }
            Effect::SpawnConnector {
                op,
                epoch,
                route,
                resume,
            } => {
                self.tag(op);
                self.tags.epoch = epoch;
                let bundle = match route {
                    Route::Bundle(bundle) => Some((bundle.registration, bundle.key)),
                    Route::Configured | Route::Socket(_) => None,
                };
                self.links.push(Link {
                    epoch,
                    resume: resume.is_some(),
                    bundle,
                    ready: None,
                    replayed: false,
                    reported_down: false,
                });
                self.runs(Child::Connector(op, epoch));
            }
            Effect::SpawnReplay {
                recovery, epoch, ..
            } => self.runs(Child::Replay(recovery, epoch)),
            Effect::SpawnProbe { refresh, epoch, .. } => {
                self.probes.push((refresh, epoch));
                self.runs(Child::Probe(refresh));
            }
            Effect::Stop(child) => {
                self.ends(child);
                if let Child::Connector(_, epoch) = child {
                    self.links.retain(|link| link.epoch != epoch);
                }
            }
            Effect::CloseLink(epoch) => self.links.retain(|link| link.epoch != epoch),
            Effect::SetGate(generation) => self.gates |= 1 << generation.0,
            Effect::PublishSlot(generation, slot) => {
                if let Some(seen) = self.slots.get_mut(generation.0 as usize - 1) {
                    *seen = slot;
                }
                if slot == LinkSlot::Recovering {
                    self.failed_resumes = 0;
                    self.links.retain(|link| !link.reported_down);
                }
            }
            Effect::PublishConn(conn) => self.conn = conn,
            Effect::Install {
                generation: _,
                epoch,
                ..
            } => {
                self.slots.push(LinkSlot::Recovering);
                self.pinned = self
                    .link(epoch)
                    .and_then(|link| link.bundle)
                    .map(|(_, key)| key);
            }
            Effect::Relink { .. } => {}
            Effect::DrainStarts { recovery, .. } => self.draining = Some(recovery),
            Effect::FailProcesses(..) => self.draining = None,
            Effect::FailStreams(..) => {}
            Effect::StartTimer(timer, _) => {
                self.timers.push(timer);
                self.timers.sort_unstable();
            }
            Effect::CancelTimer(timer) => self.timers.retain(|one| *one != timer),
            Effect::Reply(waiter, answer) => {
                self.waiters.retain(|(one, _)| *one != waiter);
                if let Answer::Claim(claim) = answer {
                    self.claim = Some(claim);
                }
            }
            Effect::Observe(attempt, _) => self.told_observer = attempt,
            Effect::Trace(Note::ResumeFailed(..)) => self.failed_resumes += 1,
            Effect::Trace(_) => {}
        }
    }

    /// Forgets what no invariant needs any more, so that equal futures are equal states.
    pub(crate) fn settle(&mut self) {
        let live: Vec<Epoch> = self
            .children
            .iter()
            .filter_map(|child| match child {
                Child::Connector(_, epoch) | Child::Replay(_, epoch) => Some(*epoch),
                _ => None,
            })
            .chain(self.current().and_then(|(_, slot)| match slot {
                LinkSlot::Up(epoch) => Some(epoch),
                _ => None,
            }))
            .collect();
        self.links.retain(|link| live.contains(&link.epoch));
        let looking: Vec<RefreshId> = self
            .children
            .iter()
            .filter_map(|child| match child {
                Child::Lookup(LookupTag {
                    op: Op::Refresh(refresh),
                    ..
                }) => Some(*refresh),
                _ => None,
            })
            .collect();
        self.observed
            .retain(|(refresh, _)| looking.contains(refresh));
        match self.current() {
            Some((_, LinkSlot::Recovering)) => {}
            Some((_, LinkSlot::Up(_))) => self.failed_resumes = 0,
            _ => {
                self.failed_resumes = 0;
                self.pinned = None;
            }
        }
        self.probes
            .retain(|(refresh, _)| self.children.contains(&Child::Probe(*refresh)));
        // Whether an old crash still counts matters to the next one only.
        if self.budget.crashes == 0 {
            self.timers
                .retain(|timer| !matches!(timer, Timer::Panic(_)));
        }
    }
}
