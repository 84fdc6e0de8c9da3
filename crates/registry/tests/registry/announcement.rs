//! The long poll for the next registration.

use std::time::Duration;

use mainstay_registry::Limits;
use secrecy::ExposeSecret;
use serde_json::json;
use tokio::time::{Instant, pause};

use crate::support::{ENVIRONMENT, Peer, http, hybrid_key, rig, rig_with, text};

#[tokio::test]
async fn a_new_registration_is_announced_once_its_executor_is_connected() {
    let rig = rig().await;
    let (_old, old) = rig.executor(&hybrid_key(1)).await;
    // Known or not asked for: at once.
    let answer = rig.announcement("").await;
    assert_eq!(answer.json(), json!({ "executor_registration_id": old }));
    let answer = rig.announcement("something-else").await;
    assert_eq!(answer.json(), json!({ "executor_registration_id": old }));

    let rig = std::sync::Arc::new(rig);
    let waiting = tokio::spawn({
        let (rig, old) = (rig.clone(), old.clone());
        async move { rig.announcement(&old).await }
    });
    let registered = rig.register(&hybrid_key(2)).await;
    let new = text(&registered, "executor_registration_id");
    // Registered is not connected: later requests are answered, and this one still waits.
    for _ in 0..5 {
        let body = json!({ "harness_public_key": hybrid_key(3) });
        let answer = rig.post("connect", &rig.harness, &body).await;
        assert_eq!(answer.refusal().1, "environment_offline");
    }
    assert!(!waiting.is_finished());
    let _new = Peer::dial(text(&registered, "url")).await;
    let answer = waiting.await.unwrap();
    assert_eq!(answer.json(), json!({ "executor_registration_id": new }));
}

#[tokio::test]
async fn without_news_it_ends_empty_after_25_s() {
    let rig = rig().await;
    let (_executor, registration) = rig.executor(&hybrid_key(1)).await;
    pause();
    let started = Instant::now();
    let answer = rig.announcement(&registration).await;
    assert_eq!((answer.status, answer.body.len()), (204, 0));
    let waited = started.elapsed();
    assert!(
        (Duration::from_secs(25)..Duration::from_secs(26)).contains(&waited),
        "{waited:?}"
    );
}

#[tokio::test]
async fn so_many_are_held_and_one_more_is_told_to_come_back() {
    let rig = rig_with(Limits {
        announcements: 1,
        ..Limits::default()
    })
    .await;
    let (_executor, registration) = rig.executor(&hybrid_key(1)).await;
    let mut first = Box::pin(rig.announcement(&registration));
    let mut second = Box::pin(rig.announcement(&registration));
    let refused = tokio::select! {
        refused = &mut first => refused,
        refused = &mut second => refused,
    };
    assert_eq!(refused.refusal(), (429, "too_many_requests".to_owned()));
    assert!(refused.head.contains("retry-after: 1"));
}

#[tokio::test]
async fn it_is_for_harnesses() {
    let rig = rig().await;
    for (token, status) in [(rig.executor.expose_secret(), 403), ("mst_guess", 401)] {
        let request = format!(
            "GET /mainstay/environment/{ENVIRONMENT}/registration HTTP/1.1\r\nAuthorization: Bearer {token}\r\n"
        );
        assert_eq!(http(rig.address, &request, b"").await.status, status);
    }
}
