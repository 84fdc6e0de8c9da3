//! Environments whose executor somebody is still providing (`session.md` 3.2, 3.4).

use std::time::Duration;

use mainstay::{Environment, ErrorKind, Provisioning, Readiness, RequestFailure};
use mainstay_testkit::frozen_clock::FrozenClock;
use mainstay_testkit::registry_front::{Call, error};
use mainstay_tests::rig::Rig;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::callers::{frozen, get, ready};

/// Longer than a retry's longest pause.
const STEP: Duration = Duration::from_secs(8);

async fn provisioned(rig: &Rig) -> Environment {
    rig.builder().provisioned().spawn().await.unwrap()
}

/// Moves time, and lets what it has set off come to rest.
async fn advance(clock: &FrozenClock, by: Duration) {
    clock.advance(by).await;
    clock.settle().await;
}

fn info(environment: &Environment) -> JoinHandle<Result<(), mainstay::Error>> {
    let environment = environment.clone();
    tokio::spawn(async move { environment.info().await.map(|_| ()) })
}

#[test]
fn s13_a_provisioned_environment_waits_for_the_report_and_then_for_its_executor() {
    FrozenClock::run(|clock| async move {
        let rig = Rig::start().await;
        let far = rig.executor().await;
        rig.front.set_offline(true);
        let environment = provisioned(&rig).await;
        let (readiness, info) = (ready(&environment), info(&environment));
        clock.settle().await;
        assert_eq!(rig.front.calls(Call::Connect), 0, "nobody has reported it");

        environment.provisioning(Provisioning::Ready);
        clock.settle().await;
        assert_eq!(rig.front.calls(Call::Connect), 1);
        for _ in 0..35 {
            advance(&clock, Duration::from_secs(1)).await;
        }
        assert!(!readiness.is_finished() && !info.is_finished());
        assert!(rig.front.calls(Call::Connect) > 5);
        // A second report changes nothing.
        let before = rig.front.calls(Call::Connect);
        environment.provisioning(Provisioning::Ready);
        clock.settle().await;
        assert_eq!(rig.front.calls(Call::Connect), before);
        assert!(!readiness.is_finished() && !info.is_finished());

        rig.front.set_offline(false);
        clock.advance(STEP).await;
        readiness.await.unwrap().unwrap();
        info.await.unwrap().unwrap();
        let snapshot = environment.snapshot().await.unwrap();
        assert_eq!(
            snapshot.registration.as_deref(),
            Some(far.registration.id())
        );
        assert_eq!(snapshot.readiness, Readiness::Ready);
    });
}

#[test]
fn s14_handles_of_a_provisioned_environment_survive_a_refresh() {
    frozen(|| async {
        let rig = Rig::start().await;
        let _o = rig.executor().await;
        let environment = provisioned(&rig).await;
        environment.provisioning(Provisioning::Ready);
        environment.info().await.unwrap();
        let session = environment.session().await.unwrap();
        let (clone, files) = (environment.clone(), environment.files());
        files.metadata("/").await.unwrap();
        let n = rig.executor().await;
        environment.refresh().await.unwrap();
        clone.info().await.unwrap();
        files.metadata("/").await.unwrap();
        let new = clone.session().await.unwrap();
        assert!(!new.is_same(&session));
        assert!(environment.session().await.unwrap().is_same(&new));
        let registration = clone.snapshot().await.unwrap().registration;
        assert_eq!(registration.as_deref(), Some(n.registration.id()));
    });
}

#[test]
fn a30_an_executor_may_be_offline_until_exactly_five_minutes() {
    FrozenClock::run(|clock| async move {
        let rig = Rig::start().await;
        rig.front.set_offline(true);
        let environment = provisioned(&rig).await;
        environment.provisioning(Provisioning::Ready);
        let started = Instant::now();
        let waiting = get(&environment);
        clock.settle().await;
        while started.elapsed() < Duration::from_secs(299) {
            advance(&clock, Duration::from_secs(1)).await;
            assert!(!waiting.is_finished(), "{:?}", started.elapsed());
        }
        clock.advance(Duration::from_millis(999)).await;
        clock.settle().await;
        assert!(!waiting.is_finished());
        advance(&clock, Duration::from_millis(1)).await;
        assert!(waiting.is_finished());
        assert_eq!(started.elapsed(), Duration::from_secs(300));
        let failed = waiting.await.unwrap().unwrap_err();
        let kind = failed.kind().root();
        assert!(
            matches!(kind, ErrorKind::RegistryHttp { status: 409, .. }),
            "{failed}"
        );
    });
}

#[test]
fn a30_other_trouble_keeps_the_ordinary_limits() {
    FrozenClock::run(|clock| async move {
        let rig = Rig::start().await;
        rig.front.answer_next(Call::Connect, 9, &error(503, ""));
        let environment = provisioned(&rig).await;
        environment.provisioning(Provisioning::Ready);
        let started = Instant::now();
        let waiting = get(&environment);
        clock.settle().await;
        while !waiting.is_finished() {
            advance(&clock, Duration::from_millis(100)).await;
        }
        let failed = waiting.await.unwrap().unwrap_err();
        let kind = failed.kind().root();
        assert!(
            matches!(kind, ErrorKind::RegistryHttp { status: 503, .. }),
            "{failed}"
        );
        assert!(started.elapsed() <= Duration::from_secs(14));
        assert!(rig.front.calls(Call::Connect) <= 5);
    });
}

#[test]
fn a30_a_stalled_request_keeps_fourteen_seconds() {
    FrozenClock::run(|clock| async move {
        let rig = Rig::start().await;
        let _held: Vec<_> = (0..3).map(|_| rig.front.hold_next(Call::Connect)).collect();
        let environment = provisioned(&rig).await;
        environment.provisioning(Provisioning::Ready);
        let started = Instant::now();
        let waiting = get(&environment);
        clock.settle().await;
        while !waiting.is_finished() {
            advance(&clock, Duration::from_millis(20)).await;
        }
        let failed = waiting.await.unwrap().unwrap_err();
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
    });
}

#[test]
fn a30_a_late_refusal_ends_the_wait_for_an_executor() {
    FrozenClock::run(|clock| async move {
        let rig = Rig::start().await;
        let offline = error(409, "environment_offline");
        rig.front.answer_next(Call::Connect, 10, &offline);
        rig.front.answer_next(Call::Connect, 1, &error(403, ""));
        let environment = provisioned(&rig).await;
        environment.provisioning(Provisioning::Ready);
        let waiting = get(&environment);
        clock.settle().await;
        while !waiting.is_finished() {
            advance(&clock, STEP).await;
        }
        let refused = waiting.await.unwrap().unwrap_err();
        let kind = refused.kind().root();
        assert!(
            matches!(kind, ErrorKind::RegistryAuthentication { .. }),
            "{refused}"
        );
        assert_eq!(rig.front.calls(Call::Connect), 11);
    });
}

#[test]
fn a38_a_provisioning_failure_does_not_poison_who_comes_after_ready() {
    frozen(|| async {
        let rig = Rig::start().await;
        let _far = rig.executor().await;
        let environment = provisioned(&rig).await;
        let waiting = get(&environment);
        environment.snapshot().await.unwrap();
        environment.provisioning(Provisioning::Failed("no machine".into()));
        let error = waiting.await.unwrap().unwrap_err();
        assert!(error.to_string().contains("no machine"), "{error}");
        let again = environment.session().await.unwrap_err();
        assert!(again.to_string().contains("no machine"), "{again}");
        assert_eq!(rig.front.calls(Call::Connect), 0);
        environment.provisioning(Provisioning::Ready);
        environment.session().await.unwrap();
        assert_eq!(rig.front.calls(Call::Connect), 1);
    });
}
