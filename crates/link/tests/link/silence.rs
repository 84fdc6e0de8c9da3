//! Peers that do not answer, do not read, or come late. The clock stands still unless a test moves it.

use std::time::Duration;

use mainstay_link::{Limits, LinkError};
use tokio::time::{Instant, advance, pause};

use crate::support::{PING, PONG, Peer, accepted_from_peer, linked};

/// Lets everything that can happen without time passing happen.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_half_open_peer_is_given_up_60_s_after_one_unanswered_ping() {
    let (mut peer, mut link) = accepted_from_peer(Limits::direct()).await;
    pause();
    let started = Instant::now();
    let writer = tokio::spawn(async move {
        for _ in 0..10 {
            link.sink.keepalive().await.unwrap();
        }
    });
    let error = link.source.recv().await.unwrap_err();
    assert!(matches!(error, LinkError::PongTimeout(limit) if limit == Duration::from_secs(60)));
    let waited = started.elapsed();
    assert!(
        (Duration::from_secs(89)..Duration::from_secs(91)).contains(&waited),
        "{waited:?}"
    );

    // More turns of the writer's clock, and still one ping only.
    advance(Duration::from_secs(200)).await;
    writer.abort();
    let _ = writer.await;
    drop(link.source);
    let ping = peer.receive().await;
    assert_eq!((ping.opcode, ping.payload.len()), (PING, 0));
    let mut rest = Vec::new();
    let _ = tokio::io::AsyncReadExt::read_to_end(&mut peer.tcp, &mut rest).await;
    assert_eq!(rest, b"");
}

#[tokio::test]
async fn an_idle_link_lives_as_long_as_pings_are_answered() {
    let (mut near, mut far) = linked(Limits::direct()).await;
    pause();
    let ends = tokio::spawn(async move {
        tokio::join!(
            async {
                tokio::select! {
                    message = near.source.recv() => message,
                    () = async { loop { near.sink.keepalive().await.unwrap() } } => None.transpose(),
                }
            },
            async { tokio::time::timeout(Duration::from_secs(600), far.source.recv()).await }
        )
    });
    let (near, far) = ends.await.unwrap();
    assert!(far.is_err(), "the far end waited its ten minutes: {far:?}");
    assert!(near.is_err(), "and then went away: {near:?}");
}

#[tokio::test]
async fn pings_go_out_every_30_s_while_they_are_answered() {
    let (mut peer, mut link) = accepted_from_peer(Limits::direct()).await;
    pause();
    tokio::spawn(async move { while link.source.recv().await.is_ok() {} });
    let started = Instant::now();
    let writer = tokio::spawn(async move {
        loop {
            link.sink.keepalive().await.unwrap();
        }
    });
    for round in 1..=5 {
        assert_eq!(peer.receive().await.opcode, PING);
        let since = started.elapsed().as_secs_f64();
        assert!((since - 30.0 * f64::from(round)).abs() < 1.0, "{since}");
        peer.send(true, PONG, b"").await;
    }
    writer.abort();
}

#[tokio::test]
async fn a_keepalive_dropped_in_its_sleep_still_pings_at_its_time() {
    let (mut peer, mut link) = accepted_from_peer(Limits::direct()).await;
    pause();
    let started = Instant::now();
    let writer = tokio::spawn(async move {
        let mut every = tokio::time::interval(Duration::from_secs(7));
        loop {
            tokio::select! {
                _ = every.tick() => {}
                kept = link.sink.keepalive() => kept.unwrap(),
            }
        }
    });
    assert_eq!(peer.receive().await.opcode, PING);
    let since = started.elapsed().as_secs_f64();
    assert!((29.0..31.0).contains(&since), "{since}");
    writer.abort();
}

/// Sends a ping and lets `away` pass while nobody reads.
async fn pinged_and_away(away: Duration) -> (Peer, mainstay_link::Link) {
    let (mut peer, mut link) = accepted_from_peer(Limits::direct()).await;
    pause();
    link.sink.keepalive().await.unwrap();
    assert_eq!(peer.receive().await.opcode, PING);
    advance(away).await;
    (peer, link)
}

#[tokio::test]
async fn a_pong_that_already_arrived_counts_however_late_it_is_read() {
    let (mut peer, mut link) = pinged_and_away(Duration::from_secs(1)).await;
    // Listening begins, so that the deadline runs; then nobody polls until long after it.
    let mut receiving = Box::pin(link.source.recv());
    assert!(futures_util::poll!(&mut receiving).is_pending());
    peer.send(true, PONG, b"").await;
    peer.send(true, 1, b"{}").await;
    advance(Duration::from_secs(500)).await;
    assert_eq!(receiving.await.unwrap().unwrap(), "{}");
}

#[tokio::test]
async fn the_time_in_which_we_did_not_read_is_not_held_against_the_peer() {
    let (mut peer, mut link) = pinged_and_away(Duration::from_secs(500)).await;
    let reader = tokio::spawn(async move { link.source.recv().await });
    settle().await;
    advance(Duration::from_secs(50)).await;
    settle().await;
    assert!(!reader.is_finished());
    peer.send(true, PONG, b"").await;
    peer.send(true, 1, b"{}").await;
    assert_eq!(reader.await.unwrap().unwrap().unwrap(), "{}");
}

#[tokio::test]
async fn after_a_pause_in_reading_the_deadline_runs_on() {
    let (_peer, mut link) = pinged_and_away(Duration::from_secs(500)).await;
    let resumed = Instant::now();
    let error = link.source.recv().await.unwrap_err();
    assert!(matches!(error, LinkError::PongTimeout(_)));
    let waited = resumed.elapsed().as_secs_f64();
    assert!((59.0..61.0).contains(&waited), "{waited}");
}

#[tokio::test]
async fn a_select_loop_that_drops_recv_again_and_again_does_not_stop_the_deadline() {
    let (_peer, mut link) = pinged_and_away(Duration::ZERO).await;
    let started = Instant::now();
    let mut every = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            _ = every.tick() => {}
            received = link.source.recv() => {
                assert!(matches!(received, Err(LinkError::PongTimeout(_))));
                break;
            }
        }
    }
    let waited = started.elapsed().as_secs_f64();
    assert!((59.0..61.0).contains(&waited), "{waited}");
}

#[tokio::test]
async fn a_peer_that_never_reads_fails_the_write_after_60_s() {
    let (_peer, mut link) = accepted_from_peer(Limits::direct()).await;
    pause();
    let started = Instant::now();
    let error = loop {
        if let Err(error) = link.sink.send("x".repeat(60 * 1024)).await {
            break error;
        }
    };
    assert!(matches!(error, LinkError::WriteTimeout(limit) if limit == Duration::from_secs(60)));
    let waited = started.elapsed().as_secs_f64();
    assert!((59.0..61.0).contains(&waited), "{waited}");
}

#[tokio::test]
async fn a_peer_that_never_reads_fails_a_flush_over_stdio_as_well() {
    let (ours, _theirs) = tokio::io::duplex(16);
    let mut link = mainstay_link::stdio(tokio::io::empty(), ours);
    pause();
    let error = async {
        link.sink.send("x".repeat(1000)).await?;
        link.sink.flush().await
    };
    assert!(matches!(
        error.await,
        Err(LinkError::WriteTimeout(limit)) if limit == Duration::from_secs(60)
    ));
}
