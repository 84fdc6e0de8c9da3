//! Attempts: how sessions come about, fail to, and are tried again (`session.md` 3 and 9).

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use mainstay::{Attempted, ConnState, DialFailure, Environment, ErrorKind, Readiness};
use mainstay_session::classify;
use mainstay_testkit::fault_proxy::{FaultProxy, Mode};
use mainstay_testkit::frozen_clock::FrozenClock;
use mainstay_testkit::registry_front::{Call, error};
use mainstay_tests::rig::Rig;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::callers::{frozen, get, ready};
use crate::far::{behind_proxy, refusing};

#[tokio::test]
async fn a1_one_startup_is_shared_by_all_who_wait() {
    let (_executor, _, proxy) = behind_proxy().await;
    let environment = Environment::builder()
        .url(proxy.url("ws"))
        .spawn()
        .await
        .unwrap();
    assert!(!environment.snapshot().await.unwrap().startup_finished);
    let (ready, one, two) = (ready(&environment), get(&environment), get(&environment));
    ready.await.unwrap().unwrap();
    let (one, two) = (one.await.unwrap().unwrap(), two.await.unwrap().unwrap());
    assert!(one.is_same(&two));
    assert!(environment.snapshot().await.unwrap().startup_finished);
    assert_eq!(proxy.counters().accepted, 1);
}

#[tokio::test]
async fn a3_a_refused_startup_is_tried_again_by_the_next_callers_together() {
    let (_executor, target, proxy) = behind_proxy().await;
    let (refusing, _) = refusing("500 Internal Server Error").await;
    proxy.set_target(refusing);
    let (observed, mut outcomes) = mpsc::unbounded_channel();
    let environment = Environment::builder()
        .url(proxy.url("ws"))
        .observer(Arc::new(move |outcome, _| {
            let _ = observed.send(outcome);
        }))
        .spawn()
        .await
        .unwrap();
    let failed = environment.session().await.unwrap_err();
    assert!(matches!(failed.kind(), ErrorKind::Attempt(_)), "{failed}");
    assert!(
        matches!(
            failed.kind().root(),
            ErrorKind::Connect {
                failure: DialFailure::Http { status: 500, .. },
                ..
            }
        ),
        "{failed}"
    );
    let snapshot = environment.snapshot().await.unwrap();
    assert!(snapshot.startup_finished);
    assert_eq!(snapshot.state, ConnState::Disconnected);
    assert!(matches!(snapshot.readiness, Readiness::Failed(_)));

    proxy.set_target(target);
    let before = proxy.counters().accepted;
    let (ready, one, two) = (ready(&environment), get(&environment), get(&environment));
    ready.await.unwrap().unwrap();
    assert!(
        one.await
            .unwrap()
            .unwrap()
            .is_same(&two.await.unwrap().unwrap())
    );
    assert_eq!(proxy.counters().accepted, before + 1);
    assert_eq!(outcomes.recv().await, Some(Attempted::Failure));
    assert_eq!(outcomes.recv().await, Some(Attempted::Success));
}

#[tokio::test]
async fn a4_a_failed_session_is_followed_by_a_new_one_once_somebody_answers() {
    let (_executor, target, proxy) = behind_proxy().await;
    let environment = Environment::builder()
        .url(proxy.url("ws"))
        .spawn()
        .await
        .unwrap();
    let old = environment.session().await.unwrap();
    // Another executor, which does not know the session.
    let (_other, _, elsewhere) = behind_proxy().await;
    proxy.set_target(elsewhere.addr());
    let mut watch = environment.watch().await.unwrap();
    proxy.cut(Mode::Abort);
    watch.changed().await.unwrap();
    let lost = old.link_for_test().await.unwrap_err();
    assert!(lost.to_string().contains("unknown session id"), "{lost}");

    let (refusing, _) = refusing("500 Internal Server Error").await;
    proxy.set_target(refusing);
    let failed = environment.session().await.unwrap_err();
    assert!(matches!(failed.kind(), ErrorKind::Attempt(_)), "{failed}");
    proxy.set_target(target);
    let new = environment.session().await.unwrap();
    assert_ne!(new.id(), old.id());
    assert!(old.failure().is_some());
}

#[tokio::test]
async fn a5_a_closed_socket_is_followed_by_the_same_session() {
    let (_executor, _, proxy) = behind_proxy().await;
    let environment = Environment::builder()
        .url(proxy.url("ws"))
        .spawn()
        .await
        .unwrap();
    let session = environment.session().await.unwrap();
    let id = session.id().to_owned();
    let mut watch = environment.watch().await.unwrap();
    proxy.cut(Mode::Abort);
    watch.changed().await.unwrap();
    session.link_for_test().await.unwrap();
    let again = environment.session().await.unwrap();
    assert!(again.is_same(&session));
    assert_eq!(again.id(), id);
    session.status().await.unwrap();
}

#[test]
fn a5_an_unanswered_info_request_times_out_and_the_client_reconnects_by_itself() {
    FrozenClock::run(|clock| async move {
        let (_executor, _, proxy) = behind_proxy().await;
        let environment = Environment::builder()
            .url(proxy.url("ws"))
            .spawn()
            .await
            .unwrap();
        let session = environment.session().await.unwrap();
        let mut watch = environment.watch().await.unwrap();
        proxy.cut(Mode::Silence);
        let mut asking = Box::pin(session.ask_info());
        assert!((&mut asking).now_or_never().is_none());
        clock.advance(Duration::from_millis(29_999)).await;
        assert!((&mut asking).now_or_never().is_none());
        clock.advance(Duration::from_millis(1)).await;
        let (failed, timed_out) = (asking.await.unwrap_err(), Instant::now());
        assert!(
            matches!(
                failed.kind(),
                ErrorKind::RpcTimeout {
                    method: "environment/info",
                    ..
                }
            ),
            "{failed}"
        );
        // Nobody but the client has closed anything, and the first resume is immediate.
        watch.changed().await.unwrap();
        session.link_for_test().await.unwrap();
        assert_eq!(timed_out.elapsed(), Duration::ZERO);
        assert_eq!(proxy.counters().accepted, 2);
        assert!(environment.session().await.unwrap().is_same(&session));
        session.ask_info().await.unwrap();
    });
}

#[tokio::test]
async fn w15_a_renewed_token_forgets_the_failure_of_the_old_one() {
    let rig = Rig::start().await;
    let _o = rig.executor().await;
    let environment = rig.environment().await;
    rig.front.answer_next(Call::Connect, 1, &error(401, ""));
    environment.session().await.unwrap_err();
    environment.renew_token(&rig.harness_token()).unwrap();
    environment.session().await.unwrap();
}

#[test]
fn a34_the_handshake_has_the_configured_budget_and_quotes_it() {
    FrozenClock::run(|clock| async move {
        let rig = Rig::start().await;
        let _o = rig.executor().await;
        let proxy = FaultProxy::transparent(rig.registry.local_addr())
            .await
            .unwrap();
        rig.front.set_relay(Some(proxy.addr()));
        let mut config = mainstay::Config::default();
        config.session.initialize_timeout = Duration::from_secs(3);
        let environment = rig.builder().config(config).spawn().await.unwrap();
        let mut gate = rig.front.hold_next(Call::Validate);
        let getting = get(&environment);
        gate.arrived().await;
        clock.advance(Duration::from_millis(2_999)).await;
        clock.settle().await;
        assert!(!getting.is_finished());
        assert_eq!(proxy.counters().open, 1);
        clock.advance(Duration::from_millis(1)).await;
        let failed = getting.await.unwrap().unwrap_err();
        assert!(
            matches!(failed.kind().root(), ErrorKind::InitializeTimeout { timeout } if *timeout == Duration::from_secs(3)),
            "{failed}"
        );
        proxy.until(|counters| counters.open == 0).await;
    });
}

#[tokio::test]
async fn two_destinations_and_none_are_refused() {
    Environment::builder().spawn().await.unwrap_err();
    let rig = Rig::start().await;
    rig.builder()
        .url("ws://127.0.0.1:1")
        .spawn()
        .await
        .unwrap_err();
}

#[test]
fn s19_a_policy_denial_does_not_poison_the_startup() {
    frozen(|| async {
        let rig = Rig::start().await;
        let _o = rig.executor().await;
        let policy = mainstay::OutboundPolicy::new();
        let environment = rig
            .builder()
            .outbound_policy(policy.clone())
            .spawn()
            .await
            .unwrap();
        let denied = environment.session().await.unwrap_err();
        assert!(
            matches!(
                denied.kind().root(),
                ErrorKind::RegistryRequest {
                    failure: mainstay::RequestFailure::Denied(mainstay::Denial::Unavailable),
                    ..
                }
            ),
            "{denied}"
        );
        assert!(!classify::is_recovery_retryable_in_reference(denied.kind()));
        assert_eq!(rig.front.calls(Call::Connect), 0);
        assert!(
            !policy.publish(7, mainstay::Outbound::Unrestricted),
            "not the current revision"
        );
        assert!(policy.publish(policy.revision(), mainstay::Outbound::Unrestricted));
        environment.session().await.unwrap();
        assert_eq!(rig.front.calls(Call::Connect), 1);
    });
}
