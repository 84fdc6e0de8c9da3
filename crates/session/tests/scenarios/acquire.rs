//! Callers and the startup memory (3.1–3.3).

use mainstay_session::*;

use crate::rig::*;

#[test]
fn a01_one_startup_is_shared_by_all_who_ask_for_it() {
    let mut rig = Rig::new(Transport::Noise);
    assert!(!rig.snapshot().startup_finished);
    let (first, effects) = rig.acquire();
    let lookup = spawned_lookup(&effects).expect("a lookup");
    let (ready, effects) = rig.ask(|waiter| Event::AwaitReady { waiter });
    assert_eq!(effects, []);
    let (second, effects) = rig.acquire();
    assert_eq!(effects, []);

    let effects = rig.step(Event::LookupDone {
        lookup,
        result: Ok(bundle(1)),
    });
    let (op, epoch, resume) = spawned_connector(&effects).expect("a dial");
    assert_eq!(resume, None);
    let effects = rig.step(Event::LinkReady {
        op,
        epoch,
        session: SESSION,
    });
    let generation = ids::Gen(1);
    assert_eq!(
        effects,
        [
            Effect::Install {
                generation,
                epoch,
                session: SESSION
            },
            Effect::PublishSlot(generation, LinkSlot::Up(epoch)),
            Effect::PublishConn(ConnState::Connected),
            Effect::Observe(ids::AttemptId(1), Outcome::Success),
            Effect::Reply(first, Answer::Session(generation)),
            Effect::Reply(ready, Answer::Ready),
            Effect::Reply(second, Answer::Session(generation)),
        ]
    );
    assert!(rig.snapshot().startup_finished);
}
