//! Registered mode: registry, rendezvous, harnesses (noise-relay.md 2, 3, 6).

use std::time::Duration;

use anyhow::{Context, Result};
use mainstay_executor::{Config, Executor, RegisterConfig, RegisterError};
use mainstay_link::DialOptions;
use mainstay_link::relay;
use mainstay_noise::{Identity, Suite};
use mainstay_testkit::fault_proxy::{FaultProxy, Mode};
use mainstay_testkit::registry_front::{Call, error};
use serde_json::json;

use crate::far::{ENVIRONMENT, Far, Harness, registry};
use crate::support::sh;

#[tokio::test]
async fn a_harness_runs_a_program_through_the_rendezvous() -> Result<()> {
    let far = Far::start().await?;
    let (executor, registration) = far.register().await?;
    assert!(!registration.id().is_empty());
    let mut harness = far.harness(&Identity::generate()?).await?;
    harness.initialize(None, false).await?.expect("a session");
    harness
        .call("process/start", sh("p", "echo hi; exit 3"))
        .await?
        .expect("started");
    let mut methods = Vec::new();
    while methods.last().is_none_or(|last| last != "process/closed") {
        let event = harness.next().await?;
        methods.push(event["method"].as_str().context("method")?.to_owned());
    }
    assert_eq!(
        methods,
        ["process/output", "process/exited", "process/closed"]
    );
    executor.shutdown(Duration::ZERO).await;
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_read_ends_the_stream() -> Result<()> {
    let far = Far::start().await?;
    let _executor = far.register().await?;
    let mut harness = far.harness(&Identity::generate()?).await?;
    harness.link.sink.send("{}".to_owned()).await?;
    harness.link.sink.flush().await?;
    assert!(harness.next().await.is_err());
    Ok(())
}

#[tokio::test]
async fn a_session_is_taken_over_by_the_same_key_only() -> Result<()> {
    let far = Far::start().await?;
    let _executor = far.register().await?;
    let (owner, stranger) = (Identity::generate()?, Identity::generate()?);
    let mut first = far.harness(&owner).await?;
    let session = first.initialize(None, false).await?.expect("a session");
    let mut other = far.harness(&stranger).await?;
    let refused = other
        .initialize(Some(&session), true)
        .await?
        .expect_err("taken");
    assert_eq!(refused["code"], -32010);
    assert!(first.call("environment/status", json!({})).await?.is_ok());
    let mut second = far.harness(&owner).await?;
    assert_eq!(second.initialize(Some(&session), true).await?, Ok(session));
    assert!(first.next().await.is_err());
    assert!(second.call("environment/status", json!({})).await?.is_ok());
    Ok(())
}

#[tokio::test]
async fn both_suites_are_offered() -> Result<()> {
    let far = Far::start().await?;
    let _executor = far.register().await?;
    let identity = Identity::generate()?;
    let bundle = far.bundle(&identity, Suite::Ik).await?;
    assert_eq!(bundle.executor_key.suite(), Suite::Ik);
    let socket = relay::dial(&bundle, &DialOptions::rendezvous()).await?;
    let link = relay::harness(socket, &identity, &bundle).await?;
    Harness { link, id: 0 }
        .initialize(None, false)
        .await?
        .expect("a session");
    Ok(())
}

#[tokio::test]
async fn a_first_registration_fails_at_once_except_for_a_conflict() -> Result<()> {
    let far = Far::start().await?;
    let executor = Executor::start(Config::default()).await?;
    for status in [400, 401, 403, 404, 429, 500, 503] {
        far.front.answer_next(Call::Register, 1, &error(status, ""));
        let failed = executor.register(far.config()).await.expect_err("refused");
        match (status, &failed) {
            (401 | 403, RegisterError::Authentication { message, .. }) => {
                assert_eq!(message, "scripted")
            }
            (_, RegisterError::Refused { status: line, .. }) => {
                assert!(line.starts_with(&status.to_string()))
            }
            (_, other) => panic!("{status}: {other}"),
        }
    }
    far.front
        .answer_next(Call::Register, 1, &error(409, "environment_offline"));
    let failed = executor.register(far.config()).await.expect_err("refused");
    assert_eq!(
        failed.to_string(),
        "environment registry request failed (409 Conflict, environment_offline): scripted"
    );
    let calls = far.front.calls(Call::Register);
    far.front
        .answer_next(Call::Register, 2, &error(503, "registration_conflict"));
    executor.register(far.config()).await?;
    assert_eq!(far.front.calls(Call::Register), calls + 3);

    let nobody = RegisterConfig::new(
        "http://127.0.0.1:1",
        ENVIRONMENT,
        far.executor_token.clone(),
    );
    let failed = executor.register(nobody).await.expect_err("nobody there");
    assert!(matches!(failed, RegisterError::Transport(_)), "{failed}");
    for bad in ["ftp://x", "not a url", "http://x/?q=1"] {
        let config = RegisterConfig::new(bad, ENVIRONMENT, far.executor_token.clone());
        let failed = executor.register(config).await.expect_err("bad");
        assert!(
            matches!(failed, RegisterError::Configuration(_)),
            "{failed}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn answers_that_break_the_contract_are_final() -> Result<()> {
    let far = Far::start().await?;
    let executor = Executor::start(Config::default()).await?;
    let answer = |environment: &str, profile: &str| {
        let mut answer = error(200, "");
        answer.body = json!({"environment_id": environment, "url": "ws://127.0.0.1:1/", "security_profile": profile,
                             "executor_registration_id": "r"})
            .to_string()
            .into_bytes();
        answer
    };
    for (environment, profile, text) in [
        (
            "other",
            "noise_hybrid_ik_v1",
            "environment registry returned a different environment id",
        ),
        (
            ENVIRONMENT,
            "x",
            "environment registry returned unsupported security profile `x`",
        ),
    ] {
        far.front
            .answer_next(Call::Register, 1, &answer(environment, profile));
        let failed = executor.register(far.config()).await.expect_err("refused");
        assert_eq!(failed.to_string(), text);
    }
    Ok(())
}

#[tokio::test]
async fn a_lost_socket_comes_back_with_the_same_registration_and_its_sessions() -> Result<()> {
    let far = Far::start().await?;
    let proxy = FaultProxy::transparent(far.registry.local_addr()).await?;
    far.front.set_relay(Some(proxy.addr()));
    let (_executor, registration) = far.register().await?;
    far.front.set_relay(None);
    let identity = Identity::generate()?;
    let mut harness = far.harness(&identity).await?;
    let session = harness.initialize(None, false).await?.expect("a session");
    harness
        .call("process/start", sh("p", "exec sleep 100"))
        .await?
        .expect("started");
    for _ in 0..3 {
        proxy.cut_and_wait(Mode::Abort).await;
        while harness.next().await.is_ok() {}
        harness = far.harness(&identity).await?;
        assert_eq!(
            harness.initialize(Some(&session), false).await?,
            Ok(session.clone())
        );
        let read = harness
            .call("process/read", json!({"processId": "p"}))
            .await?
            .expect("known");
        assert_eq!(read["exited"], false);
    }
    assert_eq!(far.front.calls(Call::Register), 1);
    assert!(!registration.id().is_empty());
    Ok(())
}

#[tokio::test]
async fn a_registry_that_restarts_is_waited_for() -> Result<()> {
    let mut far = Far::start().await?;
    let (_executor, mut registration) = far.register().await?;
    let identity = Identity::generate()?;
    let mut harness = far.harness(&identity).await?;
    let session = harness.initialize(None, false).await?.expect("a session");
    let before = registration.id().to_owned();
    let address = far.registry.local_addr();
    // The one that comes back knows nobody, and is not ready at first.
    far.front.answer_next(Call::Register, 1, &error(500, ""));
    drop(harness);
    far.registry.shutdown(Duration::ZERO).await;
    far.registry = registry(&far.tokens, address).await?;
    assert_ne!(registration.renewed().await?, before);
    let mut harness = far.harness(&identity).await?;
    assert_eq!(
        harness.initialize(Some(&session), false).await?,
        Ok(session)
    );
    assert_eq!(far.front.calls(Call::Register), 3);
    Ok(())
}

#[tokio::test]
async fn a_superseded_registration_is_given_up_and_its_sessions_go_on() -> Result<()> {
    let far = Far::start().await?;
    let (_first, mut registration) = far.register().await?;
    let identity = Identity::generate()?;
    let mut harness = far.harness(&identity).await?;
    harness.initialize(None, false).await?.expect("a session");
    let (_second, newer) = far.register().await?;
    assert_ne!(newer.id(), registration.id());
    // Planned replacement: the streams of the old one live on.
    assert!(harness.call("environment/status", json!({})).await?.is_ok());
    let before = registration.id().to_owned();
    assert_eq!(registration.id(), before);
    let ended = tokio::time::timeout(Duration::from_millis(50), registration.renewed()).await;
    assert!(ended.is_err(), "{ended:?}");
    Ok(())
}

#[tokio::test]
async fn a_harness_the_registry_does_not_vouch_for_gets_no_stream() -> Result<()> {
    let far = Far::start().await?;
    let _executor = far.register().await?;
    let identity = Identity::generate()?;
    let attempt = async || {
        let bundle = far.bundle(&identity, Suite::HybridIk).await?;
        let socket = relay::dial(&bundle, &DialOptions::rendezvous()).await?;
        Ok::<_, anyhow::Error>(relay::harness(socket, &identity, &bundle).await?)
    };
    far.front.answer_next(Call::Validate, 1, &error(403, ""));
    let refused = attempt().await.expect_err("refused").to_string();
    assert!(refused.contains("Noise relay stream reset"), "{refused}");
    far.front.answer_next(Call::Validate, 1, &error(401, ""));
    let rejected = attempt().await.expect_err("rejected").to_string();
    assert!(
        rejected.contains("executor credentials rejected"),
        "{rejected}"
    );
    attempt().await?;
    Ok(())
}
