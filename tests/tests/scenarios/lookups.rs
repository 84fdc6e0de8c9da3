//! Lookups: how often the registry is asked, and what its answers are good for (`session.md` 3.4, 5.3).

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use mainstay::{Error, ErrorKind, RequestFailure};
use mainstay_testkit::frozen_clock::FrozenClock;
use mainstay_testkit::registry_front::{Call, error};
use mainstay_tests::rig::Rig;
use tokio::time::Instant;

use crate::callers::get;
use crate::far::{refusing, refusing_after};

/// Time passes in small steps until `done`. What is waited for needs this runtime's sockets only.
async fn pass_time(clock: &FrozenClock, done: impl Fn() -> bool) {
    clock.settle().await;
    while !done() {
        clock.advance(Duration::from_millis(20)).await;
        clock.settle().await;
    }
}

fn offline(error: &Error) -> bool {
    matches!(
        error.kind().root(),
        ErrorKind::RegistryHttp { status: 409, .. }
    )
}

/// Every request names the same harness key.
fn one_harness(rig: &Rig) {
    let asked = rig.front.bodies(Call::Connect);
    let key = &asked[0]["harness_public_key"];
    assert!(key.is_object() || key.is_string(), "{key}");
    for request in &asked {
        assert_eq!(&request["harness_public_key"], key);
    }
}

#[test]
fn a29_offline_answers_are_retried_four_times_at_most() {
    FrozenClock::run(|clock| async move {
        let rig = Rig::start().await;
        rig.front.set_offline(true);
        let environment = rig.environment().await;
        let started = Instant::now();
        let getting = get(&environment);
        pass_time(&clock, || getting.is_finished()).await;
        let failed = getting.await.unwrap().unwrap_err();
        assert!(offline(&failed), "{failed}");
        assert!(started.elapsed() <= Duration::from_secs(14));
        assert!((4..=5).contains(&rig.front.calls(Call::Connect)));
        one_harness(&rig);
    });
}

#[test]
fn a29_a_stalled_request_ends_the_lookup_at_its_deadline() {
    // The first request stalls, or the first retry; and those after it.
    for answered in [0, 1] {
        FrozenClock::run(|clock| async move {
            let rig = Rig::start().await;
            rig.front
                .answer_next(Call::Connect, answered, &error(409, "environment_offline"));
            let _held: Vec<_> = (0..3).map(|_| rig.front.hold_next(Call::Connect)).collect();
            let environment = rig.environment().await;
            let started = Instant::now();
            let getting = get(&environment);
            pass_time(&clock, || getting.is_finished()).await;
            let failed = getting.await.unwrap().unwrap_err();
            assert!(
                matches!(
                    failed.kind().root(),
                    ErrorKind::RegistryRequest {
                        failure: RequestFailure::Timeout,
                        ..
                    }
                ),
                "{failed}"
            );
            assert_eq!(started.elapsed(), Duration::from_secs(14));
            let calls = rig.front.calls(Call::Connect);
            assert!((2..=3).contains(&calls), "{calls}");
            one_harness(&rig);
        });
    }
}

#[test]
fn a29_terminal_answers_are_never_retried_and_are_remembered() {
    for (status, code) in [(401, ""), (403, ""), (400, ""), (404, ""), (409, "other")] {
        for after_offline in [0, 1] {
            FrozenClock::run(|clock| async move {
                let rig = Rig::start().await;
                let offline = error(409, "environment_offline");
                rig.front
                    .answer_next(Call::Connect, after_offline, &offline);
                rig.front
                    .answer_next(Call::Connect, 1, &error(status, code));
                let environment = rig.environment().await;
                let getting = get(&environment);
                pass_time(&clock, || getting.is_finished()).await;
                let first = getting.await.unwrap().unwrap_err();
                let second = environment.session().await.unwrap_err();
                assert_eq!(first, second);
                let calls = rig.front.calls(Call::Connect);
                assert_eq!(calls, 1 + after_offline as u64, "{status}");
                one_harness(&rig);
            });
        }
    }
}

#[test]
fn a31_a_stale_bundle_is_replaced_once_with_a_fresh_budget() {
    FrozenClock::run(|clock| async move {
        let rig = Rig::start().await;
        let _o = rig.executor().await;
        // The bundle that follows the refusal names the real relay, after another series of failures.
        let rig = Arc::new(rig);
        let front = Arc::downgrade(&rig);
        let (unauthorized, dials) = refusing_after("401 Unauthorized", move || {
            if let Some(rig) = front.upgrade() {
                rig.front.set_relay(None);
                rig.front.answer_next(Call::Connect, 4, &error(503, ""));
            }
        })
        .await;
        rig.front.answer_next(Call::Connect, 4, &error(503, ""));
        rig.front.set_relay(Some(unauthorized));
        let environment = rig.environment().await;
        let getting = get(&environment);
        pass_time(&clock, || rig.front.calls(Call::Connect) == 10).await;
        getting.await.unwrap().unwrap();
        assert_eq!(dials.load(SeqCst), 1);
        assert_eq!(rig.front.calls(Call::Connect), 10);
    });
}

#[tokio::test]
async fn a32_a_resume_never_dials_an_executor_with_another_key() {
    let rig = Rig::start().await;
    let _o = rig.executor().await;
    let environment = rig.environment().await;
    let session = environment.session().await.unwrap();
    let _n = rig.executor().await;
    let (nobody, dials) = refusing("500 Internal Server Error").await;
    rig.front.set_relay(Some(nobody));
    session.disconnect_for_test();
    let failed = session.link_for_test().await.unwrap_err();
    assert!(failed.to_string().contains("another key"), "{failed}");
    assert_eq!(dials.load(SeqCst), 0);
}

#[test]
fn a33_a_resume_asks_once_and_leaves_the_retries_to_the_recovery() {
    FrozenClock::run(|clock| async move {
        let rig = Rig::start().await;
        let _o = rig.executor().await;
        let environment = rig.environment().await;
        let session = environment.session().await.unwrap();
        let before = rig.front.calls(Call::Connect);
        rig.front.set_offline(true);
        session.disconnect_for_test();
        rig.front.until_calls(Call::Connect, before + 1).await;
        // A nudge ends the recovery's wait for its next resume, and nothing else: a lookup that waited by itself would
        // not hear it. So each nudge that counts is one more resume, each with one request, and no time passes.
        let started = Instant::now();
        for requests in 2..=6 {
            clock.settle().await;
            assert_eq!(rig.front.calls(Call::Connect), before + requests - 1);
            rig.front.set_offline(requests < 6);
            let mut nudges = 0;
            while rig.front.calls(Call::Connect) < before + requests {
                assert!(nudges < 100, "the lookup keeps its failure to itself");
                nudges += 1;
                environment.nudge();
                clock.settle().await;
            }
        }
        session.link_for_test().await.unwrap();
        assert_eq!(started.elapsed(), Duration::ZERO);
        assert_eq!(rig.front.calls(Call::Connect), before + 6);
        assert!(environment.session().await.unwrap().is_same(&session));
    });
}
