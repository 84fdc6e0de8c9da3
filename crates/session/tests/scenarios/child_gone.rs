//! The table of 15.7, row by row.

use mainstay_session::ids::*;
use mainstay_session::*;

use crate::rig::*;

fn gone(child: Child) -> Event {
    Event::ChildGone {
        child,
        how: How::Panicked,
    }
}

const CRASHED: Answer = Answer::Failed(Cause::Attempt(Failure::CRASHED));

#[test]
fn lookup_or_connector_of_an_attempt() {
    let mut rig = Rig::new(Transport::Noise);
    let (waiter, effects) = rig.acquire();
    let effects = rig.step(gone(Child::Lookup(lookup(&effects))));
    assert_eq!(answer(&effects, waiter), Some(CRASHED));
    let (waiter, effects) = rig.acquire();
    let effects = rig.looked_up(&effects, bundle(1));
    let (op, epoch, _) = connector(&effects);
    let effects = rig.step(gone(Child::Connector(op, epoch)));
    assert_eq!(answer(&effects, waiter), Some(CRASHED));
    // Retryable: the next caller gets another attempt, after the pause that the second failure brought.
    let (_, effects) = rig.acquire();
    assert_eq!(effects, []);
    assert_eq!(
        rig.snapshot().phase,
        Phase::Connecting(AttemptPhase::Cooldown)
    );
}

#[test]
fn lookup_connector_or_replay_of_a_recovery() {
    let (mut rig, _, epoch) = Rig::connected(Transport::Noise);
    let (recovery, effects) = rig.lose(epoch);
    let retry = Event::Due(Timer::Retry(recovery));
    let wait = |earlier| Wait::Backoff {
        after: Failure::CRASHED,
        earlier,
    };
    let effects = rig.step(gone(Child::Lookup(lookup(&effects))));
    assert_eq!(timer(&effects[1..]), (Timer::Retry(recovery), wait(0)));
    let effects = rig.step(retry);
    let effects = rig.looked_up(&effects, bundle(1));
    let (op, candidate, _) = connector(&effects);
    let effects = rig.step(gone(Child::Connector(op, candidate)));
    assert_eq!(timer(&effects[1..]), (Timer::Retry(recovery), wait(1)));
    let effects = rig.step(retry);
    let effects = rig.looked_up(&effects, bundle(1));
    let (candidate, _) = rig.link_ready(&effects, SESSION);
    let effects = rig.step(gone(Child::Replay(recovery, candidate)));
    assert!(effects.contains(&Effect::CloseLink(candidate)));
    assert_eq!(timer(&effects[1..]), (Timer::Retry(recovery), wait(2)));
}

#[test]
fn lookup_or_probe_of_a_refresh() {
    let (mut rig, _, _) = Rig::connected(Transport::Noise);
    let (first, effects) = rig.refresh();
    let effects = rig.step(gone(Child::Lookup(lookup(&effects))));
    assert_eq!(
        answer(&effects, first),
        Some(Answer::Failed(Cause::Crashed))
    );
    let (second, effects) = rig.refresh();
    let effects = rig.looked_up(&effects, bundle(1));
    let effects = rig.step(gone(Child::Probe(probe(&effects).0)));
    assert_eq!(
        answer(&effects, second),
        Some(Answer::Failed(Cause::Crashed))
    );
    assert_eq!(rig.conn(), ConnState::Connected);
}

#[test]
fn reader_or_writer_of_the_current_link() {
    for half in [Child::Reader, Child::Writer] {
        let (mut rig, _, epoch) = Rig::connected(Transport::Noise);
        let effects = rig.step(Event::ChildGone {
            child: half(epoch),
            how: How::Killed,
        });
        assert_eq!(
            effects[0],
            Effect::CloseLink(epoch),
            "the other half goes too"
        );
        assert_eq!(conns(&effects), [ConnState::Recovering]);
    }
}

#[test]
fn reader_of_a_candidate() {
    let (mut rig, _, epoch) = Rig::connected(Transport::Noise);
    let (recovery, effects) = rig.lose(epoch);
    let effects = rig.looked_up(&effects, bundle(1));
    let (candidate, _) = rig.link_ready(&effects, SESSION);
    let effects = rig.step(gone(Child::Reader(candidate)));
    assert!(effects.contains(&Effect::CloseLink(candidate)));
    assert_eq!(
        rig.snapshot().phase,
        Phase::Recovering(RecoveryPhase::Backoff)
    );
    // And of one whose Handshake still runs: the link is not taken then.
    let effects = rig.step(Event::Due(Timer::Retry(recovery)));
    let effects = rig.looked_up(&effects, bundle(1));
    let (op, candidate, _) = connector(&effects);
    rig.step(gone(Child::Reader(candidate)));
    let effects = rig.step(Event::LinkReady {
        op,
        epoch: candidate,
        session: SESSION,
    });
    assert!(effects.contains(&Effect::CloseLink(candidate)));
}

#[test]
fn body_table() {
    let (mut rig, generation, _) = Rig::connected(Transport::Noise);
    let effects = rig.step(gone(Child::BodyTable(generation)));
    assert!(effects.contains(&Effect::FailStreams(generation, Cause::BodyTableLost)));
    assert_eq!(rig.conn(), ConnState::Connected, "the session stays");
}

#[test]
fn process_table() {
    let (mut rig, generation, epoch) = Rig::connected(Transport::Noise);
    let effects = rig.step(gone(Child::ProcessTable(generation)));
    let lost = Cause::ProcessTableLost;
    assert!(effects.contains(&Effect::SetGate(generation)));
    assert!(effects.contains(&Effect::CloseLink(epoch)));
    assert!(effects.contains(&Effect::PublishSlot(generation, LinkSlot::Failed(lost))));
    let (_, effects) = rig.acquire();
    rig.install(&effects, bundle(1));
    assert_eq!(
        rig.conn(),
        ConnState::Connected,
        "the environment reconnects"
    );
}

#[test]
fn a_result_before_the_end_is_what_counts() {
    let mut rig = Rig::new(Transport::Noise);
    let (_, effects) = rig.acquire();
    let looked = lookup(&effects);
    let effects = rig.looked_up(&effects, bundle(1));
    let before = rig.machine.clone();
    assert_eq!(
        rig.step(Event::ChildGone {
            child: Child::Lookup(looked),
            how: How::Stopped
        }),
        []
    );
    assert_eq!(rig.machine, before);
    rig.install(&effects, bundle(1));
}

#[test]
fn more_than_three_panics_within_a_minute_end_the_session() {
    let (mut rig, generation, _) = Rig::connected(Transport::Noise);
    for crash in 1..=3 {
        let effects = rig.step(gone(Child::Operation));
        assert_eq!(
            effects,
            [Effect::StartTimer(Timer::Panic(crash), Wait::PanicWindow)]
        );
    }
    let effects = rig.step(gone(Child::Operation));
    let failed = LinkSlot::Failed(Cause::TooManyPanics);
    assert!(effects.contains(&Effect::PublishSlot(generation, failed)));
    assert!(effects.contains(&Effect::SetGate(generation)));
}

#[test]
fn old_panics_do_not_count_and_neither_do_normal_ends() {
    let (mut rig, _, _) = Rig::connected(Transport::Noise);
    for crash in 1..=3 {
        rig.step(gone(Child::Operation));
        rig.step(Event::Due(Timer::Panic(crash)));
    }
    for _ in 0..9 {
        rig.step(Event::ChildGone {
            child: Child::Operation,
            how: How::Stopped,
        });
        rig.step(Event::ChildGone {
            child: Child::Operation,
            how: How::Killed,
        });
    }
    for _ in 0..3 {
        rig.step(gone(Child::Operation));
    }
    assert_eq!(rig.conn(), ConnState::Connected);
}
