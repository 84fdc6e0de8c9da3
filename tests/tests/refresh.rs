//! The core scenarios S1 to S21 of the specification, over real sockets: registry, relay, Noise, executors.
//! (S2, S13 and S14 need an environment manager.)

use std::time::Duration;

use mainstay::{
    Command, ConnState, Delivery, Environment, Error, ErrorKind, Process, Readiness, Session,
};
use mainstay_session::ids::{Epoch, RecoveryId, Timer};
use mainstay_session::{Event, ids::CauseId};
use mainstay_testkit::frozen_clock::FrozenClock;
use mainstay_testkit::registry_front::{Call, error};
use mainstay_tests::rig::{Far, Rig};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Runs a scenario while time stands still.
fn frozen<F: Future<Output = ()>>(scenario: impl FnOnce() -> F) {
    FrozenClock::run(|clock| async move {
        scenario().await;
        drop(clock);
    });
}

fn refresh(environment: &Environment) -> JoinHandle<Result<(), Error>> {
    let environment = environment.clone();
    tokio::spawn(async move { environment.refresh().await })
}

fn get(environment: &Environment) -> JoinHandle<Result<Session, Error>> {
    let environment = environment.clone();
    tokio::spawn(async move { environment.session().await })
}

async fn cat(environment: &Environment) -> Process {
    environment
        .exec(Command::new("cat").pipe_stdin())
        .await
        .unwrap()
}

async fn write_fails(process: &mut Process) {
    let mut stdin = process.stdin.take().unwrap();
    let result = async {
        stdin.write_all(b"x").await?;
        stdin.flush().await
    };
    assert_eq!(
        result.await.unwrap_err().kind(),
        std::io::ErrorKind::BrokenPipe
    );
}

async fn registration(environment: &Environment) -> Option<String> {
    environment.snapshot().await.unwrap().registration
}

async fn until(mut ready: impl AsyncFnMut() -> bool) {
    while !ready().await {
        tokio::task::yield_now().await;
    }
}

fn disconnected(error: &Error) -> bool {
    matches!(error.kind().root(), ErrorKind::Disconnected { .. })
}

/// Late reports of the first link and the first recovery.
fn late_reports(environment: &Environment) {
    for event in [
        Event::LinkDown {
            epoch: Epoch(1),
            cause: CauseId(0),
            restart: false,
        },
        Event::Due(Timer::Retry(RecoveryId(1))),
        Event::Due(Timer::Deadline(RecoveryId(1))),
    ] {
        environment.step_for_test(event);
    }
}

#[test]
fn s01_refresh_beats_recovery() {
    frozen(|| async {
        let rig = Rig::start().await;
        let _o = rig.executor().await;
        let environment = rig.environment().await;
        let session = environment.session().await.unwrap();
        let mut process = cat(&environment).await;
        let mut old_lookup = rig.front.hold_next(Call::Connect);
        session.disconnect_for_test();
        old_lookup.arrived().await;
        let _n = rig.executor().await;

        let started = Instant::now();
        let mut gate = rig.front.hold_next(Call::Validate);
        let refreshing = refresh(&environment);
        gate.arrived().await;
        assert_eq!(started.elapsed(), Duration::ZERO);
        assert!(session.is_retired());
        let mut watch = environment.watch().await.unwrap();
        assert_eq!(*watch.borrow_and_update(), ConnState::Disconnected);
        late_reports(&environment);
        environment.snapshot().await.unwrap();
        assert!(!watch.has_changed().unwrap());

        gate.release();
        refreshing.await.unwrap().unwrap();
        let new = environment.session().await.unwrap();
        assert_ne!(new.id(), session.id());
        assert_eq!(*watch.borrow_and_update(), ConnState::Connected);
        write_fails(&mut process).await;

        old_lookup.release();
        late_reports(&environment);
        new.status().await.unwrap();
        assert!(environment.session().await.unwrap().is_same(&new));
        let snapshot = environment.snapshot().await.unwrap();
        assert_eq!(
            (snapshot.state, snapshot.readiness),
            (ConnState::Connected, Readiness::Ready)
        );
        assert!(!watch.has_changed().unwrap());
    });
}

#[test]
fn s03_two_refreshes_of_a_current_registration_keep_the_session() {
    frozen(|| async {
        let rig = Rig::start().await;
        let _o = rig.executor().await;
        let environment = rig.environment().await;
        let session = environment.session().await.unwrap();
        let (first, second) = tokio::join!(environment.refresh(), environment.refresh());
        first.unwrap();
        second.unwrap();
        assert!(environment.session().await.unwrap().is_same(&session));
        session.status().await.unwrap();
    });
}

#[test]
fn s04_a_registration_becomes_visible_only_with_its_session() {
    frozen(|| async {
        let rig = Rig::start().await;
        let o = rig.executor().await;
        let environment = rig.environment().await;
        assert_eq!(registration(&environment).await, None);
        let session = environment.session().await.unwrap();
        let old = registration(&environment).await.unwrap();
        assert_eq!(old, o.registration.id());
        let n = rig.executor().await;
        let mut gate = rig.front.hold_next(Call::Validate);
        let refreshing = refresh(&environment);
        gate.arrived().await;
        assert_eq!(registration(&environment).await.unwrap(), old);
        gate.release();
        refreshing.await.unwrap().unwrap();
        assert_eq!(
            registration(&environment).await.unwrap(),
            n.registration.id()
        );
        assert_ne!(environment.session().await.unwrap().id(), session.id());
        assert!(session.failure().is_some());
    });
}

#[test]
fn s05_a_renewed_registration_recovers_session_and_process() {
    frozen(|| async {
        let rig = Rig::start().await;
        let o = rig.executor().await;
        let environment = rig.environment().await;
        let session = environment.session().await.unwrap();
        let command = Command::new("sh")
            .arg("-c")
            .arg("read line; echo from-stdin:$line")
            .pipe_stdin();
        let mut process = environment.exec(command).await.unwrap();
        let old = registration(&environment).await.unwrap();
        let renewed = rig.renew(&o).await;
        let mut gate = rig.front.hold_next(Call::Validate);
        session.disconnect_for_test();
        gate.arrived().await;
        assert_eq!(registration(&environment).await.unwrap(), old);
        gate.release();
        session.link_for_test().await.unwrap();
        assert_eq!(registration(&environment).await.unwrap(), renewed.id());
        let again = environment.session().await.unwrap();
        assert!(again.is_same(&session));
        assert_eq!(again.id(), session.id());
        let mut stdin = process.stdin.take().unwrap();
        stdin.write_all(b"after-renewal\n").await.unwrap();
        stdin.flush().await.unwrap();
        let output = process.wait_with_output().await.unwrap();
        assert_eq!(&output.stdout[..], b"from-stdin:after-renewal\n");
    });
}

#[test]
fn s06_the_same_key_without_the_session_ends_it() {
    FrozenClock::run(|clock| async move {
        let rig = Rig::start().await;
        let forgetful = mainstay_executor::Config::default().session_retention(Duration::ZERO);
        let o = rig.executor_with(forgetful).await;
        let environment = rig
            .builder()
            .recover_for(Duration::from_secs(600))
            .spawn()
            .await
            .unwrap();
        let session = environment.session().await.unwrap();
        let mut process = cat(&environment).await;
        let old = registration(&environment).await.unwrap();
        let mut lookup = rig.front.hold_next(Call::Connect);
        session.disconnect_for_test();
        lookup.arrived().await;
        // The executor notices, forgets the session at once, and registers again with its key.
        for _ in 0..500 {
            clock.advance(Duration::from_millis(10)).await;
            tokio::task::yield_now().await;
        }
        let _renewed = rig.renew(&o).await;
        lookup.release();
        let error = session.link_for_test().await.unwrap_err();
        assert!(disconnected(&error), "{error}");
        assert_eq!(registration(&environment).await.unwrap(), old);
        write_fails(&mut process).await;
        assert!(disconnected(&session.status().await.unwrap_err()));
    });
}

#[test]
fn s07_a_refresh_whose_lookup_was_overtaken_by_a_renewal_keeps_the_session() {
    frozen(|| async {
        let rig = Rig::start().await;
        let o = rig.executor().await;
        let environment = rig.environment().await;
        let session = environment.session().await.unwrap();
        let mut stale = rig.front.hold_next(Call::Connect);
        let refreshing = refresh(&environment);
        stale.arrived().await;
        let renewed = rig.renew(&o).await;
        let mut recovery = rig.front.hold_next(Call::Connect);
        session.disconnect_for_test();
        recovery.arrived().await;
        recovery.release();
        session.link_for_test().await.unwrap();
        assert_eq!(registration(&environment).await.unwrap(), renewed.id());
        stale.release();
        refreshing.await.unwrap().unwrap();
        assert!(environment.session().await.unwrap().is_same(&session));
        assert!(!session.is_retired());
        assert_eq!(registration(&environment).await.unwrap(), renewed.id());
        session.status().await.unwrap();
    });
}

#[test]
fn s08_refresh_supersedes_a_stalled_first_lookup() {
    superseded(Call::Connect);
}

#[test]
fn s09_refresh_supersedes_a_stalled_first_handshake() {
    superseded(Call::Validate);
}

fn superseded(stalled: Call) {
    frozen(|| async move {
        let rig = Rig::start().await;
        let _o = rig.executor().await;
        let environment = rig.environment().await;
        let mut held = rig.front.hold_next(stalled);
        let first = get(&environment);
        held.arrived().await;
        let _n = rig.executor().await;
        refresh(&environment).await.unwrap().unwrap();
        let mut watch = environment.watch().await.unwrap();
        assert_eq!(*watch.borrow_and_update(), ConnState::Connected);
        assert!(first.await.unwrap().is_err());
        let current = environment.session().await.unwrap();
        held.release();
        environment.snapshot().await.unwrap();
        assert!(!watch.has_changed().unwrap());
        assert!(environment.session().await.unwrap().is_same(&current));
        current.status().await.unwrap();
    });
}

#[test]
fn s10_a_failed_refresh_lookup_changes_nothing() {
    frozen(|| async {
        let rig = Rig::start().await;
        let _o = rig.executor().await;
        let environment = rig.environment().await;
        let session = environment.session().await.unwrap();
        rig.front
            .answer_next(Call::Connect, 1, &error(404, "no_such_environment"));
        let (calls, started) = (rig.front.calls(Call::Connect), Instant::now());
        let failed = environment.refresh().await.unwrap_err();
        assert!(
            matches!(failed.kind(), ErrorKind::RegistryHttp { status: 404, .. }),
            "{failed}"
        );
        assert_eq!(started.elapsed(), Duration::ZERO);
        assert_eq!(rig.front.calls(Call::Connect), calls + 1);
        assert!(environment.session().await.unwrap().is_same(&session));
        session.status().await.unwrap();
    });
}

#[test]
fn s11_a_failed_replacement_leaves_the_old_session_retired_and_a_later_get_connects() {
    frozen(|| async {
        let rig = Rig::start().await;
        let _o = rig.executor().await;
        let environment = rig.environment().await;
        let session = environment.session().await.unwrap();
        let mut process = cat(&environment).await;
        let _n = rig.executor().await;
        // An address that nobody listens on.
        let nowhere = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        rig.front.set_relay(Some(nowhere));
        let failed = environment.refresh().await.unwrap_err();
        assert!(matches!(failed.kind(), ErrorKind::Attempt(_)), "{failed}");
        assert!(session.is_retired());
        assert!(disconnected(&session.status().await.unwrap_err()));
        write_fails(&mut process).await;
        assert_eq!(
            environment.watch().await.unwrap().borrow().clone(),
            ConnState::Disconnected
        );
        rig.front.set_relay(None);
        let new = environment.session().await.unwrap();
        assert_ne!(new.id(), session.id());
        new.status().await.unwrap();
        assert_eq!(environment.state(), ConnState::Connected);
        assert!(process.terminate().await.is_err());
    });
}

#[test]
fn s12_a_refresh_keeps_a_session_newer_than_what_it_observed() {
    frozen(|| async {
        let rig = Rig::start().await;
        let _o = rig.executor().await;
        let environment = rig.environment().await;
        let session = environment.session().await.unwrap();
        let mut stale = rig.front.hold_next(Call::Connect);
        let refreshing = refresh(&environment);
        stale.arrived().await;
        let _n = rig.executor().await;
        environment.step_for_test(Event::RetireForTest(session.generation_for_test()));
        environment.snapshot().await.unwrap();
        assert!(session.is_retired());
        let newer = environment.session().await.unwrap();
        assert!(!newer.is_same(&session));
        stale.release();
        refreshing.await.unwrap().unwrap();
        assert!(environment.session().await.unwrap().is_same(&newer));
        assert!(!newer.is_retired());
        newer.status().await.unwrap();
    });
}

#[test]
fn s15_cached_metadata_is_not_readiness() {
    frozen(|| async {
        let rig = Rig::start().await;
        let _o = rig.executor().await;
        let environment = rig.environment().await;
        let session = environment.session().await.unwrap();
        session.info().await.unwrap();
        let mut recovery = rig.front.hold_next(Call::Connect);
        session.disconnect_for_test();
        recovery.arrived().await;
        let started = Instant::now();
        let failed = environment.refresh().await.unwrap_err();
        assert!(disconnected(&failed), "{failed}");
        assert_eq!(started.elapsed(), Duration::ZERO);
        assert!(!session.is_retired());
    });
}

#[test]
fn s16_a_refresh_may_be_the_first_to_connect() {
    frozen(|| async {
        let rig = Rig::start().await;
        let _o = rig.executor().await;
        let environment = rig.environment().await;
        assert!(!environment.snapshot().await.unwrap().startup_finished);
        environment.refresh().await.unwrap();
        let snapshot = environment.snapshot().await.unwrap();
        assert!(snapshot.startup_finished);
        assert_eq!(snapshot.readiness, Readiness::Ready);
    });
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

#[test]
fn s20_the_watch_shows_recovery_before_the_recovery_runs() {
    frozen(|| async {
        let rig = Rig::start().await;
        let _o = rig.executor().await;
        let environment = rig.environment().await;
        let session = environment.session().await.unwrap();
        let mut recovery = rig.front.hold_next(Call::Connect);
        session.disconnect_for_test();
        until(async || environment.fail_fast().session().await.is_err()).await;
        let mut watch = environment.watch().await.unwrap();
        assert_eq!(*watch.borrow_and_update(), ConnState::Recovering);
        recovery.arrived().await;
        environment.snapshot().await.unwrap();
        assert_eq!(*watch.borrow_and_update(), ConnState::Recovering);
        let waiting = tokio::spawn({
            let session = session.clone();
            async move { session.link_for_test().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        recovery.release();
        waiting.await.unwrap().unwrap();
        watch.changed().await.unwrap();
        assert_eq!(*watch.borrow_and_update(), ConnState::Connected);
        environment.snapshot().await.unwrap();
        assert!(!watch.has_changed().unwrap(), "exactly one change");
        session.status().await.unwrap();
    });
}

#[test]
fn s21_a_late_report_cannot_undo_a_retirement() {
    for before in [true, false] {
        frozen(|| async move {
            let rig = Rig::start().await;
            let Far { executor, .. } = rig.executor().await;
            let environment = rig.environment().await;
            let session = environment.session().await.unwrap();
            let generation = session.generation_for_test();
            if before {
                late_reports(&environment);
            }
            environment.step_for_test(Event::RetireForTest(generation));
            if !before {
                late_reports(&environment);
            }
            let snapshot = environment.snapshot().await.unwrap();
            assert!(session.is_retired());
            assert_eq!(snapshot.state, ConnState::Disconnected);
            assert_eq!(environment.state(), ConnState::Disconnected);
            let refused = environment.files().metadata("/").await;
            // A new session was made for the call; the old one stays failed.
            refused.unwrap();
            assert_eq!(
                session.status().await.unwrap_err().delivery(),
                Some(Delivery::NotSent)
            );
            drop(executor);
        });
    }
}
