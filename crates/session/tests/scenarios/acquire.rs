//! Callers and the startup memory (3.1–3.3), snapshots, the observer (3.5).

use mainstay_session::ids::*;
use mainstay_session::*;

use crate::rig::*;

fn ready(waiter: WaiterId) -> Event {
    Event::AwaitReady { waiter }
}

#[test]
fn a01_one_startup_is_shared_by_all_who_ask_for_it() {
    let mut rig = Rig::new(Transport::Noise);
    assert!(!rig.snapshot().startup_finished);
    let (first, effects) = rig.acquire();
    let started = effects;
    let (second, effects) = rig.ask(ready);
    assert_eq!(effects, []);
    let (third, effects) = rig.acquire();
    assert_eq!(effects, []);
    let effects = rig.looked_up(&started, bundle(1));
    assert_eq!(
        connector(&effects).2,
        None,
        "a new session never carries a resume id"
    );
    let (epoch, effects) = rig.link_ready(&effects, SESSION);
    let generation = Gen(1);
    let expected = [
        Effect::Install {
            generation,
            epoch,
            session: SESSION,
        },
        Effect::PublishSlot(generation, LinkSlot::Up(epoch)),
        Effect::PublishConn(ConnState::Connected),
        Effect::Observe(AttemptId(1), Outcome::Success),
        Effect::Reply(first, Answer::Session(generation)),
        Effect::Reply(second, Answer::Ready),
        Effect::Reply(third, Answer::Session(generation)),
    ];
    assert_eq!(effects, expected);
    assert!(rig.snapshot().startup_finished);
}

#[test]
fn a02_a_program_that_cannot_start_fails_every_caller_with_the_same_error() {
    let mut rig = Rig::new(Transport::Once);
    assert_eq!(
        rig.step(Event::StartConnecting),
        [],
        "starting a program stays lazy"
    );
    let (first, effects) = rig.acquire();
    let effects = rig.connect_failed(&effects, Class::Terminal);
    let failed = Answer::Failed(Cause::Attempt(failure(Class::Terminal)));
    assert_eq!(answer(&effects, first), Some(failed));
    assert_eq!(
        rig.at_once(|waiter| Event::Acquire {
            mode: Mode::Wait,
            waiter
        }),
        failed
    );
    assert_eq!(rig.fail_fast(), failed);
    assert_eq!(rig.conn(), ConnState::Disconnected);
    assert_eq!(
        rig.machine.keeps().causes,
        [CAUSE],
        "the shell keeps the error that callers share"
    );
}

#[test]
fn a02_without_a_reconnect_even_a_passing_failure_is_remembered() {
    let mut rig = Rig::new(Transport::Once);
    let (_, effects) = rig.acquire();
    rig.connect_failed(&effects, Class::Handshake);
    let failed = Answer::Failed(Cause::Attempt(failure(Class::Handshake)));
    assert_eq!(
        rig.at_once(|waiter| Event::Acquire {
            mode: Mode::Wait,
            waiter
        }),
        failed
    );
}

#[test]
fn a03_a_failed_startup_is_followed_by_one_shared_session() {
    let mut rig = Rig::new(Transport::Noise);
    let effects = rig.step(Event::StartConnecting);
    let effects = rig.looked_up(&effects, bundle(1));
    let effects = rig.connect_failed(&effects, Class::Dial);
    assert!(effects.contains(&Effect::Observe(AttemptId(1), Outcome::Failure)));
    let snapshot = rig.snapshot();
    assert!(snapshot.startup_finished);
    assert_eq!(
        snapshot.readiness,
        Readiness::Failed(Cause::Attempt(failure(Class::Dial)))
    );
    assert_eq!(snapshot.conn, ConnState::Disconnected);

    let (_, started) = rig.ask(ready);
    let (_, joined) = rig.acquire();
    let (_, also) = rig.acquire();
    assert_eq!((joined, also), (vec![], vec![]));
    let (_, _, effects) = rig.install(&started, bundle(1));
    assert!(effects.contains(&Effect::Observe(AttemptId(2), Outcome::Success)));
    assert_eq!(
        effects
            .iter()
            .filter(|effect| matches!(effect, Effect::Reply(..)))
            .count(),
        3
    );
}

#[test]
fn a_startup_error_that_will_not_pass_stays_until_credentials_change() {
    let mut rig = Rig::new(Transport::Noise);
    let (_, effects) = rig.acquire();
    rig.lookup_failed(&effects, Class::Terminal);
    let failed = Answer::Failed(Cause::Attempt(failure(Class::Terminal)));
    assert_eq!(
        rig.at_once(|waiter| Event::Acquire {
            mode: Mode::Wait,
            waiter
        }),
        failed
    );
    assert_eq!(rig.at_once(ready), failed);
    // W15.
    rig.step(Event::CredentialsChanged);
    let (_, effects) = rig.acquire();
    assert_eq!(lookup(&effects).op, Op::Attempt(AttemptId(2)));
}

#[test]
fn s19_a_denied_startup_is_tried_again() {
    let mut rig = Rig::new(Transport::Noise);
    let (first, effects) = rig.acquire();
    let effects = rig.lookup_failed(&effects, Class::Denied);
    assert_eq!(
        answer(&effects, first),
        Some(Answer::Failed(Cause::Attempt(failure(Class::Denied))))
    );
    rig.step(Event::PolicyPublished);
    let (_, effects) = rig.acquire();
    rig.install(&effects, bundle(1));
    assert_eq!(rig.conn(), ConnState::Connected);
}

#[test]
fn fail_fast_starts_waits_for_and_recovers_nothing() {
    let mut rig = Rig::new(Transport::Noise);
    assert_eq!(rig.fail_fast(), Answer::Failed(Cause::NotReady));
    let (_, effects) = rig.acquire();
    assert_eq!(rig.fail_fast(), Answer::Failed(Cause::NotReady));
    rig.install(&effects, bundle(1));
    assert_eq!(rig.fail_fast(), Answer::Session(Gen(1)));
    let (_, effects) = rig.lose(Epoch(1));
    assert_eq!(rig.fail_fast(), Answer::Failed(Cause::Recovering));
    rig.lookup_failed(&effects, Class::Terminal);
    let lost = Cause::Lost {
        down: Down::Told(CAUSE),
        end: End::Fatal(failure(Class::Terminal)),
    };
    assert_eq!(rig.fail_fast(), Answer::Failed(lost));
}

#[test]
fn a_waiting_get_returns_a_recovering_session_at_once() {
    let (mut rig, generation, epoch) = Rig::connected(Transport::Noise);
    rig.step(down(epoch));
    let acquired = rig.at_once(|waiter| Event::Acquire {
        mode: Mode::Wait,
        waiter,
    });
    assert_eq!(acquired, Answer::Session(generation));
}

#[test]
fn a04_a_failed_session_is_followed_by_a_new_one() {
    let (mut rig, old, epoch) = Rig::connected(Transport::WebSocket);
    let (_, effects) = rig.lose(epoch);
    rig.connect_failed(&effects, Class::Terminal);
    assert_eq!(rig.snapshot().phase, Phase::Failed);
    let (first, effects) = rig.acquire();
    assert_eq!(
        rig.snapshot().phase,
        Phase::Connecting(AttemptPhase::Attach)
    );
    let effects = rig.connect_failed(&effects, Class::Dial);
    assert_eq!(
        answer(&effects, first),
        Some(Answer::Failed(Cause::Attempt(failure(Class::Dial))))
    );
    let (second, effects) = rig.acquire();
    let (generation, _, effects) = rig.install(&effects, bundle(1));
    assert_eq!(answer(&effects, second), Some(Answer::Session(generation)));
    assert!(generation > old);
    // Its holders learn from its slot how it ended.
    let (late, effects) = rig.await_link(old);
    assert_eq!(
        answer(&effects, late),
        Some(Answer::Failed(Cause::NotCurrent))
    );
}

#[test]
fn a11_without_a_reconnect_the_failed_session_is_what_callers_get() {
    let (mut rig, generation, epoch) = Rig::connected(Transport::Once);
    let effects = rig.step(down(epoch));
    let cause = Cause::Lost {
        down: Down::Told(CAUSE),
        end: End::NoStrategy,
    };
    let expected = [
        Effect::PublishSlot(generation, LinkSlot::Failed(cause)),
        Effect::PublishConn(ConnState::Disconnected),
        Effect::CloseLink(epoch),
        Effect::FailProcesses(generation, cause),
        Effect::FailStreams(generation, cause),
    ];
    assert_eq!(effects, expected);
    let acquired = rig.at_once(|waiter| Event::Acquire {
        mode: Mode::Wait,
        waiter,
    });
    assert_eq!(acquired, Answer::Session(generation));
    let (waiter, effects) = rig.await_link(generation);
    assert_eq!(answer(&effects, waiter), Some(Answer::Failed(cause)));
}

#[test]
fn a_holder_whose_link_closed_waits_for_another_one() {
    let (mut rig, generation, epoch) = Rig::connected(Transport::WebSocket);
    assert_eq!(
        rig.at_once(|waiter| Event::AwaitLink {
            generation,
            dead: None,
            waiter
        }),
        Answer::Link(generation, epoch)
    );
    // The caller saw the closed flag before the supervisor got the Reader's report.
    let (waiter, effects) = rig.ask(|waiter| Event::AwaitLink {
        generation,
        dead: Some(epoch),
        waiter,
    });
    assert_eq!(effects, []);
    let (_, effects) = rig.lose(epoch);
    let (renewed, effects) = rig.resume(&effects, bundle(1));
    assert_eq!(
        answer(&effects, waiter),
        Some(Answer::Link(generation, renewed))
    );
}

#[test]
fn a_caller_who_is_gone_gets_no_answer_and_the_attempt_goes_on() {
    let mut rig = Rig::new(Transport::Noise);
    let (first, effects) = rig.acquire();
    assert_eq!(rig.step(Event::ForgetWaiter(first)), []);
    let (_, _, effects) = rig.install(&effects, bundle(1));
    assert_eq!(answer(&effects, first), None);
    assert_eq!(rig.conn(), ConnState::Connected);
}

#[test]
fn readiness_of_every_phase() {
    let mut rig = Rig::new(Transport::Noise);
    assert_eq!(rig.snapshot().readiness, Readiness::Undecided);
    let (_, effects) = rig.acquire();
    assert_eq!(rig.snapshot().readiness, Readiness::Undecided);
    let (_, epoch, _) = rig.install(&effects, bundle(1));
    assert_eq!(rig.snapshot().readiness, Readiness::Ready);
    let (_, effects) = rig.lose(epoch);
    assert_eq!(rig.snapshot().readiness, Readiness::Undecided);
    rig.looked_up(&effects, bundle(2));
    let lost = Cause::Lost {
        down: Down::Told(CAUSE),
        end: End::KeyChanged,
    };
    assert_eq!(rig.snapshot().readiness, Readiness::Failed(lost));
    assert_eq!(rig.at_once(ready), Answer::Ready, "the startup did succeed");
}

#[test]
fn the_observer_hears_of_first_connections_only() {
    let (mut rig, _, epoch) = Rig::connected(Transport::WebSocket);
    let (_, effects) = rig.lose(epoch);
    rig.connect_failed(&effects, Class::Terminal);
    let (_, effects) = rig.acquire();
    let (_, _, effects) = rig.install(&effects, bundle(1));
    assert!(
        !effects
            .iter()
            .any(|effect| matches!(effect, Effect::Observe(..)))
    );
}
