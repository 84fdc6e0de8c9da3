//! What the scenarios do again and again: callers in tasks of their own, and what they look at.

use mainstay::{Command, Environment, Error, ErrorKind, Process, Session};
use mainstay_session::Event;
use mainstay_session::ids::{CauseId, Epoch, RecoveryId, Timer};
use mainstay_testkit::frozen_clock::FrozenClock;
use tokio::io::AsyncWriteExt;
use tokio::task::JoinHandle;

/// Runs a scenario while time stands still.
pub(crate) fn frozen<F: Future<Output = ()>>(scenario: impl FnOnce() -> F) {
    FrozenClock::run(|clock| async move {
        scenario().await;
        drop(clock);
    });
}

pub(crate) fn refresh(environment: &Environment) -> JoinHandle<Result<(), Error>> {
    let environment = environment.clone();
    tokio::spawn(async move { environment.refresh().await })
}

pub(crate) fn get(environment: &Environment) -> JoinHandle<Result<Session, Error>> {
    let environment = environment.clone();
    tokio::spawn(async move { environment.session().await })
}

pub(crate) fn ready(environment: &Environment) -> JoinHandle<Result<(), Error>> {
    let environment = environment.clone();
    tokio::spawn(async move { environment.wait_until_ready().await })
}

pub(crate) async fn cat(environment: &Environment) -> Process {
    environment
        .exec(Command::new("cat").pipe_stdin())
        .await
        .unwrap()
}

pub(crate) async fn write_fails(process: &mut Process) {
    let mut stdin = process.stdin.take().unwrap();
    let result = async {
        stdin.write_all(b"x").await?;
        stdin.flush().await
    };
    assert_eq!(
        result.await.unwrap_err().kind(),
        std::io::ErrorKind::BrokenPipe
    );
}

pub(crate) async fn registration(environment: &Environment) -> Option<String> {
    environment.snapshot().await.unwrap().registration
}

pub(crate) fn disconnected(error: &Error) -> bool {
    matches!(error.kind().root(), ErrorKind::Disconnected { .. })
}

/// Late reports of the first link and the first recovery.
pub(crate) fn late_reports(environment: &Environment) {
    for event in [
        Event::LinkDown {
            epoch: Epoch(1),
            cause: CauseId(0),
            restart: false,
        },
        Event::Due(Timer::Retry(RecoveryId(1))),
        Event::Due(Timer::Deadline(RecoveryId(1))),
    ] {
        environment.step_for_test(event);
    }
}
