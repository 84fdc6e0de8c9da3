//! Whose session it is: resumes of attached, unknown and abandoned sessions (`session.md` 5 and 9).

use std::net::{Ipv4Addr, SocketAddr};

use mainstay::{Environment, ErrorKind};
use mainstay_executor::{Config, Executor};
use mainstay_testkit::fault_proxy::Mode;
use mainstay_testkit::rpc_client::RpcClient;
use serde_json::{Value, json};

use crate::far::behind_proxy;

async fn listening() -> (Executor, String) {
    let executor = Executor::start(Config::default()).await.unwrap();
    let url = executor
        .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        .await
        .unwrap();
    (executor, url)
}

/// Asks to resume a session, as a client that knows of no take-over does.
async fn resume(url: &str, id: &str) -> Result<Value, Value> {
    let mut client = RpcClient::connect(url).await.unwrap();
    let params = json!({"clientName": "another", "resumeSessionId": id});
    client.call("initialize", params).await.unwrap()
}

#[tokio::test]
async fn a39_an_attached_session_is_refused_to_others_and_goes_on() {
    let (_executor, url) = listening().await;
    let environment = Environment::builder().url(&url).spawn().await.unwrap();
    let session = environment.session().await.unwrap();
    let watch = environment.watch().await.unwrap();
    let refused = resume(&url, session.id()).await.unwrap_err();
    assert_eq!(refused["code"], -32010, "{refused}");
    session.status().await.unwrap();
    assert!(!watch.has_changed().unwrap(), "the old link is the same");
}

#[tokio::test]
async fn a39_an_unknown_session_ends_at_the_first_refusal() {
    let (_executor, url) = listening().await;
    let id = "00000000-0000-4000-8000-000000000000";
    let refused = resume(&url, id).await.unwrap_err();
    assert_eq!(refused["code"], -32600, "{refused}");
    let text = refused["message"].as_str().unwrap();
    assert!(text.contains(id), "{text}");

    // Ours meets the same answer when its session is gone, and does not ask again.
    let (_o, _, proxy) = behind_proxy().await;
    let environment = Environment::builder()
        .url(proxy.url("ws"))
        .spawn()
        .await
        .unwrap();
    let session = environment.session().await.unwrap();
    proxy.set_target(url.trim_start_matches("ws://").parse().unwrap());
    let mut watch = environment.watch().await.unwrap();
    proxy.cut(Mode::Abort);
    watch.changed().await.unwrap();
    let failed = session.link_for_test().await.unwrap_err();
    assert!(
        matches!(failed.kind().root(), ErrorKind::Disconnected { .. }),
        "{failed}"
    );
    assert_eq!(proxy.counters().accepted, 2);
}

#[tokio::test]
async fn a39_a_resume_after_an_abrupt_close_succeeds_at_the_first_try() {
    let (_executor, _, proxy) = behind_proxy().await;
    let environment = Environment::builder()
        .url(proxy.url("ws"))
        .spawn()
        .await
        .unwrap();
    let session = environment.session().await.unwrap();
    let mut watch = environment.watch().await.unwrap();
    for cut in 1..=10 {
        proxy.cut(Mode::Abort);
        watch.changed().await.unwrap();
        session.link_for_test().await.unwrap();
        session.status().await.unwrap();
        watch.borrow_and_update();
        assert_eq!(proxy.counters().accepted, 1 + cut);
    }
    assert!(environment.session().await.unwrap().is_same(&session));
}
