//! A registry that goes tells its peers when to come back.

use std::time::Duration;

use tokio::time::{Instant, pause};

use crate::support::{data, hybrid_key, rig};

#[tokio::test]
async fn every_socket_is_closed_with_the_window_and_answers_end_the_drain() {
    let rig = rig().await;
    let (mut executor, _) = rig.executor(&hybrid_key(1)).await;
    let mut harness = rig.harness().await;
    harness.send("s", data(0, b"x")).await;
    executor.receive().await;
    executor.send("s", data(0, b"last")).await;
    harness.expect("s", data(0, b"last")).await;
    pause();
    let started = Instant::now();
    let window = Duration::from_millis(1500);
    let stopping = tokio::spawn(rig.registry.shutdown(window));
    for peer in [&mut executor, &mut harness] {
        peer.end().await;
        let close = peer.0.source.closed().unwrap();
        assert_eq!(
            (close.code, close.reason.as_str()),
            (1012, "window-ms=1500")
        );
    }
    stopping.await.unwrap();
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert!(tokio::net::TcpStream::connect(rig.address).await.is_err());
}

#[tokio::test]
async fn a_peer_that_does_not_answer_is_waited_for_5_s() {
    let rig = rig().await;
    let (_executor, _) = rig.executor(&hybrid_key(1)).await;
    pause();
    let started = Instant::now();
    rig.registry.shutdown(Duration::from_secs(1)).await;
    let waited = started.elapsed();
    assert!(
        (Duration::from_secs(5)..Duration::from_secs(6)).contains(&waited),
        "{waited:?}"
    );
}

#[tokio::test]
async fn a_held_request_is_answered_before_the_end() {
    let rig = rig().await;
    let (_executor, registration) = rig.executor(&hybrid_key(1)).await;
    let address = rig.address;
    let token = secrecy::ExposeSecret::expose_secret(&rig.harness).to_owned();
    let mut waiting = Box::pin(async move {
        let request = format!(
            "GET /mainstay/environment/build/registration?after={registration} HTTP/1.1\r\n\
             Authorization: Bearer {token}\r\n"
        );
        crate::support::http(address, &request, b"").await
    });
    // The answer to a later request on another connection tells that this one has begun.
    assert!(futures_util::poll!(&mut waiting).is_pending());
    while rig.announcement("").await.status != 200 {}
    assert!(futures_util::poll!(&mut waiting).is_pending());
    while rig.announcement("").await.status != 200 {}
    // The executor does not answer its close, and need not be waited for in earnest.
    pause();
    let (answer, ()) = tokio::join!(waiting, rig.registry.shutdown(Duration::from_secs(1)));
    assert_eq!(answer.refusal(), (503, "draining".to_owned()));
    assert!(answer.head.contains("retry-after: "));
}

#[tokio::test]
async fn a_dropped_registry_ends_everything_at_once() {
    let rig = rig().await;
    let (mut executor, _) = rig.executor(&hybrid_key(1)).await;
    let mut harness = rig.harness().await;
    pause();
    let started = Instant::now();
    drop(rig.registry);
    executor.end().await;
    harness.end().await;
    assert_eq!(started.elapsed(), Duration::ZERO);
}
