//! Processes: starts, order, outages (`session.md` 8).

use futures_util::StreamExt;
use mainstay::{Command, Exit, Process, ProcessEvent};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::replays::answer;
use crate::script::{Peer, exec, text};

async fn all(process: &mut Process) -> Vec<ProcessEvent> {
    process.events().collect().await
}

fn output(bytes: &'static str) -> ProcessEvent {
    ProcessEvent::Output {
        stream: mainstay::StreamKind::Stdout,
        bytes: bytes.into(),
    }
}

#[tokio::test]
async fn a10_reordered_events_are_delivered_in_order() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let mut process = peer.start(&environment, "p").await;
    peer.closed("p", 4).await;
    peer.output("p", 1, "one").await;
    peer.notify(
        "process/exited",
        json!({"processId": "p", "seq": 3, "exitCode": 5, "sandboxDenied": true}),
    )
    .await;
    peer.output("p", 2, "two").await;
    let events = all(&mut process).await;
    assert_eq!(events.len(), 4);
    assert_eq!(events[0], output("one"));
    assert_eq!(events[1], output("two"));
    let ProcessEvent::Exited(status) = &events[2] else {
        panic!("{events:?}")
    };
    assert_eq!((status.code, status.sandbox_denied), (5, Some(true)));
    assert_eq!(events[3], ProcessEvent::Closed);
    assert_eq!(process.wait().await, Exit::Exited(*status));
}

#[tokio::test]
async fn a16_an_event_above_one_mib_loses_the_process() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let mut process = peer.start(&environment, "p").await;
    peer.output("p", 1, &"x".repeat((1 << 20) + 1)).await;
    let events = all(&mut process).await;
    assert!(matches!(&events[..], [ProcessEvent::Lost(_)]), "{events:?}");
    assert!(matches!(process.wait().await, Exit::Lost(_)));
}

#[tokio::test]
async fn a12_much_output_of_one_process_does_not_delay_another() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let mut loud = peer.start(&environment, "p").await;
    let mut quiet = peer.start(&environment, "q").await;
    for seq in 1..=4097 {
        peer.output("p", seq, "noise").await;
    }
    peer.exited("q", 1, 0).await;
    assert!(matches!(quiet.exited().await, Exit::Exited(_)));
    let mut events = loud.events();
    for _ in 0..4097 {
        assert_eq!(events.next().await.unwrap(), output("noise"));
    }
}

#[tokio::test]
async fn a6_a_write_whose_link_is_lost_is_sent_again_with_the_same_id() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let command = Command::new("x").process_id("p").pipe_stdin();
    let mut process = peer.start_with(&environment, command).await;
    let mut stdin = process.stdin.take().unwrap();
    let writing = tokio::spawn(async move {
        stdin.write_all(b"hello").await?;
        stdin.flush().await
    });
    let first = peer.expect("process/write").await;
    drop(peer);
    let mut peer = Peer::resume(&environment).await;
    let read = peer.expect("process/read").await;
    assert_eq!(read.params["afterSeq"], 0);
    assert_eq!(read.params["maxBytes"], Value::Null);
    peer.answer(&read.id, answer(&[], 1)).await;
    let second = peer.expect("process/write").await;
    assert_eq!(second.params, first.params);
    assert_eq!(text(&second.params["chunk"]), "hello");
    peer.answer(&second.id, json!({"status": "accepted"})).await;
    writing.await.unwrap().unwrap();
}

#[tokio::test]
async fn w8_output_that_is_gone_becomes_a_gap_and_the_process_lives() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let mut process = peer.start(&environment, "p").await;
    let mut events = process.events();
    peer.output("p", 1, "one").await;
    assert_eq!(events.next().await.unwrap(), output("one"));
    drop(peer);
    let mut peer = Peer::resume(&environment).await;
    let read = peer.expect("process/read").await;
    assert_eq!(read.params["afterSeq"], 1);
    peer.answer(&read.id, answer(&[(5, "five")], 6)).await;
    peer.output("p", 6, "six").await;
    assert_eq!(
        events.next().await.unwrap(),
        ProcessEvent::Gap { first: 2, last: 4 }
    );
    assert_eq!(events.next().await.unwrap(), output("five"));
    assert_eq!(events.next().await.unwrap(), output("six"));
}

#[tokio::test]
async fn w8_the_references_rule_terminates_a_process_whose_output_is_gone() {
    let mut config = mainstay::Config::default();
    config.session.on_gap = mainstay::OnGap::Fail;
    let (environment, _session, mut peer) = Peer::session_with(config, json!({})).await;
    let mut process = peer.start(&environment, "p").await;
    drop(peer);
    let mut peer = Peer::resume(&environment).await;
    let read = peer.expect("process/read").await;
    peer.answer(&read.id, answer(&[(5, "five")], 6)).await;
    let terminate = peer.expect("process/terminate").await;
    peer.answer(&terminate.id, json!({"running": true})).await;
    let Exit::Lost(error) = process.wait().await else {
        panic!()
    };
    assert!(
        error.to_string().contains("failed to recover process p"),
        "{error}"
    );
}

/// Starts `q` beside `p` and reads its one output: everything sent before has been heard by then.
async fn neighbour(environment: &mainstay::Environment, peer: &mut Peer) {
    let mut process = peer.start(environment, "q").await;
    peer.output("q", 1, "past").await;
    assert_eq!(process.events().next().await.unwrap(), output("past"));
}

#[tokio::test]
async fn w13_a_reader_that_is_too_slow_gets_a_gap_and_holds_nobody_up() {
    let config = mainstay::Config {
        process_buffer: 1,
        on_slow: mainstay::OnSlow::Gap,
        ..mainstay::Config::default()
    };
    let (environment, _session, mut peer) = Peer::session_with(config, json!({})).await;
    let mut process = peer.start(&environment, "p").await;
    for seq in 1..=1000 {
        peer.output("p", seq, "one").await;
    }
    neighbour(&environment, &mut peer).await;
    let mut events = process.events();
    assert_eq!(events.next().await.unwrap(), output("one"));
    assert_eq!(
        events.next().await.unwrap(),
        ProcessEvent::Gap {
            first: 2,
            last: 1000
        }
    );
    peer.output("p", 1001, "one").await;
    assert_eq!(events.next().await.unwrap(), output("one"));
    // What is not output is never missed, and a gap comes before it.
    for seq in 1002..=1004 {
        peer.output("p", seq, "one").await;
    }
    peer.exited("p", 1005, 0).await;
    neighbour(&environment, &mut peer).await;
    assert_eq!(events.next().await.unwrap(), output("one"));
    assert_eq!(
        events.next().await.unwrap(),
        ProcessEvent::Gap {
            first: 1003,
            last: 1004
        }
    );
    assert!(matches!(
        events.next().await.unwrap(),
        ProcessEvent::Exited(_)
    ));
}

#[tokio::test]
async fn a21_an_abandoned_start_is_terminated_when_its_answer_arrives() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let starting = exec(&environment, Command::new("x").process_id("p"));
    let asked = peer.expect("process/start").await;
    starting.abort();
    let _ = starting.await;
    // The entry is gone at once: the id is free for the table.
    let again = exec(&environment, Command::new("x").process_id("p"));
    let second = peer.expect("process/start").await;
    peer.fail(&second.id, -32600, "process ID already exists")
        .await;
    assert_eq!(again.await.unwrap().unwrap_err().code(), Some(-32600));
    peer.answer(&asked.id, json!({"processId": "p"})).await;
    let terminate = peer.expect("process/terminate").await;
    assert_eq!(terminate.params["processId"], "p");
    peer.answer(&terminate.id, json!({"running": true})).await;
}

#[tokio::test]
async fn a_failed_start_tells_what_was_missing() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let starting = exec(&environment, Command::new("x"));
    let asked = peer.expect("process/start").await;
    assert_eq!(asked.params["cwd"], "file:///home");
    let data = json!({"kind": "spawnNotFound", "mainstayMissing": "program"});
    peer.send(json!({"error": {"code": -32603, "data": data, "message": "no"}, "id": asked.id}))
        .await;
    let error = starting.await.unwrap().unwrap_err();
    assert_eq!(error.missing(), Some(mainstay::Missing::Program));
    assert_eq!(error.code(), Some(-32603));
}

#[tokio::test]
async fn events_before_the_start_answer_are_not_lost() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let starting = exec(&environment, Command::new("x").process_id("p"));
    let asked = peer.expect("process/start").await;
    peer.output("p", 1, "early").await;
    peer.exited("p", 2, 0).await;
    peer.closed("p", 3).await;
    peer.answer(&asked.id, json!({"processId": "p"})).await;
    let output = starting
        .await
        .unwrap()
        .unwrap()
        .wait_with_output()
        .await
        .unwrap();
    assert_eq!(&output.stdout[..], b"early");
}

#[tokio::test]
async fn credit_is_granted_as_the_consumer_reads() {
    const WINDOW: usize = 2 << 20;
    let config = mainstay::Config {
        credit_window: WINDOW,
        ..Default::default()
    };
    let (environment, _session, mut peer) =
        Peer::session_with(config, json!({"mainstayCredit": true})).await;
    let mut process = peer.start(&environment, "p").await;
    let mut stdout = process.stdout.take().unwrap();
    let chunk = "x".repeat(64 << 10);
    // Without a reader everything up to the window is granted, and no more.
    let (mut sent, mut seq, mut granted) = (0, 0, 1 << 20);
    while granted < WINDOW - 2 * chunk.len() || sent + chunk.len() <= granted {
        if sent + chunk.len() > granted {
            let credit = peer.expect_notice("mainstay/credit").await;
            let acknowledged = credit["ackSeq"].as_u64().unwrap() as usize * chunk.len();
            granted = acknowledged + credit["window"].as_u64().unwrap() as usize;
        } else {
            seq += 1;
            peer.output("p", seq, &chunk).await;
            sent += chunk.len();
        }
    }
    assert!(granted <= WINDOW, "{granted}");
    // What is read is granted again.
    let mut read = 0;
    while read < sent {
        read += stdout.chunk().await.unwrap().unwrap().len();
    }
    let credit = peer.expect_notice("mainstay/credit").await;
    let acknowledged = credit["ackSeq"].as_u64().unwrap() as usize * chunk.len();
    let more = acknowledged + credit["window"].as_u64().unwrap() as usize;
    assert!(more > granted, "{more}");
}
