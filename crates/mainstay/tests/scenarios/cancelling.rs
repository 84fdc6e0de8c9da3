//! How an open question is closed, and whether it is answered then (`session.md` 10.5 and 10.6; invariant 25).
//!
//! | what happens | cause | answer |
//! |---|---|---|
//! | the link ends, the session ends or is retired | `ConnectionClosed` | none |
//! | the process is terminated | `ProcessCancelled` | a denial |
//! | nobody holds the process, or its start | `ProcessCancelled` | none: its entry is gone |
//! | the process exited and closed | `ProcessFinished` | none: its entry is gone |
//! | the process is lost | `ProcessCancelled` | none: its entry is gone |
//! | no decision comes in time | `TimedOut` | a denial |

use std::sync::Arc;
use std::time::Duration;

use mainstay::{
    CancelCause, Cancelled, Command, Decision, Environment, Network, PolicyTarget, Process, Session,
};
use mainstay_session::Event;
use serde_json::json;
use tokio::sync::mpsc;

use crate::deciding::{Question, ask, denied, network, rules, start};
use crate::script::{Peer, exec};

/// Longer than any test.
const NEVER: Duration = Duration::from_secs(600);

/// One open question, with id 1.
async fn open() -> (Environment, Session, Peer, Process, Question) {
    let (environment, session, mut peer) = Peer::session(json!({})).await;
    let (network, mut questions) = network(NEVER);
    let process = start(&environment, &mut peer, network).await;
    ask(&mut peer, json!(1), "example.org").await;
    let question = questions.recv().await.unwrap();
    assert_eq!(question.cancelled.cause(), None);
    (environment, session, peer, process, question)
}

/// The question was closed for this reason, and nothing is said about it: the probe's request is the next message.
async fn unanswered(
    question: &mut Question,
    cause: CancelCause,
    session: &Session,
    peer: &mut Peer,
) {
    assert_eq!(question.cancelled.closed().await, cause);
    peer.settle(session).await;
}

#[tokio::test]
async fn a_lost_link_closes_its_questions_without_an_answer() {
    let (environment, session, peer, _process, mut question) = open().await;
    drop(peer);
    let cause = question.cancelled.closed().await;
    assert_eq!(cause, CancelCause::ConnectionClosed);
    // Nor is a decision that comes all the same said on the next link.
    let _ = question.reply.send(Decision::Allow);
    let mut peer = Peer::resume(&environment).await;
    let read = peer.expect("process/read").await;
    peer.answer(&read.id, crate::replays::answer(&[], 1)).await;
    peer.settle(&session).await;
}

#[tokio::test]
async fn a_retirement_closes_questions_as_the_connection_does() {
    let (environment, session, mut peer, _process, mut question) = open().await;
    environment.step_for_test(Event::RetireForTest(session.generation_for_test()));
    let cause = question.cancelled.closed().await;
    assert_eq!(cause, CancelCause::ConnectionClosed);
    assert!(peer.next().await.is_none(), "no answer");
}

#[tokio::test]
async fn a_terminated_process_has_its_questions_denied() {
    let (_environment, _session, mut peer, process, mut question) = open().await;
    let terminating = tokio::spawn(async move { (process.terminate().await, process) });
    let asked = peer.expect("process/terminate").await;
    assert_eq!(question.cancelled.cause(), None, "only once it is");
    peer.answer(&asked.id, json!({"running": true})).await;
    denied(&mut peer, 1).await;
    let cause = question.cancelled.closed().await;
    assert_eq!(cause, CancelCause::ProcessCancelled);
    assert!(terminating.await.unwrap().0.unwrap());
}

#[tokio::test]
async fn a_process_that_ends_while_it_is_terminated_was_cancelled() {
    let (_environment, session, mut peer, process, mut question) = open().await;
    let terminating = tokio::spawn(async move { (process.terminate().await, process) });
    let asked = peer.expect("process/terminate").await;
    peer.exited("p", 1, 137).await;
    peer.closed("p", 2).await;
    // The first cause counts.
    let cause = CancelCause::ProcessCancelled;
    unanswered(&mut question, cause, &session, &mut peer).await;
    peer.answer(&asked.id, json!({"running": true})).await;
    terminating.await.unwrap().0.unwrap();
}

#[tokio::test]
async fn a_process_that_nobody_holds_leaves_its_questions_unanswered() {
    let (_environment, session, mut peer, process, mut question) = open().await;
    drop(process);
    let cause = CancelCause::ProcessCancelled;
    unanswered(&mut question, cause, &session, &mut peer).await;
}

#[tokio::test]
async fn a_finished_process_leaves_its_questions_unanswered() {
    let (_environment, session, mut peer, _process, mut question) = open().await;
    peer.exited("p", 1, 0).await;
    // Exited is not finished: its output is still open.
    peer.settle(&session).await;
    assert_eq!(question.cancelled.cause(), None);
    peer.closed("p", 2).await;
    let cause = CancelCause::ProcessFinished;
    unanswered(&mut question, cause, &session, &mut peer).await;
}

#[tokio::test]
async fn a_lost_process_leaves_its_questions_unanswered() {
    let (_environment, session, mut peer, mut process, mut question) = open().await;
    peer.output("p", 1, &"x".repeat((1 << 20) + 1)).await;
    assert!(matches!(process.wait().await, mainstay::Exit::Lost(_)));
    let cause = CancelCause::ProcessCancelled;
    unanswered(&mut question, cause, &session, &mut peer).await;
}

#[tokio::test]
async fn a_decision_about_an_earlier_process_with_the_same_id_is_not_said() {
    let (environment, session, mut peer, process, mut question) = open().await;
    drop(process);
    let cause = CancelCause::ProcessCancelled;
    unanswered(&mut question, cause, &session, &mut peer).await;
    let (network, mut questions) = network(NEVER);
    let _again = start(&environment, &mut peer, network).await;
    let _ = question.reply.send(Decision::Allow);
    peer.settle(&session).await;
    ask(&mut peer, json!(1), "example.org").await;
    let new = questions.recv().await.unwrap();
    new.reply.send(Decision::Allow).unwrap();
    let answer = peer.expect_answer(1).await;
    assert_eq!(answer["result"]["decision"], json!({"type": "allow"}));
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_takes_too_long_is_a_denial_and_the_decider_learns_why() {
    let builder = Environment::builder();
    let (environment, _session, mut peer) =
        Peer::session_on(Peer::in_memory(), builder, json!({})).await;
    let (network, mut questions) = network(Duration::from_secs(1));
    let _process = start(&environment, &mut peer, network).await;
    let began = tokio::time::Instant::now();
    ask(&mut peer, json!(1), "example.org").await;
    let mut question = questions.recv().await.unwrap();
    let cause = question.cancelled.closed().await;
    assert_eq!(cause, CancelCause::TimedOut);
    assert_eq!(began.elapsed(), Duration::from_secs(1));
    denied(&mut peer, 1).await;
    assert!(question.reply.is_closed(), "nobody decides any more");
}

/// Tells the test, when a decision is dropped, what its cause was then.
struct Deciding {
    cancelled: Cancelled,
    dropped: mpsc::UnboundedSender<Option<CancelCause>>,
}

impl Drop for Deciding {
    fn drop(&mut self) {
        let _ = self.dropped.send(self.cancelled.cause());
    }
}

#[tokio::test]
async fn the_cause_is_known_before_the_decision_is_dropped() {
    let (environment, session, mut peer) = Peer::session(json!({})).await;
    let (dropped, mut causes) = mpsc::unbounded_channel();
    let (asked, mut questions) = mpsc::unbounded_channel();
    let decider = move |_: PolicyTarget, cancelled: Cancelled| {
        let deciding = Deciding {
            cancelled,
            dropped: dropped.clone(),
        };
        let _ = asked.send(());
        async move {
            let _deciding = deciding;
            std::future::pending().await
        }
    };
    let network = Network::proxy(rules()).decider(decider, NEVER);
    let _process = start(&environment, &mut peer, network).await;
    ask(&mut peer, json!(1), "example.org").await;
    questions.recv().await.unwrap();
    environment.step_for_test(Event::RetireForTest(session.generation_for_test()));
    let cause = causes.recv().await.unwrap();
    assert_eq!(cause, Some(CancelCause::ConnectionClosed));
}

#[tokio::test]
async fn a21_an_abandoned_start_releases_its_decider_at_once() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let (asked, mut questions) = mpsc::unbounded_channel();
    let held = Arc::new(());
    let decider = {
        let held = held.clone();
        move |_: PolicyTarget, cancelled: Cancelled| {
            let _ = (&held, asked.send(cancelled));
            std::future::pending()
        }
    };
    let network = Network::proxy(rules()).decider(decider, NEVER);
    let starting = exec(
        &environment,
        Command::new("x").process_id("p").network(network),
    );
    let start = peer.expect("process/start").await;
    // Its program may ask before its start is answered.
    ask(&mut peer, json!(1), "example.org").await;
    let mut cancelled = questions.recv().await.unwrap();
    starting.abort();
    assert!(starting.await.unwrap_err().is_cancelled());
    assert_eq!(cancelled.closed().await, CancelCause::ProcessCancelled);
    // The sender went with the decider.
    assert!(questions.recv().await.is_none());
    assert_eq!(Arc::strong_count(&held), 1);
    // Nobody was told anything, and the answer to the start is followed by the clean-up.
    peer.answer(&start.id, json!({"processId": "p"})).await;
    let terminate = peer.expect("process/terminate").await;
    assert_eq!(terminate.params["processId"], "p");
}
