//! A hand-cranked supervisor: feeds events, remembers what was asked for.

use mainstay_session::ids::*;
use mainstay_session::*;

pub(crate) struct Rig {
    pub(crate) machine: Machine,
    waiters: u64,
}

/// Registration `n` of the executor with key `key`.
pub(crate) fn registered(n: u32, key: u32) -> Bundle {
    Bundle {
        id: BundleId(n),
        registration: Registration(n),
        key: ExecutorKey(key),
    }
}

/// The executor `n`, as it registered first.
pub(crate) fn bundle(n: u32) -> Bundle {
    registered(n, n)
}

pub(crate) const CAUSE: CauseId = CauseId(7);

pub(crate) fn failure(class: Class) -> Failure {
    Failure {
        cause: CAUSE,
        class,
    }
}

pub(crate) const SESSION: SessionId = SessionId(1);

pub(crate) const fn down(epoch: Epoch) -> Event {
    Event::LinkDown {
        epoch,
        cause: CAUSE,
        restart: false,
    }
}

impl Rig {
    pub(crate) fn new(transport: Transport) -> Self {
        Self {
            machine: Machine::new(Rules::new(transport)),
            waiters: 0,
        }
    }

    pub(crate) fn deferred() -> Self {
        let rules = Rules {
            deferred: true,
            ..Rules::new(Transport::Noise)
        };
        Self {
            machine: Machine::new(rules),
            waiters: 0,
        }
    }

    pub(crate) fn step(&mut self, event: Event) -> Vec<Effect> {
        self.machine.step(event)
    }

    /// A request, and all that follows from it at once.
    pub(crate) fn ask(
        &mut self,
        request: impl FnOnce(WaiterId) -> Event,
    ) -> (WaiterId, Vec<Effect>) {
        self.waiters += 1;
        let waiter = WaiterId(self.waiters);
        (waiter, self.step(request(waiter)))
    }

    pub(crate) fn acquire(&mut self) -> (WaiterId, Vec<Effect>) {
        self.ask(|waiter| Event::Acquire {
            mode: Mode::Wait,
            waiter,
        })
    }

    pub(crate) fn refresh(&mut self) -> (WaiterId, Vec<Effect>) {
        self.ask(|waiter| Event::Refresh { waiter })
    }

    pub(crate) fn await_link(&mut self, generation: Gen) -> (WaiterId, Vec<Effect>) {
        self.ask(|waiter| Event::AwaitLink {
            generation,
            dead: None,
            waiter,
        })
    }

    /// The answer to a request that must not wait.
    pub(crate) fn at_once(&mut self, request: impl FnOnce(WaiterId) -> Event) -> Answer {
        let (waiter, effects) = self.ask(request);
        answer(&effects, waiter).unwrap_or_else(|| panic!("no answer at once: {effects:?}"))
    }

    pub(crate) fn fail_fast(&mut self) -> Answer {
        self.at_once(|waiter| Event::Acquire {
            mode: Mode::FailFast,
            waiter,
        })
    }

    pub(crate) fn snapshot(&mut self) -> Snapshot {
        match self.at_once(|waiter| Event::Snapshot { waiter }) {
            Answer::Snapshot(snapshot) => snapshot,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn conn(&mut self) -> ConnState {
        self.snapshot().conn
    }

    /// Answers the lookup that `effects` started.
    pub(crate) fn looked_up(&mut self, effects: &[Effect], bundle: Bundle) -> Vec<Effect> {
        self.step(Event::LookupDone {
            lookup: lookup(effects),
            result: Ok(bundle),
        })
    }

    pub(crate) fn lookup_failed(&mut self, effects: &[Effect], class: Class) -> Vec<Effect> {
        self.step(Event::LookupDone {
            lookup: lookup(effects),
            result: Err(failure(class)),
        })
    }

    /// Ends the dial that `effects` started with a running link.
    pub(crate) fn link_ready(
        &mut self,
        effects: &[Effect],
        session: SessionId,
    ) -> (Epoch, Vec<Effect>) {
        let (op, epoch, _) = connector(effects);
        (epoch, self.step(Event::LinkReady { op, epoch, session }))
    }

    pub(crate) fn connect_failed(&mut self, effects: &[Effect], class: Class) -> Vec<Effect> {
        let (op, epoch, _) = connector(effects);
        self.step(Event::ConnectFailed {
            op,
            epoch,
            stage: Stage::Dial,
            failure: failure(class),
        })
    }

    pub(crate) fn replayed(&mut self, effects: &[Effect]) -> Vec<Effect> {
        let (recovery, epoch) = replay(effects);
        self.step(Event::ReplayDone {
            recovery,
            epoch,
            result: Ok(()),
        })
    }

    /// The probe that `effects` started gets a live answer.
    pub(crate) fn probed(&mut self, effects: &[Effect]) -> Vec<Effect> {
        let (refresh, epoch) = probe(effects);
        self.step(Event::ProbeDone {
            refresh,
            epoch,
            result: Ok(()),
        })
    }

    /// Ends an attempt that `effects` started with a session on `bundle`.
    pub(crate) fn install(
        &mut self,
        effects: &[Effect],
        bundle: Bundle,
    ) -> (Gen, Epoch, Vec<Effect>) {
        let dials = |effect: &Effect| matches!(effect, Effect::SpawnConnector { .. });
        let effects = if effects.iter().any(dials) {
            effects.to_vec()
        } else {
            self.looked_up(effects, bundle)
        };
        let session = SessionId(
            self.machine
                .snapshot()
                .session
                .map_or(1, |(_, id)| id.0 + 1),
        );
        let (epoch, effects) = self.link_ready(&effects, session);
        let installed = effects.iter().find_map(|effect| match effect {
            Effect::Install { generation, .. } => Some(*generation),
            _ => None,
        });
        (installed.expect("an installed session"), epoch, effects)
    }

    /// A session on executor 1, from nothing.
    pub(crate) fn connected(transport: Transport) -> (Self, Gen, Epoch) {
        let mut rig = Self::new(transport);
        let (_, effects) = rig.acquire();
        let (generation, epoch, _) = rig.install(&effects, bundle(1));
        (rig, generation, epoch)
    }

    /// The link of `epoch` goes, and the starts on it end; the effects are those of the first resume.
    pub(crate) fn lose(&mut self, epoch: Epoch) -> (RecoveryId, Vec<Effect>) {
        let effects = self.step(down(epoch));
        let recovery = drain(&effects);
        (recovery, self.step(Event::StartsDrained(recovery)))
    }

    /// Resumes on the first try, at registration `bundle`.
    pub(crate) fn resume(&mut self, effects: &[Effect], bundle: Bundle) -> (Epoch, Vec<Effect>) {
        let dials = |effect: &Effect| matches!(effect, Effect::SpawnConnector { .. });
        let effects = if effects.iter().any(dials) {
            effects.to_vec()
        } else {
            self.looked_up(effects, bundle)
        };
        let (epoch, effects) = self.link_ready(&effects, SESSION);
        (epoch, self.replayed(&effects))
    }
}

pub(crate) fn answer(effects: &[Effect], to: WaiterId) -> Option<Answer> {
    let mut answers = effects.iter().filter_map(|effect| match effect {
        Effect::Reply(waiter, answer) if *waiter == to => Some(*answer),
        _ => None,
    });
    let first = answers.next();
    assert_eq!(answers.next(), None, "two answers for {to:?}");
    first
}

fn the<T>(effects: &[Effect], what: &str, pick: impl Fn(&Effect) -> Option<T>) -> T {
    effects
        .iter()
        .find_map(pick)
        .unwrap_or_else(|| panic!("no {what} in {effects:?}"))
}

pub(crate) fn lookup(effects: &[Effect]) -> LookupTag {
    the(effects, "lookup", |effect| match effect {
        Effect::SpawnLookup(lookup) => Some(*lookup),
        _ => None,
    })
}

pub(crate) fn connector(effects: &[Effect]) -> (Op, Epoch, Option<SessionId>) {
    the(effects, "connector", |effect| match effect {
        Effect::SpawnConnector {
            op, epoch, resume, ..
        } => Some((*op, *epoch, *resume)),
        _ => None,
    })
}

pub(crate) fn replay(effects: &[Effect]) -> (RecoveryId, Epoch) {
    the(effects, "replay", |effect| match effect {
        Effect::SpawnReplay {
            recovery, epoch, ..
        } => Some((*recovery, *epoch)),
        _ => None,
    })
}

pub(crate) fn probe(effects: &[Effect]) -> (RefreshId, Epoch) {
    the(effects, "probe", |effect| match effect {
        Effect::SpawnProbe { refresh, epoch, .. } => Some((*refresh, *epoch)),
        _ => None,
    })
}

pub(crate) fn drain(effects: &[Effect]) -> RecoveryId {
    the(effects, "drain", |effect| match effect {
        Effect::DrainStarts { recovery, .. } => Some(*recovery),
        _ => None,
    })
}

pub(crate) fn timer(effects: &[Effect]) -> (Timer, Wait) {
    the(effects, "timer", |effect| match effect {
        Effect::StartTimer(timer, wait) => Some((*timer, *wait)),
        _ => None,
    })
}

/// The watch's values, in order.
pub(crate) fn conns(effects: &[Effect]) -> Vec<ConnState> {
    let conn = |effect: &Effect| match effect {
        Effect::PublishConn(conn) => Some(*conn),
        _ => None,
    };
    effects.iter().filter_map(conn).collect()
}

/// Nothing but a note that the report was too late.
pub(crate) fn ignored(effects: &[Effect]) -> bool {
    effects
        .iter()
        .all(|effect| matches!(effect, Effect::Trace(Note::Stale)))
}
