//! Peers that do not read: the others wait at most ten seconds for them, and lose nothing. Time stands still
//! until nothing else can happen.

use std::time::Duration;

use mainstay_registry::Limits;
use mainstay_wire::relay::Body;
use tokio::time::{Instant, pause};

use crate::support::{bulk, data, hybrid_key, rig, rig_with};

#[tokio::test]
async fn a_harness_that_does_not_read_is_reset_after_10_s_and_its_neighbour_loses_nothing() {
    let rig = rig().await;
    let (mut executor, _) = rig.executor(&hybrid_key(1)).await;
    let (mut stuck, mut neighbour) = (rig.harness().await, rig.harness().await);
    stuck.send("stuck", data(0, b"x")).await;
    executor.receive().await;
    neighbour.send("neighbour", data(0, b"x")).await;
    executor.receive().await;
    let mut executor_source = executor.0.source;
    let mut executor_sink = executor.0.sink;
    pause();
    let started = Instant::now();
    // Far more than the queue and the kernel's buffers hold.
    let sending = tokio::spawn(async move {
        for seq in 0..400 {
            for id in ["stuck", "neighbour"] {
                let frame = mainstay_wire::relay::Frame::new(id, bulk(seq)).encode();
                executor_sink.feed(frame).await.unwrap();
            }
        }
        executor_sink.flush().await.unwrap();
        executor_sink
    });
    for seq in 0..400 {
        neighbour.expect("neighbour", bulk(seq)).await;
    }
    let waited = started.elapsed();
    assert!(
        (Duration::from_secs(10)..Duration::from_secs(11)).contains(&waited),
        "{waited:?}"
    );
    let _executor_sink = sending.await.unwrap();
    // The executor is told, and nothing of the neighbour's was reset.
    let frame = executor_source.recv().await.unwrap().unwrap();
    let mainstay_link::Frame::Binary(frame) = frame else {
        panic!("{frame:?}")
    };
    let frame = mainstay_wire::relay::Frame::decode(frame).unwrap();
    assert_eq!(frame.stream_id, "stuck");
    assert!(matches!(frame.body, Body::Reset { .. }));
    // What had left before is there, then the socket ends.
    stuck.end().await;
    assert!(started.elapsed() < Duration::from_secs(11));
}

#[tokio::test]
async fn a_slow_harness_that_reads_again_in_time_loses_nothing() {
    let rig = rig().await;
    let (mut executor, _) = rig.executor(&hybrid_key(1)).await;
    let mut slow = rig.harness().await;
    slow.send("slow", data(0, b"x")).await;
    executor.receive().await;
    pause();
    let mut sink = executor.0.sink;
    let sending = tokio::spawn(async move {
        for seq in 0..400 {
            let frame = mainstay_wire::relay::Frame::new("slow", bulk(seq)).encode();
            sink.feed(frame).await.unwrap();
        }
        sink.flush().await.unwrap();
        sink
    });
    tokio::time::sleep(Duration::from_secs(9)).await;
    for seq in 0..400 {
        slow.expect("slow", bulk(seq)).await;
    }
    sending.await.unwrap();
}

#[tokio::test]
async fn an_executor_that_does_not_read_costs_the_harness_its_stream_not_its_socket() {
    let rig = rig().await;
    let (executor, _) = rig.executor(&hybrid_key(1)).await;
    let mut harness = rig.harness().await;
    pause();
    let started = Instant::now();
    let mut sink = harness.0.sink;
    let sending = tokio::spawn(async move {
        for seq in 0.. {
            let frame = mainstay_wire::relay::Frame::new("s", bulk(seq)).encode();
            if sink.feed(frame).await.is_err() {
                break;
            }
        }
    });
    let frame = harness.0.source.recv().await.unwrap().unwrap();
    let mainstay_link::Frame::Binary(frame) = frame else {
        panic!("{frame:?}")
    };
    let frame = mainstay_wire::relay::Frame::decode(frame).unwrap();
    assert!(matches!(frame.body, Body::Reset { .. }));
    let waited = started.elapsed();
    assert!(
        (Duration::from_secs(10)..Duration::from_secs(11)).contains(&waited),
        "{waited:?}"
    );
    sending.abort();
    drop(executor);
}

#[tokio::test]
async fn a_harness_that_provokes_resets_and_reads_none_is_cut_off() {
    let rig = rig_with(Limits {
        stream_queue: 300_000,
        ..Limits::default()
    })
    .await;
    let (mut executor, _) = rig.executor(&hybrid_key(1)).await;
    let (mut owner, mut spammer) = (rig.harness().await, rig.harness().await);
    owner.send("s", data(0, b"x")).await;
    executor.receive().await;
    let claim = mainstay_wire::relay::Frame::new("s", data(0, b"x")).encode();
    // Each of them is answered with a reset, until there is no room for any more.
    while spammer.0.sink.feed(claim.clone()).await.is_ok() {}
    owner.send("s", data(1, b"y")).await;
    executor.expect("s", data(1, b"y")).await;
}
