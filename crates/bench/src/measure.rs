//! The three questions, asked of any environment.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use futures_util::StreamExt;
use mainstay::{Command, Environment, Exit, ProcessEvent};

use crate::stats::Samples;

/// Microseconds of one small call on an open link: `environment/status`.
pub(crate) async fn round_trips(environment: &Environment, count: usize) -> Result<Samples> {
    let session = environment.session().await?;
    let mut samples = Samples::default();
    for round in 0..count + count / 10 {
        let start = Instant::now();
        session.status().await?;
        // The first tenth warms up.
        if round >= count / 10 {
            samples.push_micros(start.elapsed());
        }
    }
    Ok(samples)
}

/// Microseconds from the start of `true` to its `closed`.
pub(crate) async fn short_commands(environment: &Environment, count: usize) -> Result<Samples> {
    let mut samples = Samples::default();
    for _ in 0..count {
        let start = Instant::now();
        let mut process = environment.exec(Command::new("true")).await?;
        match process.wait().await {
            Exit::Exited(status) if status.code == 0 => samples.push_micros(start.elapsed()),
            other => bail!("true ended as {other:?}"),
        }
    }
    Ok(samples)
}

/// Megabytes per second of a program's output.
pub(crate) async fn throughput(
    environment: &Environment,
    bytes: u64,
    count: usize,
) -> Result<Samples> {
    let mut samples = Samples::default();
    for _ in 0..count {
        let start = Instant::now();
        let command = Command::new("head")
            .arg("-c")
            .arg(bytes.to_string())
            .arg("/dev/zero");
        let mut process = environment.exec(command).await?;
        let mut events = process.events();
        let mut received = 0;
        loop {
            match events.next().await.context("no more events")? {
                ProcessEvent::Output { bytes, .. } => received += bytes.len() as u64,
                ProcessEvent::Exited(_) => {}
                ProcessEvent::Closed => break,
                other @ (ProcessEvent::Gap { .. } | ProcessEvent::Lost(_)) => bail!("{other:?}"),
            }
        }
        anyhow::ensure!(received == bytes, "{received} of {bytes} bytes");
        samples.push(bytes as f64 / 1e6 / start.elapsed().as_secs_f64());
    }
    Ok(samples)
}
