//! Many sessions with many processes, some of whose readers do not read: everyone else goes on, memory stays within
//! the limits, and everything is given back.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use mainstay::{Command, Environment, Exit, OutputStream, Process, Session, Stdin};
use mainstay_executor::{Config, Executor};
use mainstay_testkit::program::HANG;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::gauge::{
    Held, LOG, alone, forget_peak, full, peak, percentiles, resident, written_below,
};

/// Sessions, processes of each, round trips of each reader who reads.
fn size() -> (usize, usize, usize) {
    if full() { (200, 20, 20) } else { (10, 5, 20) }
}

/// What one stalled process may hold: the executor's log and the client's window, in KiB.
const STALLED: u64 = (4 + 2) * 1024;
/// What one session may hold besides, in KiB: two sockets' buffers, queues, actors.
const SESSION: u64 = 1024;
/// What one process may hold besides, in KiB.
const PROCESS: u64 = 128;
/// What a stalled program would write if anyone read it.
const FLOOD: usize = 16 << 20;

/// `cat` and both of its ends.
struct Echo {
    process: Process,
    stdin: Stdin,
    stdout: OutputStream,
}

impl Echo {
    async fn start(environment: &Environment) -> Result<Self> {
        let mut process = environment.exec(Command::new("cat").pipe_stdin()).await?;
        drop(process.stderr.take());
        Ok(Self {
            stdin: process.stdin.take().context("stdin")?,
            stdout: process.stdout.take().context("stdout")?,
            process,
        })
    }

    async fn round_trips(&mut self, count: usize) -> Result<Vec<Duration>> {
        let mut all = Vec::with_capacity(count);
        for number in 0..count {
            let line = format!("{} {number}\n", self.process.id());
            let mut back = vec![0; line.len()];
            let begin = Instant::now();
            self.stdin.write_all(line.as_bytes()).await?;
            self.stdout.read_exact(&mut back).await?;
            all.push(begin.elapsed());
            ensure!(back == line.as_bytes(), "another line came back");
        }
        Ok(all)
    }

    async fn end(self) -> Result<()> {
        let Self {
            mut process,
            stdin,
            mut stdout,
        } = self;
        drop(stdin);
        ensure!(stdout.chunk().await?.is_none());
        let exit = process.wait().await;
        ensure!(
            matches!(&exit, Exit::Exited(status) if status.code == 0),
            "{exit:?}"
        );
        Ok(())
    }
}

/// One session.
struct Seat {
    environment: Environment,
    session: Session,
    echoes: Vec<Echo>,
    stalled: Vec<Process>,
    to_stall: usize,
}

impl Seat {
    async fn take(url: &str, seat: usize, processes: usize) -> Result<Self> {
        let environment = Environment::builder().url(url).spawn().await?;
        // One in twenty, spread over the sessions.
        let stalls = |number: &usize| (seat * processes + seat + number).is_multiple_of(20);
        let to_stall = (0..processes).filter(stalls).count();
        let mut echoes = Vec::new();
        for _ in to_stall..processes {
            echoes.push(Echo::start(&environment).await?);
        }
        Ok(Self {
            session: environment.session().await?,
            environment,
            echoes,
            stalled: Vec::new(),
            to_stall,
        })
    }

    /// Starts those nobody reads.
    async fn stall(&mut self) -> Result<()> {
        for _ in 0..self.to_stall {
            self.stalled.push(self.environment.exec(flood()).await?);
        }
        Ok(())
    }

    /// Ends all who read at once, then reads the first stalled process of a session to its end; the rest is ended with
    /// the session.
    async fn leave(mut self) -> Result<()> {
        try_join_all(self.echoes.into_iter().map(Echo::end)).await?;
        if let Some(process) = self.stalled.pop() {
            read_late(process).await?;
        }
        self.session.end().await?;
        self.environment.shutdown().await;
        Ok(())
    }
}

/// A program to stall.
fn flood() -> Command {
    Command::new("head").args(["-c", &FLOOD.to_string(), "/dev/zero"])
}

/// Reads a stalled program to its end and keeps nothing of it.
async fn read_late(mut process: Process) -> Result<()> {
    let mut stdout = process.stdout.take().context("stdout")?;
    let mut bytes = 0;
    while let Some(chunk) = stdout.chunk().await? {
        bytes += chunk.len();
    }
    ensure!(bytes == FLOOD, "{bytes} bytes");
    let exit = process.wait().await;
    ensure!(
        matches!(&exit, Exit::Exited(status) if status.code == 0),
        "{exit:?}"
    );
    Ok(())
}

/// Waits until as many programs have filled their logs.
async fn until_stalled(count: usize) -> Result<()> {
    let begin = Instant::now();
    loop {
        let written = written_below(std::process::id(), "head");
        if written.iter().filter(|bytes| **bytes >= LOG).count() == count {
            return Ok(());
        }
        ensure!(begin.elapsed() < HANG, "{written:?}");
        tokio::task::yield_now().await;
    }
}

async fn all_round_trips(seats: &mut [Seat], count: usize) -> Result<Vec<Duration>> {
    let echoes = seats.iter_mut().flat_map(|seat| &mut seat.echoes);
    let all = try_join_all(echoes.map(|echo| echo.round_trips(count))).await?;
    Ok(all.concat())
}

/// Everything from the first start to the last end, above `memory` at most by what the limits allow.
async fn act(url: &str, before: Held, memory: u64) -> Result<()> {
    let (sessions, processes, rounds) = size();
    let own = std::process::id();
    forget_peak()?;
    let begin = Instant::now();
    let takes = (0..sessions).map(|seat| Seat::take(url, seat, processes));
    let mut seats = try_join_all(takes).await?;
    let started = begin.elapsed();
    let unloaded = all_round_trips(&mut seats, rounds).await?;
    let idle = peak(own).saturating_sub(memory);
    try_join_all(seats.iter_mut().map(Seat::stall)).await?;
    let stalled: usize = seats.iter().map(|seat| seat.stalled.len()).sum();
    ensure!(stalled > 0);
    until_stalled(stalled).await?;
    let loaded = all_round_trips(&mut seats, rounds).await?;
    let held = Held::here();
    ensure!(
        held.children == before.children + sessions * processes,
        "{held:?}"
    );

    try_join_all(seats.into_iter().map(Seat::leave)).await?;
    let back = before.is_back(Held::here).await?;
    eprintln!(
        "{sessions} sessions x {processes} processes, {stalled} stalled, started in {started:.1?}; {before:?} became \
         {held:?} and was back {back:.1?} after the last end"
    );
    eprintln!(
        "round trips without stalled readers: {}",
        percentiles(unloaded)
    );
    eprintln!(
        "round trips beside stalled readers: {}",
        percentiles(loaded)
    );
    let grown = peak(own).saturating_sub(memory);
    let limit = stalled as u64 * STALLED
        + sessions as u64 * SESSION
        + (sessions * processes) as u64 * PROCESS;
    eprintln!(
        "memory of both sides grew by {idle} KiB, with stalled readers by {grown} KiB of {limit} at most; the allocator \
         kept {} KiB",
        resident(own).saturating_sub(memory)
    );
    ensure!(grown < limit, "{grown} KiB of {limit}");
    Ok(())
}

async fn scenario() -> Result<()> {
    let executor = Executor::start(Config::default()).await?;
    let url = executor.listen("127.0.0.1:0".parse()?).await?;
    // What the first session of a process opens for good is opened here; tasks it leaves none.
    let tasks = Held::here().tasks;
    Seat::take(&url, 0, 1).await?.leave().await?;
    let quiet = Held {
        tasks,
        ..Held::here()
    };
    quiet.is_back(Held::here).await?;
    let before = Held {
        tasks,
        ..Held::here()
    };
    let memory = resident(std::process::id());
    // Twice: the allocator keeps what it once had, but what is lost would come on top of it.
    act(&url, before, memory).await?;
    act(&url, before, memory).await?;
    executor.shutdown(Duration::from_secs(1)).await;
    Ok(())
}

#[test]
fn stalled_readers_hold_nobody_up_and_everything_is_given_back() -> Result<()> {
    alone(scenario())
}

/// More programs of one session than its connection has places for events.
const TOGETHER: usize = 24;

async fn all_of_one_session() -> Result<()> {
    let executor = Executor::start(Config::default()).await?;
    let url = executor.listen("127.0.0.1:0".parse()?).await?;
    let environment = Environment::builder().url(&url).spawn().await?;
    let starts = (0..TOGETHER).map(|_| environment.exec(flood()));
    let stalled = try_join_all(starts).await?;
    until_stalled(TOGETHER).await?;
    let reads = try_join_all(stalled.into_iter().map(read_late));
    tokio::time::timeout(HANG, reads).await.context("hangs")??;
    environment.session().await?.end().await?;
    environment.shutdown().await;
    executor.shutdown(Duration::from_secs(1)).await;
    Ok(())
}

#[test]
fn readers_of_one_session_who_all_stalled_all_get_everything() -> Result<()> {
    alone(all_of_one_session())
}
