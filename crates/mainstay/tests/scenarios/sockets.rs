//! Sockets from the host, links that end, sessions that fail (`session.md` 2, 5.7).

use std::time::Duration;

use futures_util::StreamExt;
use mainstay::{Command, ConnState, Environment, ErrorKind, Exit, ProcessEvent};
use serde_json::json;

use crate::script::Peer;

#[tokio::test]
async fn a37_a_claim_is_exclusive_and_free_again_when_abandoned() {
    let (environment, session, mut peer) = Peer::session(json!({})).await;
    let claim = environment.claim_replacement().await.unwrap();
    let refused = environment.claim_replacement().await.unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Protocol { .. }));
    drop(claim);
    let claim = environment.claim_replacement().await.unwrap();
    let (near, mut second) = Peer::pair().await;
    claim.replace(near).await.unwrap();
    assert!(peer.next().await.is_none(), "the old link is closed");
    assert_eq!(second.initialize("session-1", json!({})).await, "session-1");
    assert!(environment.session().await.unwrap().is_same(&session));
}

#[tokio::test]
async fn a_full_recovery_shows_recovering_and_then_connected_once() {
    let (environment, _session, peer) = Peer::session(json!({})).await;
    let mut watch = environment.watch().await.unwrap();
    assert_eq!(*watch.borrow_and_update(), ConnState::Connected);
    drop(peer);
    watch.changed().await.unwrap();
    assert_eq!(*watch.borrow_and_update(), ConnState::Recovering);
    let mut peer = Peer::replacement(&environment).await;
    peer.initialize("session-1", json!({})).await;
    watch.changed().await.unwrap();
    assert_eq!(*watch.borrow_and_update(), ConnState::Connected);
    environment.snapshot().await.unwrap();
    assert!(!watch.has_changed().unwrap());
}

#[tokio::test]
async fn another_session_id_ends_the_session() {
    let (environment, session, peer) = Peer::session(json!({})).await;
    drop(peer);
    let mut peer = Peer::replacement(&environment).await;
    peer.initialize("session-2", json!({})).await;
    assert!(peer.next().await.is_none());
    let error = session
        .info()
        .await
        .map(|_| ())
        .and(environment.files().metadata("/").await.map(|_| ()));
    assert!(error.is_err());
    assert!(session.failure().is_some());
}

#[tokio::test]
async fn a11_the_end_of_a_program_loses_its_processes_and_refuses_new_ones() {
    let program = mainstay::Program {
        program: "sh".into(),
        args: vec![
            "-c".into(),
            concat!(
                r#"read a; echo '{"id":1,"result":{"sessionId":"s","environmentInfo":{"shell":{"name":"sh","path":"/bin/sh"},"cwd":"file:///"}}}';"#,
                r#"read b; read c; echo '{"id":2,"result":{"processId":"p"}}';"#,
                r#"read d"#
            )
            .into(),
        ],
        env: Vec::new(),
        cwd: None,
    };
    let environment = Environment::builder()
        .program(program)
        .spawn()
        .await
        .unwrap();
    let mut process = environment
        .exec(Command::new("x").process_id("p"))
        .await
        .unwrap();
    let mut events = process.events();
    let waiting = tokio::spawn(async move { events.next().await });
    // One more line makes the program exit.
    let _ = process.signal(mainstay::Signal::Interrupt).await;
    let Some(ProcessEvent::Lost(error)) = waiting.await.unwrap() else {
        panic!()
    };
    let generic = "exec-server transport disconnected";
    assert!(error.to_string().contains(generic), "{error}");
    assert!(matches!(process.wait().await, Exit::Lost(_)));
    let read = process.read_log(0, None, Duration::ZERO).await.unwrap();
    assert!(read.closed && read.exited && read.chunks.is_empty());
    assert!(read.failure.unwrap().contains(generic));
    let refused = environment.exec(Command::new("y")).await.unwrap_err();
    assert!(
        matches!(refused.kind().root(), ErrorKind::Disconnected { .. }),
        "{refused}"
    );
    assert_eq!(environment.state(), ConnState::Disconnected);
}

#[tokio::test]
async fn a2_a_missing_program_fails_every_caller_with_the_same_error() {
    let program = mainstay::Program {
        program: "/no/such/program".into(),
        args: vec![],
        env: vec![],
        cwd: None,
    };
    let environment = Environment::builder()
        .program(program)
        .spawn()
        .await
        .unwrap();
    environment.start_connecting();
    assert!(
        !environment.snapshot().await.unwrap().startup_finished,
        "it stays lazy"
    );
    let first = environment.session().await.unwrap_err();
    let second = environment.session().await.unwrap_err();
    assert_eq!(first, second);
    assert!(matches!(first.kind().root(), ErrorKind::Spawn { .. }));
    let snapshot = environment.snapshot().await.unwrap();
    assert!(snapshot.startup_finished);
    assert_eq!(snapshot.state, ConnState::Disconnected);
}

#[tokio::test]
async fn a_dropped_environment_closes_its_link() {
    let (environment, session, mut peer) = Peer::session(json!({})).await;
    drop(environment);
    assert!(peer.next().await.is_none());
    assert!(session.failure().is_some());
}

#[tokio::test]
async fn a_session_is_taken_over_only_where_the_executor_announced_it() {
    for announced in [false, true] {
        let (environment, _session, peer) =
            Peer::session(json!({"mainstayTakeOver": announced})).await;
        drop(peer);
        let mut peer = Peer::replacement(&environment).await;
        let asked = peer.expect("initialize").await;
        assert_eq!(asked.params["resumeSessionId"], "session-1");
        assert_eq!(
            asked.params["mainstay"]["takeOver"]
                .as_bool()
                .unwrap_or(false),
            announced
        );
    }
}
