//! Many at a time: short commands eight at a time, and readers beside one who does not read.

use std::{process::Stdio, time::Instant};

use anyhow::{Context, Result, ensure};
use futures_util::{StreamExt, TryStreamExt, future::try_join_all, stream};
use mainstay::{Command, Environment, Exit, OutputStream, Process, Stdin};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    Amount, far,
    stats::Samples,
    table::{Row, Table},
};

/// Commands under way at a time.
const AT_A_TIME: usize = 8;

/// Processes of one session, one of them stalled: 5 %.
const PROCESSES: usize = 20;

/// More than executor and client hold of a program that nobody reads: 4 MiB of log and a window of 2 MiB.
const FLOOD: &str = "16777216";

/// Short commands by the way they take, and readers by their neighbour.
pub(crate) async fn run(amount: Amount) -> Result<(Table<1>, Table<2>)> {
    let (_direct, direct) = far::direct().await?;
    let (_relayed, _registry, relayed) = far::relayed().await?;
    let mut crowd = Table::new([Row {
        name: "`echo`, ms",
        digits: 1,
        tail: Some(99.9),
    }]);
    let reader = |name| Row {
        name,
        digits: 0,
        tail: Some(99.0),
    };
    let mut readers = Table::new([reader("direct, µs"), reader("relay + Noise, µs")]);
    for round in 1..=amount.rounds {
        crowd.add("without Mainstay", [local_commands(amount.crowd).await?]);
        crowd.add("direct", [commands(&direct, amount.crowd).await?]);
        crowd.add("relay + Noise", [commands(&relayed, amount.crowd).await?]);
        let near = beside_a_stalled_reader(&direct, amount.turns).await?;
        let far = beside_a_stalled_reader(&relayed, amount.turns).await?;
        readers.add("alone", [near.alone, far.alone]);
        readers.add("beside a stalled reader", [near.beside, far.beside]);
        eprintln!("round {round} of {}, many at a time", amount.rounds);
    }
    direct.shutdown().await;
    relayed.shutdown().await;
    Ok((crowd, readers))
}

/// Milliseconds from the start of `echo` to all of its output, the right one, and its end; eight at a time.
async fn commands(environment: &Environment, count: usize) -> Result<Samples> {
    let echo = async |number: usize| {
        let start = Instant::now();
        let command = Command::new("echo").arg(number.to_string());
        let output = environment.exec(command).await?.wait_with_output().await?;
        let took = start.elapsed();
        ensure!(output.stdout == format!("{number}\n"), "{output:?}");
        Ok(took)
    };
    gather(stream::iter(0..count).map(echo)).await
}

/// The same as children of this process.
async fn local_commands(count: usize) -> Result<Samples> {
    let echo = async |number: usize| {
        let start = Instant::now();
        let mut command = tokio::process::Command::new("echo");
        let output = command
            .arg(number.to_string())
            .stdin(Stdio::null())
            .output()
            .await?;
        let took = start.elapsed();
        ensure!(
            output.stdout == format!("{number}\n").as_bytes(),
            "{output:?}"
        );
        Ok(took)
    };
    gather(stream::iter(0..count).map(echo)).await
}

async fn gather<F>(commands: impl futures_util::Stream<Item = F>) -> Result<Samples>
where
    F: Future<Output = Result<std::time::Duration>>,
{
    let mut samples = Samples::default();
    let mut all = std::pin::pin!(commands.buffer_unordered(AT_A_TIME));
    while let Some(took) = all.try_next().await? {
        samples.push(took.as_secs_f64() * 1e3);
    }
    Ok(samples)
}

/// A line through `cat` and back.
#[derive(Debug)]
struct Echo {
    _process: Process,
    stdin: Stdin,
    stdout: OutputStream,
}

impl Echo {
    async fn start(environment: &Environment) -> Result<Self> {
        let mut process = environment.exec(Command::new("cat").pipe_stdin()).await?;
        Ok(Self {
            stdin: process.stdin.take().context("stdin")?,
            stdout: process.stdout.take().context("stdout")?,
            _process: process,
        })
    }

    async fn round_trip(&mut self, line: &[u8]) -> Result<()> {
        self.stdin.write_all(line).await?;
        let mut back = vec![0; line.len()];
        self.stdout.read_exact(&mut back).await?;
        ensure!(back == line, "another line came back");
        Ok(())
    }
}

/// Microseconds of a line through `cat` and back, for nineteen readers who take turns.
struct Readers {
    alone: Samples,
    /// Beside a program whose output nobody reads.
    beside: Samples,
}

async fn beside_a_stalled_reader(environment: &Environment, rounds: usize) -> Result<Readers> {
    let starts = (1..PROCESSES).map(|_| Echo::start(environment));
    let mut echoes = try_join_all(starts).await?;
    let alone = turns(&mut echoes, rounds).await?;
    let flood = Command::new("head").args(["-c", FLOOD, "/dev/zero"]);
    let mut stalled = environment.exec(flood).await?;
    until_stalled(&stalled).await?;
    let beside = turns(&mut echoes, rounds).await?;
    for echo in &mut echoes {
        echo.stdin.shutdown().await?;
    }
    // Read at last, it ends.
    drop((stalled.stdout.take(), stalled.stderr.take()));
    let exit = stalled.wait().await;
    ensure!(
        matches!(&exit, Exit::Exited(status) if status.code == 0),
        "{exit:?}"
    );
    Ok(Readers { alone, beside })
}

async fn turns(echoes: &mut [Echo], rounds: usize) -> Result<Samples> {
    let mut samples = Samples::default();
    // The first tenth warms up.
    for round in 0..rounds + rounds / 10 {
        for echo in &mut *echoes {
            let start = Instant::now();
            echo.round_trip(b"a line\n").await?;
            if round >= rounds / 10 {
                samples.push_micros(start.elapsed());
            }
        }
    }
    Ok(samples)
}

/// Waits until the executor's log of a program grows no more: the window is used up and the program stands still.
async fn until_stalled(process: &Process) -> Result<()> {
    let end = async || -> Result<u64> {
        let answer = process
            .read_log(u64::MAX - 1, Some(1), std::time::Duration::ZERO)
            .await?;
        Ok(answer.next_seq)
    };
    let mut before = 0;
    let mut same = 0;
    while same < 100 {
        let now = end().await?;
        same = if now == before && now > 1 {
            same + 1
        } else {
            0
        };
        before = now;
    }
    Ok(())
}
