//! `mainstay run -- seq … | (sleep …; sha256sum)`: the right sum, in bounded memory on both sides.

use std::{process::Stdio, time::Instant};

use anyhow::{Context, Result, ensure};
use mainstay_testkit::{
    place::Place,
    program::{HANG, peak_memory},
};
use sha2::{Digest, Sha256};
use tokio::{io::AsyncReadExt, process::Command};

use crate::{
    BIN,
    gauge::{LOG, alone, full, written_below},
};

/// 64 MiB, in KiB.
const MEMORY: u64 = 64 * 1024;

/// 439 MB or 17 MB as text.
fn last() -> u64 {
    if full() { 50_000_000 } else { 2_200_000 }
}

async fn expected(last: u64) -> Result<String> {
    let script = format!("seq 1 {last} | sha256sum");
    let output = Command::new("sh").args(["-c", &script]).output().await?;
    let text = String::from_utf8(output.stdout)?;
    Ok(text.split(' ').next().unwrap_or_default().to_owned())
}

/// What `seq` below this executor has written; none before it runs.
fn written(executor: u32) -> Option<u64> {
    written_below(executor, "seq").first().copied()
}

/// The consumer's pause: until the program has filled the log or, at full size, for the 90 s of the report.
async fn pause(executor: u32) -> Result<()> {
    let begin = Instant::now();
    while written(executor).is_none_or(|bytes| bytes < LOG) {
        ensure!(begin.elapsed() < HANG, "wrote {:?}", written(executor));
        tokio::task::yield_now().await;
    }
    if full() {
        Command::new("sleep").arg("90").status().await?;
    }
    Ok(())
}

async fn slow(place: &Place) -> Result<()> {
    let last = last();
    let executor = place.executor.as_ref().context("its own")?.pid();
    let mut run = place.run(&["--", "seq", "1", &last.to_string()]);
    let mut child = run.stdout(Stdio::piped()).spawn()?;
    let client = child.id().context("running")?;
    let mut stdout = child.stdout.take().context("no output")?;
    pause(executor).await?;
    let behind = written(executor).context("it ended although nobody reads")?;
    let (mut length, mut ours, mut theirs) = (0, 0, 0);
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let begin = Instant::now();
    loop {
        if length / (1 << 22) != (length + buffer.len()) / (1 << 22) || length == 0 {
            ours = ours.max(peak_memory(client, "mainstay"));
            theirs = theirs.max(peak_memory(executor, "mainstay"));
        }
        let read = tokio::time::timeout(HANG, stdout.read(&mut buffer))
            .await
            .context("hangs")??;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
        length += read;
    }
    let code = child.wait().await?.code();
    eprintln!(
        "{}: {length} bytes in {:.1?} after a pause with {behind} written; client {ours} KiB, executor {theirs} KiB",
        place.name,
        begin.elapsed()
    );
    ensure!(code == Some(0), "{code:?}");
    let sum: String = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    ensure!(
        sum == expected(last).await?,
        "{length} bytes, not the right ones"
    );
    ensure!(
        behind < 16 << 20,
        "{behind} bytes written although nobody reads"
    );
    ensure!(0 < ours && ours < MEMORY, "client {ours} KiB");
    ensure!(0 < theirs && theirs < MEMORY, "executor {theirs} KiB");
    Ok(())
}

#[test]
fn a_consumer_who_sleeps_first_gets_everything_direct() -> Result<()> {
    alone(async { slow(&Place::direct(BIN).await?).await })
}

#[test]
fn a_consumer_who_sleeps_first_gets_everything_relayed() -> Result<()> {
    alone(async { slow(&Place::separate(BIN).await?).await })
}
