//! Who is let into the rendezvous, and how the others are told.

use std::time::Duration;

use mainstay_link::Refusal;
use mainstay_registry::Limits;

use crate::support::{Peer, Rig, http, hybrid_key, refused, rig, rig_with, text};

fn refusal(status: u16, retry: bool, reason: &'static str) -> Refusal {
    Refusal {
        status,
        retry_after: retry.then_some(Duration::from_secs(1)),
        reason: Some(reason),
    }
}

async fn harness_url(rig: &Rig) -> String {
    let bundle = rig.connect(&hybrid_key(2)).await;
    text(&bundle, "url").to_owned()
}

#[tokio::test]
async fn urls_that_were_changed_or_cut() {
    let rig = rig().await;
    let (_executor, _) = rig.executor(&hybrid_key(1)).await;
    let executor = text(&rig.register(&hybrid_key(1)).await, "url").to_owned();
    let harness = harness_url(&rig).await;
    let base = executor.split_once('?').unwrap().0.to_owned();
    let swapped = harness.replace("role=harness", "role=executor");
    let swapped = format!("{}&{}", swapped.split_once("&expires").unwrap().0, "sig=00");
    let cases = [
        (
            executor.replace("sig=", "sig=0"),
            refusal(410, false, "invalid_signature"),
        ),
        (swapped, refusal(410, false, "invalid_signature")),
        (
            harness.replace("sig=", "sig=0"),
            refusal(401, false, "invalid_signature"),
        ),
        (
            harness.replace("expires=1", "expires=9"),
            refusal(401, false, "invalid_signature"),
        ),
        (base.clone(), refusal(400, false, "malformed_query")),
        (format!("{base}?sig=1"), refusal(400, false, "missing_role")),
        (
            format!("{harness}&x=1"),
            refusal(400, false, "extra_query_param"),
        ),
    ];
    for (url, expected) in cases {
        assert_eq!(refused(&url).await, expected, "{url}");
    }
}

#[tokio::test]
async fn after_a_restart_the_executor_is_told_that_its_registration_is_gone() {
    let before = rig().await;
    let url = text(&before.register(&hybrid_key(1)).await, "url").to_owned();
    let after = rig().await;
    let old = before.address.port().to_string();
    let url = url.replace(&old, &after.address.port().to_string());
    assert_eq!(refused(&url).await.status, 410);
}

#[tokio::test]
async fn a_harness_whose_bundle_is_too_old_is_told_to_look_up_again() {
    let rig = rig_with(Limits {
        authorization_lifetime: Duration::ZERO,
        ..Limits::default()
    })
    .await;
    let (_executor, _) = rig.executor(&hybrid_key(1)).await;
    assert_eq!(
        refused(&harness_url(&rig).await).await,
        refusal(401, false, "expired")
    );
}

#[tokio::test]
async fn a_harness_whose_executor_is_away_is_told_when_to_come_back() {
    let rig = rig().await;
    let (executor, _) = rig.executor(&hybrid_key(1)).await;
    let url = harness_url(&rig).await;
    let mut harness = Peer::dial(&url).await;
    drop(executor);
    // The harness's socket ends when its executor's does.
    harness.end().await;
    assert_eq!(refused(&url).await, refusal(503, true, "route_unavailable"));
}

#[tokio::test]
async fn more_harnesses_than_there_is_room_for() {
    let rig = rig_with(Limits {
        harnesses_per_executor: 1,
        ..Limits::default()
    })
    .await;
    let (mut executor, _) = rig.executor(&hybrid_key(1)).await;
    let url = harness_url(&rig).await;
    let mut first = Peer::dial(&url).await;
    assert_eq!(refused(&url).await, refusal(429, true, "route_unavailable"));
    // Its place is free once it is gone, which its stream's reset tells.
    first.send("s", crate::support::data(0, b"x")).await;
    executor.receive().await;
    drop(first);
    executor.expect_reset("s").await;
    while refusable(&url).await {}
}

/// Whether an upgrade is still refused for want of room.
async fn refusable(url: &str) -> bool {
    use mainstay_link::{DialError, DialOptions, dial_raw};
    match dial_raw(url, &DialOptions::rendezvous()).await {
        Ok(_) => false,
        Err(DialError::Refused(refusal)) if refusal.status == 429 => true,
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn more_sockets_than_the_node_takes() {
    let rig = rig_with(Limits {
        sockets: 1,
        ..Limits::default()
    })
    .await;
    let (_executor, _) = rig.executor(&hybrid_key(1)).await;
    let executor = text(&rig.register(&hybrid_key(1)).await, "url").to_owned();
    assert_eq!(
        refused(&executor).await,
        refusal(503, true, "route_unavailable")
    );
    assert_eq!(
        refused(&harness_url(&rig).await).await,
        refusal(429, true, "route_unavailable")
    );
}

#[tokio::test]
async fn a_plain_request_to_a_good_url_is_told_what_is_missing() {
    let rig = rig().await;
    let url = text(&rig.register(&hybrid_key(1)).await, "url").to_owned();
    let path = &url[url.find("/rendezvous").unwrap()..];
    let answer = http(rig.address, &format!("GET {path} HTTP/1.1\r\n"), b"").await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.body, b"Connection header did not include 'upgrade'");
}
