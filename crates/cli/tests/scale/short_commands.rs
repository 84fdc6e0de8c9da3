//! Short commands through the relay, eight at a time: none empty, none wrong, nothing left.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use futures_util::{StreamExt, TryStreamExt, stream};
use mainstay::{Command, Environment, Exit, RegistryConfig};
use mainstay_testkit::{
    place::{ENVIRONMENT, Place},
    program::peak_memory,
};

use crate::{
    BIN,
    gauge::{Held, alone, full, percentiles, resident},
};

fn count() -> usize {
    if full() { 100_000 } else { 500 }
}

async fn echo(environment: &Environment, number: usize) -> Result<std::time::Duration> {
    let begin = Instant::now();
    let process = environment
        .exec(Command::new("echo").arg(number.to_string()))
        .await
        .with_context(|| format!("start {number}"))?;
    let output = process
        .wait_with_output()
        .await
        .with_context(|| format!("end {number}"))?;
    let took = begin.elapsed();
    ensure!(
        output.stdout == format!("{number}\n") && output.stderr.is_empty(),
        "{number} said {:?} and {:?}",
        output.stdout,
        output.stderr
    );
    ensure!(
        matches!(&output.exit, Exit::Exited(status) if status.code == 0),
        "{number}: {:?}",
        output.exit
    );
    Ok(took)
}

async fn scenario() -> Result<()> {
    let place = Place::separate(BIN).await?;
    let registry = place.registry.as_ref().context("its own")?;
    let executor = place.executor.as_ref().context("its own")?.pid();
    let environment = Environment::builder()
        .registry(RegistryConfig {
            url: registry.url().to_owned(),
            environment: ENVIRONMENT.to_owned(),
            token: registry.harness_token.clone().into(),
            account: None,
        })
        .spawn()
        .await?;
    for number in 0..8 {
        echo(&environment, number).await?;
    }
    // With the session standing and nothing running.
    let session = environment.session().await?;
    session.status().await?;
    let (here, there, memory) = (
        Held::here(),
        Held::of(executor),
        resident(std::process::id()),
    );
    let begin = Instant::now();
    let latencies: Vec<_> = stream::iter(0..count())
        .map(|number| echo(&environment, number))
        .buffer_unordered(8)
        .try_collect()
        .await?;
    let took = begin.elapsed();
    let grown = resident(std::process::id()).saturating_sub(memory);
    let executor_peak = peak_memory(executor, "mainstay");
    ensure!(latencies.len() == count());
    here.is_back(Held::here).await?;
    there.is_back(|| Held::of(executor)).await?;
    eprintln!(
        "{} commands in {took:.1?}: {}; client grew by {grown} KiB, executor had {executor_peak} KiB at most",
        latencies.len(),
        percentiles(latencies)
    );
    ensure!(grown < 64 * 1024, "client grew by {grown} KiB");
    environment.shutdown().await;
    Ok(())
}

#[test]
fn short_commands_through_the_relay_are_never_empty_and_never_wrong() -> Result<()> {
    alone(scenario())
}
