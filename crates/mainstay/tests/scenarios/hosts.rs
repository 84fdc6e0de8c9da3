//! Hosts that live in ractor themselves, and a host that insists.

use mainstay::{
    Builder, ConnState, Environment, Error, Mode, Readiness, Session, SupervisorRequest,
};
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use crate::script::Peer;

/// An actor of the host's that owns an environment and never waits for it.
struct Host;

enum Message {
    Connect,
    Connected(Result<Session, Error>),
}

/// What the host tells the test.
#[derive(Debug, PartialEq)]
enum Told {
    Session(String),
    EnvironmentEnded,
}

struct State {
    environment: Environment,
    told: mpsc::UnboundedSender<Told>,
}

impl Actor for Host {
    type Msg = Message;
    type State = State;
    type Arguments = (
        Builder,
        oneshot::Sender<Environment>,
        mpsc::UnboundedSender<Told>,
    );

    async fn pre_start(
        &self,
        myself: ActorRef<Message>,
        (builder, started, told): Self::Arguments,
    ) -> Result<State, ActorProcessingErr> {
        let environment = builder.spawn_linked(myself.get_cell()).await?;
        let _ = started.send(environment.clone());
        Ok(State { environment, told })
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Connect => {
                let (reply, session) = oneshot::channel();
                let supervisor = state.environment.supervisor();
                supervisor.cast(SupervisorRequest::Acquire(Mode::Wait, reply.into()))?;
                tokio::spawn(
                    async move { myself.cast(Message::Connected(session.await.unwrap())) },
                );
            }
            Message::Connected(session) => {
                let session = session?;
                state.told.send(Told::Session(session.id().to_owned()))?;
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Message>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorTerminated(cell, _, _) = event
            && cell.get_id() == state.environment.supervisor().get_id()
        {
            state.told.send(Told::EnvironmentEnded)?;
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_host_in_ractor_links_and_messages_the_supervisor_like_an_actor_of_its_own() {
    let (near, mut peer) = Peer::pair().await;
    let (started, environment) = oneshot::channel();
    let (told, mut telling) = mpsc::unbounded_channel();
    let arguments = (Environment::builder().socket(near), started, told);
    let (host, _) = Actor::spawn(None, Host, arguments).await.unwrap();
    let environment = environment.await.unwrap();
    host.cast(Message::Connect).unwrap();
    peer.initialize("session-1", json!({})).await;
    assert_eq!(
        telling.recv().await,
        Some(Told::Session("session-1".into()))
    );

    let supervisor = environment.supervisor();
    let snapshot = ractor::call_t!(supervisor, SupervisorRequest::Snapshot, 5_000).unwrap();
    assert_eq!(snapshot.readiness, Readiness::Ready);
    let state = ractor::call_t!(supervisor, SupervisorRequest::Subscribe, 5_000).unwrap();
    assert_eq!(*state.borrow(), ConnState::Connected);
    let session = ractor::call_t!(
        supervisor,
        SupervisorRequest::Acquire,
        5_000,
        Mode::FailFast
    )
    .unwrap()
    .unwrap();
    // The closed mark is set here and now; the Reader has not reported it yet.
    session.disconnect_for_test();
    let refused = ractor::call_t!(
        supervisor,
        SupervisorRequest::Acquire,
        5_000,
        Mode::FailFast
    );
    assert!(refused.unwrap().is_err());
    let refused = ractor::call_t!(supervisor, SupervisorRequest::Refresh, 5_000).unwrap();
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("needs a registry")
    );

    ractor::call_t!(supervisor, SupervisorRequest::Shutdown, 5_000).unwrap();
    assert_eq!(telling.recv().await, Some(Told::EnvironmentEnded));
    assert!(environment.snapshot().await.is_err());
    host.kill();
}

#[tokio::test]
async fn a_host_that_insists_does_not_keep_its_only_thread_from_recovering() {
    let (environment, session, peer) = Peer::session(json!({})).await;
    drop(peer);
    session.disconnect_for_test();
    let resuming = tokio::spawn(async move {
        let mut peer = Peer::resume(&environment).await;
        let asked = peer.expect("environment/status").await;
        peer.answer(&asked.id, json!({"status": "ready"})).await;
        (environment, peer)
    });
    while session.status().await.is_err() {}
    resuming.await.unwrap();
}
