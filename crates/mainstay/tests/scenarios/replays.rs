//! Resumes, and what their replay makes of the output that was missed (`session.md` 5.3, 8.3, 8.4).

use futures_util::StreamExt;
use mainstay::{Config, ConnState, Environment, Exit, ExitStatus, Process, ProcessEvent};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::script::{Peer, base64};

/// An answer to `process/read` about a process that runs.
pub(crate) fn answer(chunks: &[(u64, &str)], next: u64) -> Value {
    let chunks: Vec<Value> = chunks
        .iter()
        .map(|(seq, chunk)| json!({"seq": seq, "stream": "stdout", "chunk": base64(chunk)}))
        .collect();
    json!({
        "chunks": chunks, "nextSeq": next, "exited": false, "exitCode": null,
        "closed": false, "failure": null, "sandboxDenied": false,
    })
}

/// The same about one that has exited.
fn exited(mut answer: Value, code: i32, sandbox_denied: bool) -> Value {
    answer["exited"] = json!(true);
    answer["exitCode"] = json!(code);
    answer["sandboxDenied"] = json!(sandbox_denied);
    answer
}

fn output(bytes: &str) -> ProcessEvent {
    ProcessEvent::Output {
        stream: mainstay::StreamKind::Stdout,
        bytes: bytes.to_owned().into(),
    }
}

fn exit(code: i32, sandbox_denied: bool) -> ProcessEvent {
    ProcessEvent::Exited(ExitStatus {
        code,
        sandbox_denied: Some(sandbox_denied),
    })
}

async fn all(process: &mut Process) -> Vec<ProcessEvent> {
    process.events().collect().await
}

#[tokio::test]
async fn w9_processes_are_caught_up_with_side_by_side() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let mut processes = Vec::new();
    for id in ["a", "b", "c"] {
        processes.push(peer.start(&environment, id).await);
    }
    drop(peer);
    let mut peer = Peer::resume(&environment).await;
    // All three are asked about before the first is answered.
    let mut asked = Vec::new();
    for _ in &processes {
        asked.push(peer.expect("process/read").await);
    }
    for question in asked.iter().rev() {
        peer.answer(&question.id, answer(&[(1, "missed")], 2)).await;
    }
    for process in &mut processes {
        assert_eq!(process.events().next().await, Some(output("missed")));
    }
}

#[tokio::test]
async fn a7_output_before_the_answer_does_not_delay_a_resume() {
    let (environment, session, mut peer) = Peer::session(json!({})).await;
    let mut process = peer.start(&environment, "p").await;
    drop(peer);
    let mut peer = Peer::replacement(&environment).await;
    let asked = peer.expect("initialize").await;
    assert_eq!(asked.params["resumeSessionId"], "session-1");
    let chunks: Vec<String> = (1..=256).map(|seq| format!("early {seq}")).collect();
    for (seq, chunk) in (1..).zip(&chunks) {
        peer.output("p", seq, chunk).await;
    }
    peer.welcome(&asked, "session-1", json!({})).await;
    // It is read from wherever the live output has got to, and nothing comes twice.
    let read = peer.expect("process/read").await;
    let after = read.params["afterSeq"].as_u64().unwrap();
    let missed: Vec<(u64, &str)> = (1..)
        .zip(chunks.iter().map(String::as_str))
        .filter(|(seq, _)| *seq > after)
        .collect();
    peer.answer(&read.id, answer(&missed, 257)).await;
    assert!(environment.session().await.unwrap().is_same(&session));
    session.link_for_test().await.unwrap();
    peer.exited("p", 257, 0).await;
    peer.closed("p", 258).await;
    let mut expected: Vec<ProcessEvent> = chunks.iter().map(|chunk| output(chunk)).collect();
    expected.extend([exit(0, false), ProcessEvent::Closed]);
    assert_eq!(all(&mut process).await, expected);
}

#[tokio::test]
async fn a7_a_consumer_that_does_not_read_does_not_delay_a_resume() {
    let config = Config {
        process_buffer: 64 << 10,
        ..Config::default()
    };
    let (environment, session, mut peer) = Peer::session_with(config, json!({})).await;
    let mut slow = peer.start(&environment, "p").await;
    let mut other = peer.start(&environment, "q").await;
    let chunk = "x".repeat(4096);
    // More than may wait for the consumer of `p`: what follows on the link is not taken from it any more.
    for seq in 1..=20 {
        peer.output("p", seq, &chunk).await;
    }
    drop(peer);
    let mut peer = Peer::replacement(&environment).await;
    let asked = peer.expect("initialize").await;
    for seq in 21..=276 {
        peer.output("p", seq, &chunk).await;
    }
    peer.welcome(&asked, "session-1", json!({})).await;
    for _ in ["p", "q"] {
        let read = peer.expect("process/read").await;
        let next = match read.params["processId"].as_str() {
            // What the old link brought may be lost with it, and what the new one did is on its way.
            Some("p") => (read.params["afterSeq"].as_u64().unwrap(), 277),
            _ => (0, 1),
        };
        let missed: Vec<(u64, &str)> = (next.0 + 1..next.1).map(|seq| (seq, &*chunk)).collect();
        peer.answer(&read.id, answer(&missed, next.1)).await;
    }
    session.link_for_test().await.unwrap();
    let mut events = slow.events();
    for _ in 1..=276 {
        assert_eq!(events.next().await.unwrap(), output(&chunk));
    }
    peer.output("q", 1, "heard").await;
    assert_eq!(other.events().next().await.unwrap(), output("heard"));
}

#[tokio::test]
async fn a17_the_gap_closing_event_passes_a_full_buffer_and_one_byte_more_does_not() {
    for too_many in [false, true] {
        let config = Config {
            process_buffer: 1 << 20,
            ..Config::default()
        };
        let (environment, _session, mut peer) = Peer::session_with(config, json!({})).await;
        let mut process = peer.start(&environment, "p").await;
        // 256 events, 1 MiB in all, none of which can be delivered yet.
        let chunk = "x".repeat(4096);
        for seq in 2..=257 {
            peer.output("p", seq, &chunk).await;
        }
        if too_many {
            peer.output("p", 258, "x").await;
            let events = all(&mut process).await;
            assert!(matches!(&events[..], [ProcessEvent::Lost(_)]), "{events:?}");
            continue;
        }
        let mut events = process.events();
        peer.output("p", 1, "first").await;
        assert_eq!(events.next().await.unwrap(), output("first"));
        for _ in 2..=257 {
            assert_eq!(events.next().await.unwrap(), output(&chunk));
        }
        // The buffer is empty again: it holds as much as before.
        for seq in 259..=514 {
            peer.output("p", seq, &chunk).await;
        }
        peer.output("p", 258, "next").await;
        assert_eq!(events.next().await.unwrap(), output("next"));
        for _ in 259..=514 {
            assert_eq!(events.next().await.unwrap(), output(&chunk));
        }
    }
}

#[tokio::test]
async fn a18_the_hole_before_the_output_is_the_exit() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let mut process = peer.start(&environment, "p").await;
    drop(peer);
    let mut peer = Peer::resume(&environment).await;
    let read = peer.expect("process/read").await;
    assert_eq!(read.params["afterSeq"], 0);
    peer.closed("p", 259).await;
    let chunks: Vec<String> = (2..=258).map(|seq| format!("chunk {seq}")).collect();
    let read_back: Vec<(u64, &str)> = (2..).zip(chunks.iter().map(String::as_str)).collect();
    peer.answer(&read.id, exited(answer(&read_back, 259), 3, false))
        .await;
    let mut expected = vec![exit(3, false)];
    expected.extend(chunks.iter().map(|chunk| output(chunk)));
    expected.push(ProcessEvent::Closed);
    assert_eq!(all(&mut process).await, expected);
}

#[tokio::test]
async fn a19_output_at_the_closed_seq_loses_the_process() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let mut process = peer.start(&environment, "p").await;
    drop(peer);
    let mut peer = Peer::resume(&environment).await;
    let read = peer.expect("process/read").await;
    let mut conflict = exited(answer(&[(1, "one"), (2, "two")], 3), 0, false);
    conflict["closed"] = json!(true);
    peer.answer(&read.id, conflict).await;
    let terminate = peer.expect("process/terminate").await;
    peer.answer(&terminate.id, json!({"running": false})).await;
    let events = all(&mut process).await;
    let [ProcessEvent::Lost(error)] = &events[..] else {
        panic!("nothing of it is delivered: {events:?}")
    };
    let text = error.to_string();
    assert!(text.contains("failed to recover process p"), "{text}");
    // The session itself has recovered.
    peer.start(&environment, "q").await;
}

#[tokio::test]
async fn a20_a_pending_exit_gets_the_sandbox_flag_of_the_replay() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let mut process = peer.start(&environment, "p").await;
    let mut other = peer.start(&environment, "q").await;
    // The exit waits for the output before it. What follows it on the link has been heard, so it has.
    peer.exited("p", 3, 5).await;
    peer.output("q", 1, "heard").await;
    let mut heard = other.events();
    assert_eq!(heard.next().await.unwrap(), output("heard"));
    drop(peer);
    let mut peer = Peer::resume(&environment).await;
    for _ in ["p", "q"] {
        let read = peer.expect("process/read").await;
        let answered = match read.params["processId"].as_str() {
            Some("p") => exited(answer(&[(1, "one"), (2, "two")], 4), 5, true),
            _ => answer(&[], 2),
        };
        peer.answer(&read.id, answered).await;
    }
    let status = ExitStatus {
        code: 5,
        sandbox_denied: Some(true),
    };
    assert_eq!(process.exited().await, Exit::Exited(status));
    peer.closed("p", 4).await;
    let expected = [
        output("one"),
        output("two"),
        exit(5, true),
        ProcessEvent::Closed,
    ];
    assert_eq!(all(&mut process).await, expected);
}

/// As [`Peer::resume`], on a link in memory.
async fn resume_in_memory(environment: &Environment) -> Peer {
    let (near, mut peer) = Peer::in_memory();
    let claim = environment.claim_replacement().await.unwrap();
    claim.replace(near).await.unwrap();
    assert_eq!(peer.initialize("session-1", json!({})).await, "session-1");
    peer
}

#[tokio::test(start_paused = true)]
async fn a_replay_without_an_answer_costs_its_link_and_not_the_session() {
    let (environment, session, mut peer) =
        Peer::session_on(Peer::in_memory(), Environment::builder(), json!({})).await;
    let mut process = peer.start(&environment, "p").await;
    drop(peer);
    let mut silent = resume_in_memory(&environment).await;
    silent.expect("process/read").await;
    let asked = Instant::now();
    assert!(silent.next().await.is_none(), "the link is closed");
    assert_eq!(asked.elapsed().as_secs(), 30);
    assert!(session.failure().is_none());
    assert_eq!(environment.state(), ConnState::Recovering);

    let mut peer = resume_in_memory(&environment).await;
    let read = peer.expect("process/read").await;
    assert_eq!(read.params["afterSeq"], 0);
    peer.answer(&read.id, answer(&[(1, "one")], 2)).await;
    peer.settle(&session).await;
    let mut events = process.events();
    assert_eq!(events.next().await.unwrap(), output("one"));
}
