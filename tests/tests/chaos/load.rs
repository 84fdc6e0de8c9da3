//! The load: workers that each check their own results, byte for byte, until they are told to stop.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mainstay::{Command, Environment, Error, Exit, OutputStream, Process, Session};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::ledger::{Ledger, Told};

/// Numbers that one process prints: about 200 kB.
const NUMBERS: u64 = 30_000;
/// Lines written at once to the program that echoes.
const BATCH: usize = 20;
const CALLERS: usize = 3;

/// Whether a process may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Losses {
    Never,
    /// With its session, and only then.
    WithTheSession,
}

/// What all workers share.
#[derive(Clone, Debug)]
struct Worker {
    environment: Environment,
    losses: Losses,
    stop: watch::Receiver<bool>,
    folder: Arc<TempDir>,
    progress: Arc<watch::Sender<Progress>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    bytes: u64,
    calls: u64,
    processes: u64,
    lost: u64,
}

/// The running load.
pub(crate) struct Load {
    stop: watch::Sender<bool>,
    progress: Arc<watch::Sender<Progress>>,
    outputs: Vec<JoinHandle<()>>,
    mutations: Vec<JoinHandle<(usize, usize)>>,
    callers: Vec<JoinHandle<Vec<Duration>>>,
}

/// What the load did.
#[derive(Debug)]
pub(crate) struct Report {
    progress: Progress,
    done: usize,
    unknown: usize,
    /// From the last answer of a session to the first answer of the next.
    pub(crate) changes: Vec<Duration>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Progress {
            bytes,
            calls,
            processes,
            lost,
        } = self.progress;
        write!(
            f,
            "{processes} processes ({lost} lost with their sessions), {bytes} bytes, {calls} calls, {} mutations done and {} unknown",
            self.done, self.unknown
        )
    }
}

impl Load {
    pub(crate) fn start(environment: &Environment, losses: Losses) -> Self {
        let (stop, stopped) = watch::channel(false);
        let progress = Arc::new(watch::Sender::new(Progress::default()));
        let worker = Worker {
            environment: environment.clone(),
            losses,
            stop: stopped,
            folder: Arc::new(tempfile::tempdir().unwrap()),
            progress: progress.clone(),
        };
        let outputs = vec![
            tokio::spawn(worker.clone().numbers(0)),
            tokio::spawn(worker.clone().numbers(1)),
            tokio::spawn(worker.clone().echoes()),
        ];
        let mutations = vec![
            tokio::spawn(worker.clone().appended()),
            tokio::spawn(worker.clone().directories()),
        ];
        let callers = (0..CALLERS)
            .map(|_| tokio::spawn(worker.clone().calls()))
            .collect();
        Self {
            stop,
            progress,
            outputs,
            mutations,
            callers,
        }
    }

    /// Waits until output and answers come.
    pub(crate) async fn under_way(&self) {
        let _ = self
            .progress
            .subscribe()
            .wait_for(|progress| progress.bytes > 0 && progress.calls > 0)
            .await;
    }

    /// Tells the workers to stop, and waits for the last of them.
    pub(crate) async fn finish(self) -> Report {
        self.stop.send_replace(true);
        for output in self.outputs {
            output.await.unwrap();
        }
        let (mut done, mut unknown) = (0, 0);
        for mutation in self.mutations {
            let counted = mutation.await.unwrap();
            done += counted.0;
            unknown += counted.1;
        }
        let mut changes = Vec::new();
        for caller in self.callers {
            changes = caller.await.unwrap();
        }
        let progress = *self.progress.borrow();
        Report {
            progress,
            done,
            unknown,
            changes,
        }
    }
}

/// One call on the current session; returns who answered.
pub(crate) async fn call(environment: &Environment) -> Result<Session, Error> {
    let session = environment.session().await?;
    let retired = session.is_retired();
    session.ask_info().await?;
    assert!(!retired, "a retired session answered");
    Ok(session)
}

/// Process ids that each session sees again, so that what an old session's process says would be taken for a new one's.
#[derive(Debug, Default)]
struct Ids {
    session: Option<Session>,
    used: u64,
}

impl Ids {
    async fn next(&mut self, environment: &Environment, worker: &str) -> Result<String, Error> {
        let session = environment.session().await?;
        if !self
            .session
            .as_ref()
            .is_some_and(|known| known.is_same(&session))
        {
            *self = Self {
                session: Some(session),
                used: 0,
            };
        }
        self.used += 1;
        Ok(format!("{worker}-{}", self.used))
    }
}

/// Reads until `expected` is there or the stream ends. What comes must be its beginning; returns how much came.
async fn expect(stdout: &mut OutputStream, expected: &[u8], worker: &Worker) -> usize {
    let mut at = 0;
    while at < expected.len() {
        let Ok(Some(chunk)) = stdout.chunk().await else {
            break;
        };
        assert!(expected[at..].starts_with(&chunk), "other output at {at}");
        at += chunk.len();
        worker.did(|progress| progress.bytes += chunk.len() as u64);
    }
    at
}

impl Worker {
    fn go_on(&self) -> bool {
        !*self.stop.borrow()
    }

    fn did(&self, what: impl FnOnce(&mut Progress)) {
        self.progress.send_modify(what);
    }

    /// A process is gone without an exit: only together with its session.
    fn lost(&self, session: &Session, why: &dyn fmt::Debug) {
        assert_eq!(self.losses, Losses::WithTheSession, "lost: {why:?}");
        assert!(session.failure().is_some(), "lost: {why:?}");
        self.did(|progress| progress.lost += 1);
    }

    /// Starts `command` under one of the ids of `ids`; `None` if that failed.
    async fn exec(&self, ids: &mut Ids, name: &str, command: Command) -> Option<Process> {
        let id = ids.next(&self.environment, name).await.ok()?;
        match self.environment.exec(command.process_id(id)).await {
            Ok(process) => {
                self.did(|progress| progress.processes += 1);
                Some(process)
            }
            Err(error) => {
                Told::by(&error);
                None
            }
        }
    }

    /// Processes that print numbers nobody else prints.
    async fn numbers(self, number: u64) {
        let mut ids = Ids::default();
        let mut round = number;
        while self.go_on() {
            round += 2;
            let (first, last) = (round * NUMBERS, (round + 1) * NUMBERS - 1);
            let command = Command::new("seq")
                .arg(first.to_string())
                .arg(last.to_string());
            let name = format!("numbers-{number}");
            let Some(mut process) = self.exec(&mut ids, &name, command).await else {
                continue;
            };
            let expected: String = (first..=last).map(|number| format!("{number}\n")).collect();
            drop(process.stderr.take());
            let mut stdout = process.stdout.take().unwrap();
            let came = expect(&mut stdout, expected.as_bytes(), &self).await;
            match process.exited().await {
                Exit::Exited(status) => {
                    // A session may end between the exit and the last output.
                    if came < expected.len() {
                        self.lost(process.session(), &status);
                        continue;
                    }
                    assert_eq!(status.code, 0);
                    if let Ok(Some(more)) = stdout.chunk().await {
                        panic!("{} bytes too many", more.len());
                    }
                }
                Exit::Lost(error) => self.lost(process.session(), &error),
            }
        }
    }

    /// A program that lives as long as its session: what it is given it writes to a file, and says again.
    async fn echoes(self) {
        let mut ids = Ids::default();
        let mut life = 0;
        while self.go_on() {
            life += 1;
            let file = self.folder.path().join(format!("echo-{life}"));
            let command = Command::new("tee").arg(file.to_str().unwrap()).pipe_stdin();
            let Some(process) = self.exec(&mut ids, "echo", command).await else {
                continue;
            };
            self.echo(process, life, &file).await;
        }
    }

    async fn echo(&self, mut process: Process, life: usize, file: &Path) {
        let mut stdin = process.stdin.take().unwrap();
        let mut stdout = process.stdout.take().unwrap();
        let (mut written, mut heard) = (Vec::new(), 0);
        let mut alive = true;
        while alive && self.go_on() {
            let start = written.len();
            for line in 0..BATCH {
                written
                    .extend_from_slice(format!("life {life} at {start} line {line}\n").as_bytes());
            }
            let batch = &written[start..];
            let fed = async {
                stdin.write_all(batch).await?;
                stdin.flush().await
            };
            alive = fed.await.is_ok();
            let came = expect(&mut stdout, batch, self).await;
            heard += came;
            alive &= came == batch.len();
        }
        alive &= stdin.shutdown().await.is_ok();
        match process.wait().await {
            Exit::Exited(status) => {
                assert!(alive, "it ended by itself: {status:?}");
                assert_eq!(status.code, 0);
                assert_eq!(heard, written.len());
                assert!(!matches!(stdout.chunk().await, Ok(Some(_))));
                assert!(std::fs::read(file).unwrap() == written);
            }
            Exit::Lost(error) => {
                self.lost(process.session(), &error);
                let applied = std::fs::read(file).unwrap_or_default();
                assert!(written.starts_with(&applied));
                assert!(applied.len() >= heard);
            }
        }
    }

    /// Starts, each of which appends one line to the counter.
    async fn appended(self) -> (usize, usize) {
        let counter = self.folder.path().join("counter");
        let mut ledger = Ledger::new(&counter);
        let mut number = 0;
        while self.go_on() {
            number += 1;
            let mutation = format!("mutation-{number}");
            let script = format!("echo {mutation} >>{}", counter.display());
            let command = Command::new("sh").arg("-c").arg(script);
            let told = match self.environment.exec(command).await {
                Ok(mut process) => match process.exited().await {
                    Exit::Exited(status) => {
                        assert_eq!(status.code, 0);
                        Told::Done
                    }
                    Exit::Lost(error) => {
                        self.lost(process.session(), &error);
                        Told::Unknown
                    }
                },
                Err(error) => Told::by(&error),
            };
            ledger.note(mutation, told);
        }
        ledger.check()
    }

    /// Directories, each of which can be made once: a second time is refused.
    async fn directories(self) -> (usize, usize) {
        let files = self.environment.files();
        let (mut number, mut done, mut unknown) = (0, 0, 0);
        while self.go_on() {
            number += 1;
            let path = self.folder.path().join(format!("directory-{number}"));
            let told = match files.create_dir(path.to_str().unwrap()).await {
                Ok(()) => Told::Done,
                Err(error) => Told::by(&error),
            };
            match told {
                Told::Done => {
                    assert!(path.is_dir());
                    done += 1;
                }
                Told::NotSent => assert!(!path.exists()),
                Told::Unknown => unknown += 1,
            }
        }
        (done, unknown)
    }

    /// Calls, one after the other; returns the pauses between two sessions.
    async fn calls(self) -> Vec<Duration> {
        let mut changes = Vec::new();
        let mut last: Option<(Session, Instant)> = None;
        while self.go_on() {
            let Ok(session) = call(&self.environment).await else {
                continue;
            };
            self.did(|progress| progress.calls += 1);
            if let Some((_, answered)) = last.as_ref().filter(|(known, _)| !known.is_same(&session))
            {
                changes.push(answered.elapsed());
            }
            last = Some((session, Instant::now()));
        }
        changes
    }
}
