//! A hand-cranked supervisor: feeds events, remembers effects.

use mainstay_session::ids::*;
use mainstay_session::*;

pub(crate) struct Rig {
    pub(crate) machine: Machine,
    waiters: u64,
}

/// Two executors and what a registry says about them.
pub(crate) fn bundle(n: u32) -> Bundle {
    Bundle {
        id: BundleId(n),
        registration: Registration(n),
        key: ExecutorKey(n),
    }
}

pub(crate) fn failure(class: Class) -> Failure {
    Failure {
        cause: CauseId(7),
        class,
    }
}

pub(crate) const SESSION: SessionId = SessionId(1);

impl Rig {
    pub(crate) fn new(transport: Transport) -> Self {
        Self {
            machine: Machine::new(Rules::new(transport)),
            waiters: 0,
        }
    }

    pub(crate) fn deferred(transport: Transport) -> Self {
        let rules = Rules {
            deferred: true,
            ..Rules::new(transport)
        };
        Self {
            machine: Machine::new(rules),
            waiters: 0,
        }
    }

    pub(crate) fn waiter(&mut self) -> WaiterId {
        self.waiters += 1;
        WaiterId(self.waiters)
    }

    pub(crate) fn step(&mut self, event: Event) -> Vec<Effect> {
        self.machine.step(event)
    }

    /// A request, and all that follows from it.
    pub(crate) fn ask(
        &mut self,
        request: impl FnOnce(WaiterId) -> Event,
    ) -> (WaiterId, Vec<Effect>) {
        let waiter = self.waiter();
        (waiter, self.step(request(waiter)))
    }

    pub(crate) fn acquire(&mut self) -> (WaiterId, Vec<Effect>) {
        self.ask(|waiter| Event::Acquire {
            mode: Mode::Wait,
            waiter,
        })
    }

    pub(crate) fn fail_fast(&mut self) -> Answer {
        let (waiter, effects) = self.ask(|waiter| Event::Acquire {
            mode: Mode::FailFast,
            waiter,
        });
        answer(&effects, waiter).expect("fail-fast answers at once")
    }

    pub(crate) fn snapshot(&mut self) -> Snapshot {
        self.machine.snapshot()
    }

    /// A session on the executor `n`, from nothing.
    pub(crate) fn connected(transport: Transport, n: u32) -> (Self, Gen, Epoch) {
        let mut rig = Self::new(transport);
        let (waiter, effects) = rig.acquire();
        let effects = match spawned_lookup(&effects) {
            Some(lookup) => rig.step(Event::LookupDone {
                lookup,
                result: Ok(bundle(n)),
            }),
            None => effects,
        };
        let (op, epoch, _) = spawned_connector(&effects).expect("a dial");
        let effects = rig.step(Event::LinkReady {
            op,
            epoch,
            session: SESSION,
        });
        let Some(Answer::Session(generation)) = answer(&effects, waiter) else {
            panic!("no session: {effects:?}")
        };
        (rig, generation, epoch)
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

pub(crate) fn spawned_lookup(effects: &[Effect]) -> Option<LookupTag> {
    effects.iter().find_map(|effect| match effect {
        Effect::SpawnLookup(lookup) => Some(*lookup),
        _ => None,
    })
}

pub(crate) fn spawned_connector(effects: &[Effect]) -> Option<(Op, Epoch, Option<SessionId>)> {
    effects.iter().find_map(|effect| match effect {
        Effect::SpawnConnector {
            op, epoch, resume, ..
        } => Some((*op, *epoch, *resume)),
        _ => None,
    })
}
