//! Environments whose executor somebody is still providing, and the suite that a client demands.

use std::time::Duration;

use mainstay::{
    Command, Config, Environment, Error, ErrorKind, Exit, Provisioning, Session, Suite,
};
use mainstay_testkit::frozen_clock::FrozenClock;
use mainstay_testkit::registry_front::{Call, error};
use mainstay_tests::rig::Rig;
use mainstay_wire::registry::ConnectAnswer;
use tokio::task::JoinHandle;

fn get(environment: &Environment) -> JoinHandle<Result<Session, Error>> {
    let environment = environment.clone();
    tokio::spawn(async move { environment.session().await })
}

/// Lets everything run that can while no time passes, until so many lookups were made.
async fn lookups(rig: &Rig, count: u64) {
    while rig.front.calls(Call::Connect) < count {
        tokio::task::yield_now().await;
    }
}

/// Moves time in steps so small that real sockets answer before a request's time is over.
async fn pass(clock: &FrozenClock) {
    clock.advance(Duration::from_millis(50)).await;
    tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(1)))
        .await
        .unwrap();
}

#[test]
fn s13_a_provisioned_environment_waits_for_the_report_and_then_for_its_executor() {
    FrozenClock::run(|clock| async move {
        let rig = Rig::start().await;
        let far = rig.executor().await;
        rig.front.set_offline(true);
        let environment = rig.builder().provisioned().spawn().await.unwrap();
        let waiting = get(&environment);
        // Queued behind the request for the session.
        environment.snapshot().await.unwrap();
        assert_eq!(rig.front.calls(Call::Connect), 0);
        environment.provisioning(Provisioning::Ready);
        lookups(&rig, 1).await;
        while rig.front.calls(Call::Connect) <= 5 {
            pass(&clock).await;
        }
        assert!(!waiting.is_finished());
        rig.front.set_offline(false);
        while !waiting.is_finished() {
            pass(&clock).await;
        }
        waiting.await.unwrap().unwrap();
        let registration = environment.snapshot().await.unwrap().registration;
        assert_eq!(registration.as_deref(), Some(far.registration.id()));
    });
}

#[test]
fn a30_a_late_refusal_ends_the_wait_for_an_executor() {
    FrozenClock::run(|clock| async move {
        let rig = Rig::start().await;
        let offline = error(409, "environment_offline");
        rig.front.answer_next(Call::Connect, 10, &offline);
        rig.front.answer_next(Call::Connect, 1, &error(403, ""));
        let environment = rig.builder().provisioned().spawn().await.unwrap();
        environment.provisioning(Provisioning::Ready);
        let waiting = get(&environment);
        while !waiting.is_finished() {
            pass(&clock).await;
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

#[tokio::test]
async fn a38_a_failed_provisioning_fails_its_callers_and_a_later_report_lets_them_in() {
    let rig = Rig::start().await;
    let _far = rig.executor().await;
    let environment = rig.builder().provisioned().spawn().await.unwrap();
    let waiting = get(&environment);
    environment.provisioning(Provisioning::Failed("no machine".into()));
    let error = waiting.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("no machine"), "{error}");
    assert_eq!(rig.front.calls(Call::Connect), 0);
    environment.provisioning(Provisioning::Ready);
    environment.session().await.unwrap();
}

#[tokio::test]
async fn a_client_may_ask_for_plain_noise_and_gets_what_it_asked_for() {
    let rig = Rig::start().await;
    let _far = rig.executor().await;
    let config = Config {
        suite: Suite::Ik,
        ..Config::default()
    };
    let environment = rig.builder().config(config).spawn().await.unwrap();
    let process = environment.exec(Command::new("true")).await.unwrap();
    let output = process.wait_with_output().await.unwrap();
    assert!(matches!(output.exit, Exit::Exited(status) if status.code == 0));
}

#[tokio::test]
async fn a_client_refuses_a_bundle_of_a_suite_that_it_did_not_ask_for() {
    let rig = Rig::start().await;
    let far = rig.executor().await;
    let bundle = ConnectAnswer {
        environment_id: "env-1".into(),
        url: "ws://127.0.0.1:1/".into(),
        security_profile: Suite::Ik.profile().into(),
        executor_registration_id: far.registration.id().into(),
        executor_public_key: far.identity.public(Suite::Ik).to_wire(),
        harness_key_authorization: "authorization".into(),
    };
    let mut answer = error(200, "");
    answer.body = serde_json::to_vec(&bundle).unwrap();
    rig.front.answer_next(Call::Connect, 1, &answer);
    let environment = rig.environment().await;
    let refused = environment.session().await.unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("returned suite noise_ik_v1 instead of noise_hybrid_ik_v1"),
        "{refused}"
    );
    assert!(!refused.is_retryable());
}
