//! A newer registration takes the environment over; the older one keeps what it has and gets nothing new.

use mainstay_wire::relay::Body;
use serde_json::json;

use crate::support::{Peer, data, hybrid_key, ik_key, refused, registration, rig, text};

#[tokio::test]
async fn the_older_executor_keeps_its_streams_and_gets_no_new_ones() {
    let rig = rig().await;
    let (mut old, old_registration) = rig.executor(&hybrid_key(1)).await;
    let stale = text(&rig.connect(&hybrid_key(9)).await, "url").to_owned();
    let mut harness = rig.harness().await;
    harness.send("s", data(0, b"one")).await;
    old.expect("s", data(0, b"one")).await;

    let (mut new, new_registration) = rig.executor(&hybrid_key(2)).await;
    assert_ne!(old_registration, new_registration);
    // What it has goes on, both ways.
    harness.send("s", data(1, b"two")).await;
    old.expect("s", data(1, b"two")).await;
    old.send("s", data(0, b"three")).await;
    harness.expect("s", data(0, b"three")).await;
    // A new stream on an old socket, and a new socket with an old bundle, are refused.
    harness.send("t", Body::Resume { next_seq: 0 }).await;
    harness.expect_reset("t").await;
    assert_eq!(refused(&stale).await.status, 401);
    // New bundles lead to the new executor.
    let mut other = rig.harness().await;
    other.send("u", data(0, b"four")).await;
    new.expect("u", data(0, b"four")).await;
}

#[tokio::test]
async fn the_older_executors_url_and_key_do_not_come_back() {
    let rig = rig().await;
    let url = text(&rig.register(&hybrid_key(1)).await, "url").to_owned();
    rig.register(&hybrid_key(2)).await;
    let gone = refused(&url).await;
    assert_eq!((gone.status, gone.reason), (410, Some("unknown_route")));
    let body = registration(&hybrid_key(1));
    let answer = rig.post("register", &rig.executor, &body).await;
    assert_eq!(
        answer.refusal(),
        (409, "registration_superseded".to_owned())
    );
    // Another suite is another key.
    assert_eq!(
        rig.post("register", &rig.executor, &registration(&ik_key(1)))
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn the_same_executor_registers_again_without_replacing_itself() {
    let rig = rig().await;
    let (mut executor, registration) = rig.executor(&hybrid_key(1)).await;
    let again = rig.register(&hybrid_key(1)).await;
    assert_eq!(again["executor_registration_id"], registration);
    let mut harness = rig.harness().await;
    harness.send("s", data(0, b"x")).await;
    executor.expect("s", data(0, b"x")).await;
}

#[tokio::test]
async fn validate_is_false_for_a_registration_that_was_replaced() {
    let rig = rig().await;
    let (_old, registration) = rig.executor(&hybrid_key(1)).await;
    let bundle = rig.connect(&hybrid_key(9)).await;
    let authorization = text(&bundle, "harness_key_authorization").to_owned();
    let answer = rig
        .validate(&registration, &hybrid_key(9), &authorization)
        .await;
    assert_eq!(answer, json!({ "valid": true }));
    rig.register(&hybrid_key(2)).await;
    let answer = rig
        .validate(&registration, &hybrid_key(9), &authorization)
        .await;
    assert_eq!(answer, json!({ "valid": false }));
}

#[tokio::test]
async fn a_second_socket_of_one_registration_takes_over_from_the_first() {
    let rig = rig().await;
    let answer = rig.register(&hybrid_key(1)).await;
    let (mut first, _) = rig.executor(&hybrid_key(1)).await;
    let mut harness = rig.harness().await;
    let mut second = Peer::dial(text(&answer, "url")).await;
    assert_eq!(first.end().await, Some(1001));
    assert_eq!(harness.end().await, Some(1001));
    // The end of the first does not make the second offline.
    drop(first);
    let mut harness = rig.harness().await;
    harness.send("s", data(0, b"x")).await;
    second.expect("s", data(0, b"x")).await;
}
