//! Cuts: the command's output arrives complete, once, in order, in bounded memory.

use std::process::Stdio;

use anyhow::{Context, Result};
use mainstay_testkit::{
    fault_proxy::{Counted, FaultProxy, Plan},
    place::Place,
    program::{HANG, peak_memory},
    registry_front::RegistryFront,
    seed::Seed,
};
use sha2::{Digest, Sha256};
use tokio::{io::AsyncReadExt, process::Command};

use crate::BIN;

/// 64 MiB, in KiB.
const MEMORY: u64 = 64 * 1024;

/// 169 MB as text.
const LINES: u64 = 20_000_000;

fn expected(lines: u64) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut text = String::new();
    for line in 1..=lines {
        text.push_str(&line.to_string());
        text.push('\n');
        if text.len() > 60_000 {
            hash.update(&text);
            text.clear();
        }
    }
    hash.update(&text);
    hash.finalize().into()
}

async fn survive(mut run: Command, place: &Place, proxy: &FaultProxy, lines: u64) -> Result<()> {
    let executor = place.executor.as_ref().context("its own")?.pid();
    let mut child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let pid = child.id().context("running")?;
    let mut stdout = child.stdout.take().context("no output")?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let (mut length, mut ours, mut theirs) = (0, 0, 0);
    let reading = async {
        loop {
            let read = stdout.read(&mut buffer).await?;
            if read == 0 {
                return anyhow::Ok(());
            }
            hash.update(&buffer[..read]);
            if length / (1 << 22) != (length + read) / (1 << 22) {
                ours = ours.max(peak_memory(pid, "mainstay"));
                theirs = theirs.max(peak_memory(executor, "mainstay"));
            }
            length += read;
        }
    };
    let read = tokio::time::timeout(HANG, reading).await;
    let mut errors = String::new();
    if read.is_ok() {
        child
            .stderr
            .as_mut()
            .context("no errors")?
            .read_to_string(&mut errors)
            .await?;
    }
    read.context("hangs")??;
    assert_eq!((child.wait().await?.code(), errors.as_str()), (Some(0), ""));
    let counters = proxy.counters();
    eprintln!(
        "{}: {length} bytes, {counters:?}, client {ours} KiB, executor {theirs} KiB",
        place.name
    );
    assert!(counters.cut >= length as u64 / 8_000_000, "{counters:?}");
    assert!(
        <[u8; 32]>::from(hash.finalize()) == expected(lines),
        "{length} bytes, not the right ones"
    );
    assert!(
        ours < MEMORY && theirs < MEMORY,
        "client {ours} KiB, executor {theirs} KiB"
    );
    Ok(())
}

fn plan() -> Plan {
    Plan::cut_after_bytes(Counted::Down, 2_000_000..=4_000_000)
}

#[tokio::test]
async fn a_long_output_over_a_cut_every_three_megabytes_direct() -> Result<()> {
    let place = Place::direct(BIN).await?;
    let proxy = FaultProxy::start(place.executor_addr()?, plan(), Seed::from_env(1)).await?;
    let run = Place::at(BIN, &proxy.url("ws")).run(&["--", "seq", "1", &LINES.to_string()]);
    survive(run, &place, &proxy, LINES).await
}

#[tokio::test]
async fn a_long_output_over_a_cut_every_three_megabytes_relayed() -> Result<()> {
    let place = Place::separate(BIN).await?;
    let registry = place.registry.as_ref().context("its own")?.addr()?;
    let proxy = FaultProxy::start(registry, plan(), Seed::from_env(2)).await?;
    let front = RegistryFront::start(registry).await?;
    front.set_relay(Some(proxy.addr()));
    let mut run = place.run(&["--", "seq", "1", &LINES.to_string()]);
    run.env("MAINSTAY_REGISTRY", front.url());
    survive(run, &place, &proxy, LINES).await
}
