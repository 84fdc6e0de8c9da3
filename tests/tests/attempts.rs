//! Attempts: how sessions come about, fail to, and are tried again (`session.md` 3 and 9).

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use mainstay::{
    Attempted, ConnState, DialFailure, Environment, Error, ErrorKind, Readiness, RequestFailure,
    Session,
};
use mainstay_executor::{Config, Executor};
use mainstay_testkit::fault_proxy::{FaultProxy, Mode};
use mainstay_testkit::frozen_clock::FrozenClock;
use mainstay_testkit::registry_front::{Call, error};
use mainstay_tests::rig::Rig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// An executor behind a proxy.
async fn behind_proxy() -> (Executor, SocketAddr, FaultProxy) {
    let executor = Executor::start(Config::default()).await.unwrap();
    let url = executor
        .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        .await
        .unwrap();
    let target = url.trim_start_matches("ws://").parse().unwrap();
    let proxy = FaultProxy::transparent(target).await.unwrap();
    (executor, target, proxy)
}

/// A server that answers every request with `status`, and tells how many it had.
async fn refusing(status: &'static str) -> (SocketAddr, Arc<AtomicUsize>) {
    refusing_after(status, || {}).await
}

/// The same, doing something before each answer.
async fn refusing_after(
    status: &'static str,
    before: impl Fn() + Send + 'static,
) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counter = count.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            before();
            counter.fetch_add(1, SeqCst);
            let answer =
                format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (addr, count)
}

fn get(environment: &Environment) -> JoinHandle<Result<Session, Error>> {
    let environment = environment.clone();
    tokio::spawn(async move { environment.session().await })
}

fn ready(environment: &Environment) -> JoinHandle<Result<(), Error>> {
    let environment = environment.clone();
    tokio::spawn(async move { environment.wait_until_ready().await })
}

/// Moves time until the task has ended.
async fn pass_time<T>(clock: &FrozenClock, step: Duration, task: &JoinHandle<T>) {
    while !task.is_finished() {
        clock.advance(step).await;
        // Real sockets answer in their own time.
        tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(1)))
            .await
            .unwrap();
    }
}

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
    environment.session().await.unwrap_err();
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
        proxy.cut(Mode::Silence);
        let asking = tokio::spawn({
            let session = session.clone();
            async move { session.ask_info().await }
        });
        let started = Instant::now();
        pass_time(&clock, Duration::from_secs(1), &asking).await;
        let failed = asking.await.unwrap().unwrap_err();
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
        assert!(
            (30..=31).contains(&started.elapsed().as_secs()),
            "{:?}",
            started.elapsed()
        );
        let linked = tokio::spawn({
            let session = session.clone();
            async move { session.link_for_test().await }
        });
        pass_time(&clock, Duration::from_millis(10), &linked).await;
        linked.await.unwrap().unwrap();
        assert!(environment.session().await.unwrap().is_same(&session));
    });
}

#[test]
fn a29_offline_answers_are_retried_four_times_at_most() {
    FrozenClock::run(|clock| async move {
        let rig = Rig::start().await;
        rig.front.set_offline(true);
        let environment = rig.environment().await;
        let started = Instant::now();
        let getting = get(&environment);
        pass_time(&clock, Duration::from_millis(100), &getting).await;
        let failed = getting.await.unwrap().unwrap_err();
        assert!(
            matches!(
                failed.kind().root(),
                ErrorKind::RegistryHttp { status: 409, .. }
            ),
            "{failed}"
        );
        assert!(
            started.elapsed() <= Duration::from_millis(14_100),
            "{:?}",
            started.elapsed()
        );
        assert!((4..=5).contains(&rig.front.calls(Call::Connect)));
    });
}

#[test]
fn a29_a_stalled_request_ends_the_lookup_at_its_deadline() {
    FrozenClock::run(|clock| async move {
        let rig = Rig::start().await;
        let environment = rig.environment().await;
        let _held: Vec<_> = (0..3).map(|_| rig.front.hold_next(Call::Connect)).collect();
        let started = Instant::now();
        let getting = get(&environment);
        pass_time(&clock, Duration::from_millis(100), &getting).await;
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
        let elapsed = started.elapsed();
        assert!(
            elapsed >= Duration::from_secs(14) && elapsed <= Duration::from_millis(14_200),
            "{elapsed:?}"
        );
        assert!((2..=3).contains(&rig.front.calls(Call::Connect)));
    });
}

#[tokio::test]
async fn a29_terminal_answers_are_not_retried_and_are_remembered() {
    for (status, code) in [(401, ""), (403, ""), (400, ""), (404, ""), (409, "other")] {
        let rig = Rig::start().await;
        let environment = rig.environment().await;
        rig.front
            .answer_next(Call::Connect, 1, &error(status, code));
        let first = environment.session().await.unwrap_err();
        let second = environment.session().await.unwrap_err();
        assert_eq!(first, second);
        assert_eq!(rig.front.calls(Call::Connect), 1, "{status}");
    }
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
        pass_time(&clock, Duration::from_millis(50), &getting).await;
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
fn a34_the_handshake_has_the_configured_budget_and_quotes_it() {
    FrozenClock::run(|clock| async move {
        let rig = Rig::start().await;
        let _o = rig.executor().await;
        let mut config = mainstay::Config::default();
        config.session.initialize_timeout = Duration::from_secs(3);
        let environment = rig.builder().config(config).spawn().await.unwrap();
        let mut gate = rig.front.hold_next(Call::Validate);
        let getting = get(&environment);
        gate.arrived().await;
        pass_time(&clock, Duration::from_millis(100), &getting).await;
        let failed = getting.await.unwrap().unwrap_err();
        assert!(
            matches!(failed.kind().root(), ErrorKind::InitializeTimeout { timeout } if *timeout == Duration::from_secs(3)),
            "{failed}"
        );
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
