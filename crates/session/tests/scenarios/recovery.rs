//! Recovery (2.3, 5): the transitions and the rules of a resume.

use mainstay_session::ids::*;
use mainstay_session::*;

use crate::rig::*;

const GEN: Gen = Gen(1);

fn lost(end: End) -> Cause {
    Cause::Lost {
        down: Down::Told(CAUSE),
        end,
    }
}

#[test]
fn t01_a_lost_link_is_published_then_streams_fail_then_starts_are_drained() {
    let (mut rig, generation, epoch) = Rig::connected(Transport::Noise);
    let recovery = RecoveryId(1);
    let expected = [
        Effect::PublishSlot(generation, LinkSlot::Recovering),
        Effect::PublishConn(ConnState::Recovering),
        Effect::StartTimer(Timer::Deadline(recovery), Wait::RecoveryDeadline),
        Effect::FailStreams(generation, Cause::LinkLost(Down::Told(CAUSE))),
        Effect::DrainStarts {
            recovery,
            generation,
            epoch,
        },
    ];
    assert_eq!(rig.step(down(epoch)), expected);
}

#[test]
fn t02_t04_a_misbehaving_link_is_closed_first() {
    for fault in [
        Fault::BadId,
        Fault::DuplicateId,
        Fault::BadNotification,
        Fault::RpcTimeout,
    ] {
        let (mut rig, _, epoch) = Rig::connected(Transport::WebSocket);
        let effects = rig.step(Event::LinkFault {
            epoch,
            fault,
            cause: CAUSE,
        });
        assert_eq!(effects[0], Effect::CloseLink(epoch), "{fault:?}");
        drain(&effects);
        assert!(
            ignored(&rig.step(down(epoch))),
            "the Reader's own report comes late"
        );
    }
}

#[test]
fn a13_a_timeout_moves_nothing_without_a_strategy() {
    let (mut rig, _, epoch) = Rig::connected(Transport::Once);
    let before = rig.machine.clone();
    let fault = |fault| Event::LinkFault {
        epoch,
        fault,
        cause: CAUSE,
    };
    assert!(ignored(&rig.step(fault(Fault::RpcTimeout))));
    assert_eq!(rig.machine, before);
    rig.step(fault(Fault::BadId));
    assert_eq!(rig.conn(), ConnState::Disconnected);
}

#[test]
fn t05_reports_of_other_links_are_ignored() {
    let (mut rig, _, epoch) = Rig::connected(Transport::Noise);
    let (_, effects) = rig.lose(epoch);
    let (renewed, _) = rig.resume(&effects, bundle(1));
    let before = rig.machine.clone();
    for other in [epoch, renewed.next()] {
        assert!(ignored(&rig.step(down(other))));
        let fault = Event::LinkFault {
            epoch: other,
            fault: Fault::BadId,
            cause: CAUSE,
        };
        assert!(ignored(&rig.step(fault)));
    }
    assert_eq!(rig.machine, before);
}

#[test]
fn t06_s05_a_resume_shows_link_and_new_registration_in_one_step() {
    let (mut rig, generation, epoch) = Rig::connected(Transport::Noise);
    let (waiter, _) = rig.ask(|waiter| Event::AwaitLink {
        generation,
        dead: Some(epoch),
        waiter,
    });
    let (recovery, effects) = rig.lose(epoch);
    let effects = rig.looked_up(&effects, registered(2, 1));
    assert_eq!(
        connector(&effects),
        (Op::Recovery(recovery), Epoch(2), Some(SESSION))
    );
    let (renewed, effects) = rig.link_ready(&effects, SESSION);
    assert_eq!(
        effects,
        [Effect::SpawnReplay {
            recovery,
            generation,
            epoch: renewed
        }]
    );
    assert_eq!(
        rig.snapshot().registration,
        Some(Registration(1)),
        "a lookup and a dial change nothing visible"
    );
    let effects = rig.step(Event::ReplayDone {
        recovery,
        epoch: renewed,
        result: Ok(()),
    });
    let expected = [
        Effect::CancelTimer(Timer::Deadline(recovery)),
        Effect::Relink {
            generation,
            epoch: renewed,
        },
        Effect::PublishSlot(generation, LinkSlot::Up(renewed)),
        Effect::PublishConn(ConnState::Connected),
        Effect::Reply(waiter, Answer::Link(generation, renewed)),
    ];
    assert_eq!(effects, expected);
    assert_eq!(rig.snapshot().registration, Some(Registration(2)));
    assert_eq!(rig.snapshot().session, Some((generation, SESSION)));
}

#[test]
fn a05_the_first_resume_is_immediate_and_needs_no_registry_for_a_url() {
    let (mut rig, _, epoch) = Rig::connected(Transport::WebSocket);
    let (_, effects) = rig.lose(epoch);
    let (_, _, resume) = connector(&effects);
    assert_eq!(resume, Some(SESSION));
    let (renewed, _) = rig.resume(&effects, bundle(1));
    assert!(renewed > epoch);
    assert_eq!(rig.conn(), ConnState::Connected);
}

#[test]
fn w03_an_announced_restart_delays_the_first_resume() {
    let (mut rig, _, epoch) = Rig::connected(Transport::Noise);
    let effects = rig.step(Event::LinkDown {
        epoch,
        cause: CAUSE,
        restart: true,
    });
    let recovery = drain(&effects);
    let effects = rig.step(Event::StartsDrained(recovery));
    assert_eq!(
        effects,
        [Effect::StartTimer(
            Timer::Retry(recovery),
            Wait::Restart(CAUSE)
        )]
    );
    lookup(&rig.step(Event::Due(Timer::Retry(recovery))));
}

#[test]
fn a_failed_resume_is_tried_again_after_the_delay_of_its_cause() {
    let classes = [
        Class::Closed,
        Class::Dial,
        Class::Handshake,
        Class::AlreadyAttached,
        Class::Registry,
        Class::Offline,
        Class::Provisioning,
        Class::Crashed,
    ];
    let (mut rig, _, epoch) = Rig::connected(Transport::Noise);
    let (recovery, mut effects) = rig.lose(epoch);
    for (earlier, class) in (0..).zip(classes) {
        let failed = rig.lookup_failed(&effects, class);
        let wait = Wait::Backoff {
            after: failure(class),
            earlier,
        };
        let expected = [
            Effect::Trace(Note::ResumeFailed(recovery, failure(class))),
            Effect::StartTimer(Timer::Retry(recovery), wait),
        ];
        assert_eq!(failed, expected);
        assert_eq!(
            rig.snapshot().phase,
            Phase::Recovering(RecoveryPhase::Backoff)
        );
        effects = rig.step(Event::Due(Timer::Retry(recovery)));
    }
    rig.resume(&effects, bundle(1));
    assert_eq!(rig.conn(), ConnState::Connected);
}

#[test]
fn every_stage_of_a_resume_may_fail() {
    let (mut rig, _, epoch) = Rig::connected(Transport::Noise);
    let (recovery, effects) = rig.lose(epoch);
    let retry = Event::Due(Timer::Retry(recovery));
    rig.lookup_failed(&effects, Class::Offline);
    let effects = rig.step(retry);
    let effects = rig.looked_up(&effects, bundle(1));
    rig.connect_failed(&effects, Class::Handshake);
    // The link closes under the replay: the replay says so, or the Reader.
    let effects = rig.step(retry);
    let effects = rig.looked_up(&effects, bundle(1));
    let (candidate, effects) = rig.link_ready(&effects, SESSION);
    let (_, on) = replay(&effects);
    let closed = Event::ReplayDone {
        recovery,
        epoch: on,
        result: Err(failure(Class::Closed)),
    };
    assert!(rig.step(closed).contains(&Effect::CloseLink(candidate)));
    let effects = rig.step(retry);
    let effects = rig.looked_up(&effects, bundle(1));
    let (candidate, effects) = rig.link_ready(&effects, SESSION);
    replay(&effects);
    let effects = rig.step(down(candidate));
    assert!(effects.contains(&Effect::Stop(Child::Replay(recovery, candidate))));
    let late = Event::ReplayDone {
        recovery,
        epoch: candidate,
        result: Ok(()),
    };
    assert!(
        ignored(&rig.step(late)),
        "a link that was reported down never becomes current"
    );
    // The Reader is faster than Handshake.
    let effects = rig.step(retry);
    let effects = rig.looked_up(&effects, bundle(1));
    let (op, candidate, _) = connector(&effects);
    rig.step(down(candidate));
    let effects = rig.step(Event::LinkReady {
        op,
        epoch: candidate,
        session: SESSION,
    });
    assert!(effects.contains(&Effect::CloseLink(candidate)));
    assert_eq!(
        rig.snapshot().phase,
        Phase::Recovering(RecoveryPhase::Backoff)
    );
}

#[test]
fn t08_an_error_that_will_not_pass_ends_the_session() {
    let (mut rig, generation, epoch) = Rig::connected(Transport::Noise);
    let (waiter, _) = rig.ask(|waiter| Event::AwaitLink {
        generation,
        dead: Some(epoch),
        waiter,
    });
    let (recovery, effects) = rig.lose(epoch);
    let effects = rig.lookup_failed(&effects, Class::Terminal);
    let cause = lost(End::Fatal(failure(Class::Terminal)));
    let expected = [
        Effect::PublishSlot(generation, LinkSlot::Failed(cause)),
        Effect::PublishConn(ConnState::Disconnected),
        Effect::Reply(waiter, Answer::Failed(cause)),
        Effect::CancelTimer(Timer::Deadline(recovery)),
        Effect::Stop(Child::Lookup(LookupTag {
            op: Op::Recovery(recovery),
            turn: 0,
        })),
        Effect::FailProcesses(generation, cause),
        Effect::FailStreams(generation, cause),
    ];
    assert_eq!(effects, expected);
    assert_eq!(rig.machine.keeps().causes, [CAUSE, CAUSE]);
}

#[test]
fn t09_a_policy_denial_keeps_its_kind() {
    let (mut rig, _, epoch) = Rig::connected(Transport::Noise);
    let (_, effects) = rig.lose(epoch);
    rig.lookup_failed(&effects, Class::Denied);
    assert_eq!(
        rig.fail_fast(),
        Answer::Failed(lost(End::Fatal(failure(Class::Denied))))
    );
}

#[test]
fn a32_another_key_ends_the_session_before_any_dial() {
    let (mut rig, _, epoch) = Rig::connected(Transport::Noise);
    let (_, effects) = rig.lose(epoch);
    let effects = rig.looked_up(&effects, registered(1, 2));
    assert!(
        !effects
            .iter()
            .any(|effect| matches!(effect, Effect::SpawnConnector { .. }))
    );
    assert_eq!(rig.fail_fast(), Answer::Failed(lost(End::KeyChanged)));
}

#[test]
fn s06_an_executor_without_the_session_ends_it() {
    let (mut rig, _, epoch) = Rig::connected(Transport::Noise);
    let (_, effects) = rig.lose(epoch);
    let effects = rig.looked_up(&effects, registered(2, 1));
    // "Unknown session" is -32600.
    rig.connect_failed(&effects, Class::Terminal);
    assert_eq!(
        rig.fail_fast(),
        Answer::Failed(lost(End::Fatal(failure(Class::Terminal))))
    );
    assert_eq!(rig.snapshot().registration, Some(Registration(1)));
}

#[test]
fn another_session_id_in_the_answer_ends_the_session() {
    let (mut rig, _, epoch) = Rig::connected(Transport::WebSocket);
    let (_, effects) = rig.lose(epoch);
    let (candidate, effects) = rig.link_ready(&effects, SESSION.next());
    assert!(effects.contains(&Effect::CloseLink(candidate)));
    assert_eq!(rig.fail_fast(), Answer::Failed(lost(End::SessionChanged)));
}

#[test]
fn w05_a_second_401_upgrade_ends_the_session() {
    let (mut rig, _, epoch) = Rig::connected(Transport::Noise);
    let (recovery, effects) = rig.lose(epoch);
    let effects = rig.looked_up(&effects, bundle(1));
    rig.connect_failed(&effects, Class::Unauthorized);
    let effects = rig.step(Event::Due(Timer::Retry(recovery)));
    assert_eq!(lookup(&effects).turn, 1, "with a new bundle");
    let effects = rig.looked_up(&effects, bundle(1));
    rig.connect_failed(&effects, Class::Unauthorized);
    assert_eq!(
        rig.fail_fast(),
        Answer::Failed(lost(End::Fatal(failure(Class::Unauthorized))))
    );
}

#[test]
fn the_deadline_ends_whatever_runs_and_says_what_it_was() {
    type Reach = fn(&mut Rig, Vec<Effect>);
    let stages: [(RecoveryPhase, Reach); 5] = [
        (RecoveryPhase::Lookup, |_, _| {}),
        (RecoveryPhase::Backoff, |rig, effects| {
            rig.lookup_failed(&effects, Class::Offline);
        }),
        (RecoveryPhase::Attach, |rig, effects| {
            rig.looked_up(&effects, bundle(1));
        }),
        (RecoveryPhase::Replay, |rig, effects| {
            let effects = rig.looked_up(&effects, bundle(1));
            rig.link_ready(&effects, SESSION);
        }),
        (RecoveryPhase::StartDrain, |rig, _| {
            // Lost again right after a good resume.
            let effects = rig.step(Event::Nudge);
            assert_eq!(effects, []);
        }),
    ];
    for (phase, reach) in stages {
        let (mut rig, generation, epoch) = Rig::connected(Transport::Noise);
        let recovery = if phase == RecoveryPhase::StartDrain {
            drain(&rig.step(down(epoch)))
        } else {
            let (recovery, effects) = rig.lose(epoch);
            reach(&mut rig, effects);
            recovery
        };
        assert_eq!(rig.snapshot().phase, Phase::Recovering(phase));
        let last = (phase == RecoveryPhase::Backoff).then_some(failure(Class::Offline));
        let effects = rig.step(Event::Due(Timer::Deadline(recovery)));
        let cause = lost(End::TimedOut { phase, last });
        assert_eq!(
            effects[0],
            Effect::PublishSlot(generation, LinkSlot::Failed(cause)),
            "{phase:?}"
        );
        let stops = effects
            .iter()
            .any(|effect| matches!(effect, Effect::Stop(_)));
        let runs = matches!(
            phase,
            RecoveryPhase::Lookup | RecoveryPhase::Attach | RecoveryPhase::Replay
        );
        assert_eq!(stops, runs, "{phase:?}");
        assert!(ignored(&rig.step(Event::Due(Timer::Deadline(recovery)))));
    }
}

#[test]
fn a_nudge_runs_a_waiting_resume_and_resets_the_delays() {
    let (mut rig, _, epoch) = Rig::connected(Transport::Noise);
    let (recovery, effects) = rig.lose(epoch);
    rig.lookup_failed(&effects, Class::Registry);
    let effects = rig.step(Event::Due(Timer::Retry(recovery)));
    rig.lookup_failed(&effects, Class::Registry);
    let effects = rig.step(Event::Nudge);
    assert_eq!(effects[0], Effect::CancelTimer(Timer::Retry(recovery)));
    let effects = rig.lookup_failed(&effects, Class::Registry);
    assert_eq!(
        timer(&effects).1,
        Wait::Backoff {
            after: failure(Class::Registry),
            earlier: 0
        }
    );
    assert!(ignored(&rig.step(Event::StartsDrained(recovery))));
}

#[test]
fn s20_a_whole_recovery_changes_the_watch_twice() {
    let (mut rig, _, epoch) = Rig::connected(Transport::Noise);
    let mut seen = conns(&rig.step(down(epoch)));
    let recovery = RecoveryId(1);
    let effects = rig.step(Event::StartsDrained(recovery));
    seen.extend(conns(&effects));
    let effects = rig.looked_up(&effects, bundle(1));
    seen.extend(conns(&effects));
    let (_, effects) = rig.link_ready(&effects, SESSION);
    seen.extend(conns(&effects));
    let effects = rig.replayed(&effects);
    seen.extend(conns(&effects));
    assert_eq!(seen, [ConnState::Recovering, ConnState::Connected]);
    assert_eq!(rig.snapshot().session, Some((GEN, SESSION)));
}

#[test]
fn a_failure_wakes_even_when_the_watch_shows_it_already() {
    let (mut rig, generation, _) = Rig::connected(Transport::Noise);
    let effects = rig.step(Event::RetireForTest(generation));
    assert_eq!(conns(&effects), [ConnState::Disconnected]);
    // A session that failed is then retired: the same value again.
    let (_, effects) = rig.acquire();
    let (_, epoch, _) = rig.install(&effects, bundle(1));
    let (_, effects) = rig.lose(epoch);
    let effects = rig.lookup_failed(&effects, Class::Terminal);
    assert_eq!(conns(&effects), [ConnState::Disconnected]);
    let effects = rig.step(Event::RetireForTest(Gen(2)));
    assert_eq!(conns(&effects), [ConnState::Disconnected]);
}
