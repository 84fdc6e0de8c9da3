//! Refresh (6): decisions, the queue, overtaking (W18).

use mainstay_session::ids::*;
use mainstay_session::*;

use crate::rig::*;

#[test]
fn s01_refresh_beats_recovery() {
    let (mut rig, old, epoch) = Rig::connected(Transport::Noise);
    let (recovery, blocked) = rig.lose(epoch);
    let (waiter, effects) = rig.refresh();
    let effects = rig.looked_up(&effects, bundle(2));
    let replaced = Cause::Replaced;
    let expected = [
        Effect::SetGate(old),
        Effect::PublishConn(ConnState::Disconnected),
        Effect::PublishSlot(old, LinkSlot::Retired),
        Effect::CancelTimer(Timer::Deadline(recovery)),
        Effect::Stop(Child::Lookup(lookup(&blocked))),
        Effect::FailProcesses(old, replaced),
        Effect::FailStreams(old, replaced),
    ];
    assert_eq!(effects[..7], expected);
    // "Forcing Recovering and Failed on the old session": late reports with its tags.
    for late in [
        down(epoch),
        Event::StartsDrained(recovery),
        Event::Due(Timer::Deadline(recovery)),
    ] {
        assert!(ignored(&rig.step(late)));
    }
    let (generation, _, effects) = rig.install(&effects, bundle(2));
    assert_eq!(conns(&effects), [ConnState::Connected]);
    let effects = rig.probed(&effects);
    assert_eq!(
        answer(&effects, waiter),
        Some(Answer::Refreshed(generation))
    );
    // The old lookup is released.
    let settled = rig.machine.clone();
    assert!(ignored(&rig.looked_up(&blocked, bundle(1))));
    assert_eq!(rig.machine, settled);
    assert_eq!(rig.snapshot().readiness, Readiness::Ready);
}

#[test]
fn s03_concurrent_refreshes_keep_a_session_that_is_right() {
    let (mut rig, generation, _) = Rig::connected(Transport::Noise);
    let (first, active) = rig.refresh();
    let (second, effects) = rig.refresh();
    assert_eq!(effects, [], "one at a time");
    let effects = rig.looked_up(&active, bundle(1));
    let effects = rig.probed(&effects);
    assert_eq!(answer(&effects, first), Some(Answer::Refreshed(generation)));
    // The second one came after the first had asked: it asks for itself.
    let effects = rig.looked_up(&effects, bundle(1));
    let effects = rig.probed(&effects);
    assert_eq!(
        answer(&effects, second),
        Some(Answer::Refreshed(generation))
    );
}

#[test]
fn refreshes_that_wait_together_share_one_lookup() {
    let (mut rig, generation, _) = Rig::connected(Transport::Noise);
    let (_, active) = rig.refresh();
    let (second, _) = rig.refresh();
    let (third, _) = rig.refresh();
    let effects = rig.looked_up(&active, bundle(1));
    let effects = rig.probed(&effects);
    let effects = rig.looked_up(&effects, bundle(1));
    let effects = rig.probed(&effects);
    for waiter in [second, third] {
        assert_eq!(
            answer(&effects, waiter),
            Some(Answer::Refreshed(generation))
        );
    }
}

#[test]
fn s04_the_registration_changes_only_with_the_installation() {
    let mut rig = Rig::new(Transport::Noise);
    assert_eq!(rig.snapshot().registration, None);
    let (_, effects) = rig.acquire();
    let (old, _, _) = rig.install(&effects, bundle(1));
    let (waiter, effects) = rig.refresh();
    // The same key, another registration: a fresh session all the same (R13).
    let effects = rig.looked_up(&effects, registered(2, 1));
    assert_eq!(rig.snapshot().registration, Some(Registration(1)));
    assert_eq!(connector(&effects).2, None);
    let (epoch, effects) = rig.link_ready(&effects, SessionId(2));
    assert_eq!(rig.snapshot().registration, Some(Registration(2)));
    assert_eq!(probe(&effects).1, epoch);
    let effects = rig.probed(&effects);
    assert_eq!(
        answer(&effects, waiter),
        Some(Answer::Refreshed(old.next()))
    );
    assert_eq!(rig.snapshot().session, Some((old.next(), SessionId(2))));
}

#[test]
fn s07_a_lookup_that_is_older_than_a_recovery_is_repeated() {
    let (mut rig, generation, epoch) = Rig::connected(Transport::Noise);
    let (waiter, blocked) = rig.refresh();
    let (_, effects) = rig.lose(epoch);
    rig.resume(&effects, registered(2, 1));
    let effects = rig.looked_up(&blocked, bundle(1));
    let again = lookup(&effects);
    assert_eq!((again.op, again.turn), (lookup(&blocked).op, 1));
    let effects = rig.looked_up(&effects, registered(2, 1));
    let effects = rig.probed(&effects);
    assert_eq!(
        answer(&effects, waiter),
        Some(Answer::Refreshed(generation))
    );
    assert_eq!(rig.snapshot().registration, Some(Registration(2)));
}

#[test]
fn s08_s09_refresh_cancels_a_stalled_first_attempt() {
    for handshake in [false, true] {
        let mut rig = Rig::new(Transport::Noise);
        let (get, stalled) = rig.acquire();
        let stalled = if handshake {
            rig.looked_up(&stalled, bundle(1))
        } else {
            stalled
        };
        let (waiter, effects) = rig.refresh();
        let effects = rig.looked_up(&effects, bundle(2));
        assert_eq!(
            answer(&effects, get),
            Some(Answer::Failed(Cause::Superseded))
        );
        assert!(effects.contains(&Effect::Observe(AttemptId(1), Outcome::Cancelled)));
        assert_eq!(conns(&effects), [], "there was nothing to retire");
        let (generation, _, effects) = rig.install(&effects, bundle(2));
        assert_eq!(conns(&effects), [ConnState::Connected]);
        assert!(
            !effects
                .iter()
                .any(|effect| matches!(effect, Effect::Observe(..)))
        );
        let effects = rig.probed(&effects);
        assert_eq!(
            answer(&effects, waiter),
            Some(Answer::Refreshed(generation))
        );
        let settled = rig.machine.clone();
        let late = if handshake {
            let (op, epoch, _) = connector(&stalled);
            let effects = rig.step(Event::LinkReady {
                op,
                epoch,
                session: SESSION,
            });
            assert!(
                effects.contains(&Effect::CloseLink(epoch)),
                "its link does not stay open"
            );
            vec![]
        } else {
            rig.looked_up(&stalled, bundle(1))
        };
        assert!(ignored(&late));
        assert_eq!(rig.machine, settled);
    }
}

#[test]
fn s10_a_failed_lookup_changes_nothing() {
    let (mut rig, _, _) = Rig::connected(Transport::Noise);
    let before = rig.machine.snapshot();
    let (waiter, effects) = rig.refresh();
    let effects = rig.lookup_failed(&effects, Class::Terminal);
    let failed = Answer::Failed(Cause::Told(failure(Class::Terminal)));
    assert_eq!(effects, [Effect::Reply(waiter, failed)]);
    assert_eq!(rig.machine.snapshot(), before);
}

#[test]
fn s11_a_failed_replacement_leaves_the_old_session_retired_and_the_next_caller_tries_again() {
    let (mut rig, old, _) = Rig::connected(Transport::Noise);
    let (waiter, effects) = rig.refresh();
    let effects = rig.looked_up(&effects, bundle(2));
    let effects = rig.connect_failed(&effects, Class::Handshake);
    let failed = Answer::Failed(Cause::Attempt(failure(Class::Handshake)));
    assert_eq!(answer(&effects, waiter), Some(failed));
    assert_eq!(rig.conn(), ConnState::Disconnected);
    assert_eq!(rig.snapshot().registration, Some(Registration(1)));
    let (get, effects) = rig.acquire();
    let (generation, _, effects) = rig.install(&effects, bundle(2));
    assert_eq!(answer(&effects, get), Some(Answer::Session(generation)));
    let (late, effects) = rig.await_link(old);
    assert_eq!(
        answer(&effects, late),
        Some(Answer::Failed(Cause::NotCurrent))
    );
}

#[test]
fn s12_a_session_that_is_newer_than_the_lookup_is_kept() {
    let (mut rig, old, _) = Rig::connected(Transport::Noise);
    let (waiter, blocked) = rig.refresh();
    rig.step(Event::RetireForTest(old));
    let (_, effects) = rig.acquire();
    let (newer, _, _) = rig.install(&effects, bundle(2));
    let effects = rig.looked_up(&blocked, bundle(1));
    let effects = rig.looked_up(&effects, bundle(2));
    let effects = rig.probed(&effects);
    assert_eq!(answer(&effects, waiter), Some(Answer::Refreshed(newer)));
    assert_eq!(rig.conn(), ConnState::Connected);
}

#[test]
fn s15_a_recovering_session_that_is_right_is_kept_and_the_refresh_fails_at_once() {
    let (mut rig, generation, epoch) = Rig::connected(Transport::Noise);
    let (_, recovering) = rig.lose(epoch);
    let (waiter, effects) = rig.refresh();
    let effects = rig.looked_up(&effects, bundle(1));
    assert_eq!(
        effects,
        [Effect::Reply(waiter, Answer::Failed(Cause::Recovering))]
    );
    rig.resume(&recovering, bundle(1));
    assert_eq!(
        rig.snapshot().session.map(|(current, _)| current),
        Some(generation)
    );
}

#[test]
fn s16_refresh_before_any_startup_finishes_it() {
    let mut rig = Rig::new(Transport::Noise);
    let (waiter, effects) = rig.refresh();
    let effects = rig.looked_up(&effects, bundle(1));
    let (_, _, effects) = rig.install(&effects, bundle(1));
    let effects = rig.probed(&effects);
    assert!(matches!(
        answer(&effects, waiter),
        Some(Answer::Refreshed(_))
    ));
    let snapshot = rig.snapshot();
    assert!(snapshot.startup_finished);
    assert_eq!(snapshot.readiness, Readiness::Ready);
}

#[test]
fn s21_a_late_report_of_the_old_link_changes_nothing_on_either_side_of_the_decision() {
    for before in [true, false] {
        let (mut rig, _, epoch) = Rig::connected(Transport::Noise);
        let (_, effects) = rig.refresh();
        if before {
            assert_eq!(conns(&rig.step(down(epoch))), [ConnState::Recovering]);
        }
        let decided = rig.looked_up(&effects, bundle(2));
        assert_eq!(conns(&decided), [ConnState::Disconnected]);
        if !before {
            assert!(ignored(&rig.step(down(epoch))));
        }
        assert_eq!(rig.conn(), ConnState::Disconnected);
    }
}

#[test]
fn a_failed_session_is_replaced_even_at_the_same_registration() {
    let (mut rig, old, epoch) = Rig::connected(Transport::Noise);
    let (_, effects) = rig.lose(epoch);
    rig.lookup_failed(&effects, Class::Terminal);
    let (_, effects) = rig.refresh();
    let effects = rig.looked_up(&effects, bundle(1));
    assert_eq!(effects[0], Effect::SetGate(old));
    connector(&effects);
}

#[test]
fn a_probe_on_a_link_that_went_down_meanwhile_is_no_success() {
    let (mut rig, _, epoch) = Rig::connected(Transport::Noise);
    let (waiter, effects) = rig.refresh();
    let probing = rig.looked_up(&effects, bundle(1));
    rig.step(down(epoch));
    let effects = rig.probed(&probing);
    assert_eq!(
        answer(&effects, waiter),
        Some(Answer::Failed(Cause::Recovering))
    );
}

#[test]
fn a_failed_probe_is_the_refreshs_error_and_nothing_is_rolled_back() {
    let (mut rig, generation, _) = Rig::connected(Transport::Noise);
    let (waiter, effects) = rig.refresh();
    let effects = rig.looked_up(&effects, bundle(1));
    let (refresh, epoch) = probe(&effects);
    let effects = rig.step(Event::ProbeDone {
        refresh,
        epoch,
        result: Err(failure(Class::Closed)),
    });
    assert_eq!(
        answer(&effects, waiter),
        Some(Answer::Failed(Cause::Told(failure(Class::Closed))))
    );
    assert_eq!(
        rig.snapshot().session.map(|(current, _)| current),
        Some(generation)
    );
}

#[test]
fn a_transport_without_a_registry_cannot_refresh() {
    for transport in [Transport::WebSocket, Transport::Accepted, Transport::Once] {
        let mut rig = Rig::new(transport);
        let before = rig.machine.clone();
        let answer = rig.at_once(|waiter| Event::Refresh { waiter });
        assert_eq!(
            (answer, rig.machine),
            (Answer::Failed(Cause::CannotRefresh), before)
        );
    }
}

#[test]
fn on_a_pending_environment_the_lookup_runs_at_once_and_the_attempt_waits() {
    let mut rig = Rig::deferred();
    let (_, effects) = rig.refresh();
    let effects = rig.looked_up(&effects, bundle(1));
    assert_eq!(effects, []);
    assert_eq!(rig.machine.keeps().bundle, Some(BundleId(1)));
    let effects = rig.step(Event::ProvisioningChanged(Provisioning::Ready));
    let route = Route::Bundle(bundle(1));
    assert!(
        matches!(effects[..], [Effect::SpawnConnector { route: on, .. }] if on == route),
        "{effects:?}"
    );
    assert_eq!(rig.machine.keeps().bundle, None);
}

#[test]
fn a_forgotten_refresh_frees_the_queue() {
    let (mut rig, generation, _) = Rig::connected(Transport::Noise);
    let (first, active) = rig.refresh();
    let (second, _) = rig.refresh();
    let effects = rig.step(Event::ForgetWaiter(first));
    assert_eq!(effects[0], Effect::Stop(Child::Lookup(lookup(&active))));
    let effects = rig.looked_up(&effects, bundle(1));
    let effects = rig.probed(&effects);
    assert_eq!(
        answer(&effects, second),
        Some(Answer::Refreshed(generation))
    );
}

#[test]
fn an_attempt_whose_refresh_was_forgotten_serves_the_next_caller() {
    let (mut rig, _, _) = Rig::connected(Transport::Noise);
    let (waiter, effects) = rig.refresh();
    let connecting = rig.looked_up(&effects, bundle(2));
    assert_eq!(rig.step(Event::ForgetWaiter(waiter)), []);
    let (get, effects) = rig.acquire();
    assert_eq!(effects, []);
    let (generation, _, effects) = rig.install(&connecting, bundle(2));
    assert_eq!(answer(&effects, get), Some(Answer::Session(generation)));
}

/// A refresh in its attempt to executor 2, and a queued one that is looking up.
fn overtaking() -> (Rig, [WaiterId; 2], Vec<Effect>, Vec<Effect>) {
    let (mut rig, _, _) = Rig::connected(Transport::Noise);
    let (first, effects) = rig.refresh();
    let stalled = rig.looked_up(&effects, bundle(2));
    let (second, looking) = rig.refresh();
    assert_eq!(lookup(&looking).op, Op::Refresh(RefreshId(2)));
    (rig, [first, second], stalled, looking)
}

#[test]
fn w18_a_queued_refresh_supersedes_an_attempt_to_an_outdated_executor() {
    let (mut rig, both, stalled, looking) = overtaking();
    let effects = rig.looked_up(&looking, bundle(3));
    let (op, old, _) = connector(&stalled);
    assert!(effects.contains(&Effect::Stop(Child::Connector(op, old))));
    assert!(effects.contains(&Effect::Trace(Note::Overtaken(RefreshId(2)))));
    let (generation, _, effects) = rig.install(&effects, bundle(3));
    let effects = rig.probed(&effects);
    for waiter in both {
        assert_eq!(
            answer(&effects, waiter),
            Some(Answer::Refreshed(generation))
        );
    }
    assert_eq!(rig.snapshot().registration, Some(Registration(3)));
}

#[test]
fn w18_a_queued_refresh_shares_an_attempt_that_is_right() {
    let (mut rig, both, stalled, looking) = overtaking();
    assert_eq!(rig.looked_up(&looking, bundle(2)), []);
    let effects = rig.connect_failed(&stalled, Class::Dial);
    for waiter in both {
        assert_eq!(
            answer(&effects, waiter),
            Some(Answer::Failed(Cause::Attempt(failure(Class::Dial))))
        );
    }
}

#[test]
fn w18_an_overtaker_whose_lookup_fails_harms_nobody() {
    let (mut rig, [first, second], stalled, looking) = overtaking();
    let effects = rig.lookup_failed(&looking, Class::Terminal);
    assert_eq!(
        effects,
        [Effect::Reply(
            second,
            Answer::Failed(Cause::Told(failure(Class::Terminal)))
        )]
    );
    let (generation, _, effects) = rig.install(&stalled, bundle(2));
    let effects = rig.probed(&effects);
    assert_eq!(answer(&effects, first), Some(Answer::Refreshed(generation)));
}

#[test]
fn w18_an_overtaker_that_is_overtaken_itself_looks_up_again() {
    let (mut rig, [_, second], stalled, looking) = overtaking();
    let (generation, _, effects) = rig.install(&stalled, bundle(2));
    assert!(effects.contains(&Effect::Stop(Child::Lookup(lookup(&looking)))));
    let effects = rig.probed(&effects);
    assert_eq!(lookup(&effects).op, Op::Refresh(RefreshId(3)));
    let effects = rig.looked_up(&effects, bundle(2));
    let effects = rig.probed(&effects);
    assert_eq!(
        answer(&effects, second),
        Some(Answer::Refreshed(generation))
    );
}
