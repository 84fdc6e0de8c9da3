//! The suite that a client demands of its executor: nothing falls back.

use mainstay::{Command, Config, Exit, Suite};
use mainstay_testkit::registry_front::{Call, error};
use mainstay_tests::rig::Rig;
use mainstay_wire::registry::ConnectAnswer;

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
