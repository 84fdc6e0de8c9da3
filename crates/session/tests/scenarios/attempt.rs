//! One attempt (3.4) and the pauses after repeated failures (W16).

use mainstay_session::ids::*;
use mainstay_session::*;

use crate::rig::*;

#[test]
fn a31_a_stale_bundle_is_worth_one_new_lookup() {
    let mut rig = Rig::new(Transport::Noise);
    let (waiter, effects) = rig.acquire();
    let first = lookup(&effects);
    let effects = rig.looked_up(&effects, bundle(1));
    let effects = rig.connect_failed(&effects, Class::Unauthorized);
    let second = lookup(&effects);
    assert_eq!((second.op, second.turn), (first.op, 1));
    // What the first lookup still reports is not the second one's answer.
    assert!(ignored(&rig.step(Event::LookupDone {
        lookup: first,
        result: Ok(bundle(9))
    })));
    assert!(ignored(&rig.step(Event::ChildGone {
        child: Child::Lookup(first),
        how: How::Stopped
    })));
    let effects = rig.looked_up(&effects, bundle(2));
    let effects = rig.connect_failed(&effects, Class::Unauthorized);
    assert_eq!(
        answer(&effects, waiter),
        Some(Answer::Failed(Cause::Attempt(failure(Class::Unauthorized))))
    );
}

#[test]
fn other_dial_errors_end_the_attempt() {
    for class in [
        Class::Dial,
        Class::Handshake,
        Class::AlreadyAttached,
        Class::Terminal,
        Class::Denied,
    ] {
        let mut rig = Rig::new(Transport::Noise);
        let (waiter, effects) = rig.acquire();
        let effects = rig.looked_up(&effects, bundle(1));
        let effects = rig.connect_failed(&effects, class);
        assert_eq!(
            answer(&effects, waiter),
            Some(Answer::Failed(Cause::Attempt(failure(class))))
        );
    }
}

#[test]
fn a_link_that_ends_or_misbehaves_before_it_is_reported_is_not_installed() {
    for misbehaves in [false, true] {
        let mut rig = Rig::new(Transport::WebSocket);
        let (waiter, effects) = rig.acquire();
        let (op, epoch, _) = connector(&effects);
        // The Reader's report overtakes Handshake's: they are two actors.
        let fault = Event::LinkFault {
            epoch,
            fault: Fault::BadNotification,
            cause: CAUSE,
        };
        assert_eq!(rig.step(if misbehaves { fault } else { down(epoch) }), []);
        let effects = rig.step(Event::LinkReady {
            op,
            epoch,
            session: SESSION,
        });
        assert!(effects.contains(&Effect::CloseLink(epoch)));
        let closed = Cause::Attempt(failure(Class::Closed));
        assert_eq!(answer(&effects, waiter), Some(Answer::Failed(closed)));
        assert_eq!(rig.snapshot().session, None);
    }
}

#[test]
fn s13_an_attempt_waits_for_provisioning_without_a_limit() {
    let mut rig = Rig::deferred();
    let (_, effects) = rig.acquire();
    assert_eq!(effects, []);
    assert_eq!(
        rig.snapshot().phase,
        Phase::Connecting(AttemptPhase::Provisioning)
    );
    assert_eq!(
        rig.step(Event::ProvisioningChanged(Provisioning::Pending)),
        []
    );
    let effects = rig.step(Event::ProvisioningChanged(Provisioning::Ready));
    assert_eq!(lookup(&effects).turn, 0);
    // A second report does not start a second lookup.
    assert_eq!(
        rig.step(Event::ProvisioningChanged(Provisioning::Ready)),
        []
    );
    rig.install(&effects, bundle(1));
    assert_eq!(rig.snapshot().registration, Some(Registration(1)));
}

#[test]
fn a38_a_failed_provisioning_does_not_poison_later_callers() {
    let mut rig = Rig::deferred();
    let (waiter, _) = rig.acquire();
    let failed = failure(Class::Provisioning);
    let effects = rig.step(Event::ProvisioningChanged(Provisioning::Failed(failed)));
    let expected = [Effect::Reply(
        waiter,
        Answer::Failed(Cause::Attempt(failed)),
    )];
    assert_eq!(
        effects, expected,
        "never past provisioning: nothing to observe, nothing to cool down from"
    );
    let again = rig.at_once(|waiter| Event::Acquire {
        mode: Mode::Wait,
        waiter,
    });
    assert_eq!(again, Answer::Failed(Cause::Attempt(failed)));
    rig.step(Event::ProvisioningChanged(Provisioning::Ready));
    let (_, effects) = rig.acquire();
    rig.install(&effects, bundle(1));
}

/// Lets attempts fail, one per caller, until one has to wait; says how many began at once.
fn fail_attempts(rig: &mut Rig, most: usize) -> (usize, Vec<Effect>) {
    let mut last = Vec::new();
    for begun in 0..most {
        let (_, effects) = rig.acquire();
        if effects.is_empty() {
            return (begun, last);
        }
        last = rig.connect_failed(&effects, Class::Dial);
    }
    (most, last)
}

#[test]
fn w16_the_first_attempt_after_a_failure_starts_at_once_and_later_ones_wait() {
    let mut rig = Rig::new(Transport::WebSocket);
    let (begun, effects) = fail_attempts(&mut rig, 9);
    assert_eq!(begun, 2);
    let cooldown = Timer::Cooldown(AttemptId(2));
    assert_eq!(
        timer(&effects),
        (
            cooldown,
            Wait::Backoff {
                after: failure(Class::Dial),
                earlier: 0
            }
        )
    );
    assert_eq!(
        rig.snapshot().phase,
        Phase::Connecting(AttemptPhase::Cooldown)
    );
    let effects = rig.step(Event::Due(cooldown));
    let effects = rig.connect_failed(&effects, Class::Dial);
    assert_eq!(
        timer(&effects).1,
        Wait::Backoff {
            after: failure(Class::Dial),
            earlier: 1
        }
    );
    assert!(
        ignored(&rig.step(Event::Due(cooldown))),
        "a timer counts once"
    );
}

#[test]
fn w16_a_caller_who_comes_after_the_pause_does_not_wait() {
    let mut rig = Rig::new(Transport::WebSocket);
    let (_, effects) = fail_attempts(&mut rig, 2);
    let (cooldown, _) = timer(&effects);
    assert_eq!(rig.step(Event::Due(cooldown)), []);
    let (_, effects) = rig.acquire();
    connector(&effects);
}

#[test]
fn w16_what_may_help_ends_the_pause() {
    let changes = [
        Event::Nudge,
        Event::PolicyPublished,
        Event::CredentialsChanged,
        Event::ProvisioningChanged(Provisioning::Ready),
    ];
    for change in changes {
        let mut rig = Rig::deferred();
        rig.step(Event::ProvisioningChanged(Provisioning::Ready));
        for _ in 0..2 {
            let (_, effects) = rig.acquire();
            rig.lookup_failed(&effects, Class::Registry);
        }
        let (_, effects) = rig.acquire();
        assert_eq!(effects, []);
        let effects = rig.step(change);
        assert_eq!(
            effects[0],
            Effect::CancelTimer(Timer::Cooldown(AttemptId(2))),
            "{change:?}"
        );
        let effects = rig.lookup_failed(&effects, Class::Registry);
        assert!(
            !effects
                .iter()
                .any(|effect| matches!(effect, Effect::StartTimer(..))),
            "failures count from zero"
        );
    }
}
