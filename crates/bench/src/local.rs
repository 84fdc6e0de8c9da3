//! The same work without Mainstay: the shape of a call, a child process of our own, its pipe.

use std::{process::Stdio, time::Instant};

use anyhow::{Context, Result};
use tokio::{io::AsyncReadExt, process::Command};

use crate::{shape::Shape, stats::Samples};

/// Microseconds of one round trip of the bare task shape.
pub(crate) async fn round_trips(count: usize) -> Result<Samples> {
    let shape = Shape::start().await?;
    let mut samples = Samples::default();
    for round in 0..count + count / 10 {
        let start = Instant::now();
        shape.round_trip(round as u64).await?;
        if round >= count / 10 {
            samples.push_micros(start.elapsed());
        }
    }
    Ok(samples)
}

/// Microseconds from the start of `true`, both outputs piped, to its exit and their ends.
pub(crate) async fn short_commands(count: usize) -> Result<Samples> {
    let mut samples = Samples::default();
    for _ in 0..count {
        let start = Instant::now();
        Command::new("true").stdin(Stdio::null()).output().await?;
        samples.push_micros(start.elapsed());
    }
    Ok(samples)
}

/// Megabytes per second through a pipe.
pub(crate) async fn throughput(bytes: u64, count: usize) -> Result<Samples> {
    let mut samples = Samples::default();
    for _ in 0..count {
        let start = Instant::now();
        let mut child = Command::new("head")
            .args(["-c", &bytes.to_string(), "/dev/zero"])
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()?;
        let mut stdout = child.stdout.take().context("no output")?;
        let mut buffer = vec![0; 64 * 1024];
        let mut received = 0;
        loop {
            match stdout.read(&mut buffer).await? {
                0 => break,
                read => received += read as u64,
            }
        }
        child.wait().await?;
        anyhow::ensure!(received == bytes, "{received} of {bytes} bytes");
        samples.push(bytes as f64 / 1e6 / start.elapsed().as_secs_f64());
    }
    Ok(samples)
}
