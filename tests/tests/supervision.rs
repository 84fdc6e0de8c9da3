//! Crashes of our own parts: each is survived as the specification's table says (`session.md` 15.7).

use std::net::{Ipv4Addr, SocketAddr};

use futures_util::StreamExt;
use mainstay::{Command, ConnState, Environment, Exit, HttpRequest, Session};
use mainstay_executor::{Config, Executor};
use mainstay_session::ids::{Child, Epoch, Gen};
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

async fn executor() -> (Executor, String) {
    let executor = Executor::start(Config::default()).await.unwrap();
    let url = executor
        .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        .await
        .unwrap();
    (executor, url)
}

async fn connected() -> (Executor, Environment, Session) {
    let (executor, url) = executor().await;
    let environment = Environment::builder().url(url).spawn().await.unwrap();
    let session = environment.session().await.unwrap();
    (executor, environment, session)
}

/// Echoes one line through a `cat` that was started before.
async fn echo(process: &mut mainstay::Process, line: &str) {
    let (mut stdin, mut stdout) = (
        process.stdin.take().unwrap(),
        process.stdout.take().unwrap(),
    );
    stdin.write_all(line.as_bytes()).await.unwrap();
    let mut echoed = vec![0; line.len()];
    stdout.read_exact(&mut echoed).await.unwrap();
    assert_eq!(echoed, line.as_bytes());
}

#[tokio::test]
async fn a_crashed_reader_or_writer_costs_a_recovery() {
    for child in [Child::Reader(Epoch(1)), Child::Writer(Epoch(1))] {
        let (_executor, environment, session) = connected().await;
        let mut process = environment
            .exec(Command::new("cat").pipe_stdin())
            .await
            .unwrap();
        let mut watch = environment.watch().await.unwrap();
        assert_eq!(*watch.borrow_and_update(), ConnState::Connected);
        environment.kill_for_test(child);
        watch.changed().await.unwrap();
        watch
            .wait_for(|state| *state == ConnState::Connected)
            .await
            .unwrap();
        assert!(environment.session().await.unwrap().is_same(&session));
        echo(&mut process, "still here\n").await;
    }
}

#[tokio::test]
async fn a_crashed_process_table_costs_the_session_and_the_environment_goes_on() {
    let (_executor, environment, session) = connected().await;
    let mut process = environment
        .exec(Command::new("cat").pipe_stdin())
        .await
        .unwrap();
    environment.kill_for_test(Child::ProcessTable(Gen(1)));
    assert!(matches!(process.wait().await, Exit::Lost(_)));
    environment.snapshot().await.unwrap();
    assert!(session.failure().is_some());
    let output = environment
        .exec(Command::new("echo").arg("again"))
        .await
        .unwrap();
    assert_eq!(
        &output.wait_with_output().await.unwrap().stdout[..],
        b"again\n"
    );
    assert!(!environment.session().await.unwrap().is_same(&session));
}

#[tokio::test]
async fn a_crashed_body_table_costs_the_open_streams_only() {
    let (_executor, environment, session) = connected().await;
    // A server that answers its headers and then nothing.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n")
            .await
            .unwrap();
        stream
    });
    let mut stream = environment
        .http_stream(HttpRequest::new("GET", url))
        .await
        .unwrap();
    let _open = server.await.unwrap();
    environment.kill_for_test(Child::BodyTable(Gen(1)));
    assert!(stream.body.next().await.unwrap().is_err());
    assert!(session.failure().is_none());
    session.status().await.unwrap();
}

/// A host that tells the test about its children and lives on.
struct Host;

impl Actor for Host {
    type Msg = ();
    type State = mpsc::UnboundedSender<&'static str>;
    type Arguments = mpsc::UnboundedSender<&'static str>;

    async fn pre_start(
        &self,
        _: ActorRef<()>,
        events: Self::State,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(events)
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<()>,
        event: SupervisionEvent,
        events: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorTerminated(..) => drop(events.send("terminated")),
            SupervisionEvent::ActorFailed(..) => drop(events.send("failed")),
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_host_learns_of_a_crashed_supervisor_and_may_start_another() {
    let (_executor, url) = executor().await;
    let (events, mut events_rx) = mpsc::unbounded_channel();
    let (host, _) = Actor::spawn(None, Host, events).await.unwrap();
    let first = Environment::builder()
        .url(&url)
        .spawn_linked(host.get_cell())
        .await
        .unwrap();
    let session = first.session().await.unwrap();
    let mut process = first.exec(Command::new("cat").pipe_stdin()).await.unwrap();
    first.supervisor().kill();
    assert_eq!(events_rx.recv().await, Some("terminated"));

    for error in [
        session.status().await.unwrap_err(),
        process.terminate().await.unwrap_err(),
        first.session().await.map(|_| ()).unwrap_err(),
        first.snapshot().await.map(|_| ()).unwrap_err(),
    ] {
        assert!(
            error.to_string().contains("supervisor has ended"),
            "{error}"
        );
    }
    assert!(matches!(process.wait().await, Exit::Lost(_)));

    let second = Environment::builder()
        .url(&url)
        .spawn_linked(host.get_cell())
        .await
        .unwrap();
    second.session().await.unwrap().status().await.unwrap();
    second.shutdown().await;
    assert_eq!(events_rx.recv().await, Some("terminated"));
}
