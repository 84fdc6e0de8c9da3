//! Measures Mainstay beside the same work without it, in one run, and writes the table of `docs/performance.md`.
//!
//! `mainstay-bench [--quick] [--write FILE]`
#![allow(clippy::disallowed_types, reason = "not an actor crate")]

mod far;
mod local;
mod measure;
mod shape;
mod stats;
mod table;

use anyhow::{Context, Result, bail};
use mainstay::Environment;
use mainstay_testkit::reference::Reference;

use table::{Column, Table};

/// How much of everything is measured.
#[derive(Clone, Copy, Debug)]
struct Amount {
    calls: usize,
    commands: usize,
    bytes: u64,
    streams: usize,
}

const FULL: Amount = Amount {
    calls: 20_000,
    commands: 300,
    bytes: 400_000_000,
    streams: 5,
};
const QUICK: Amount = Amount {
    calls: 1_000,
    commands: 30,
    bytes: 20_000_000,
    streams: 2,
};

#[tokio::main]
async fn main() -> Result<()> {
    let (mut amount, mut write) = (FULL, None);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--quick" => amount = QUICK,
            "--write" => write = Some(args.next().context("--write takes a file")?),
            other => bail!("no such flag: {other}"),
        }
    }
    let table = run(amount).await?;
    let text = table.markdown();
    println!("{text}");
    if let Some(file) = write {
        table::write(file.as_ref(), &text)?;
    }
    Ok(())
}

async fn run(amount: Amount) -> Result<Table> {
    let mut table = Table::default();
    table.push(
        Column::Local,
        local::round_trips(amount.calls).await?,
        local::short_commands(amount.commands).await?,
        local::throughput(amount.bytes, amount.streams).await?,
    );
    let (_executor, environment) = far::direct().await?;
    ask(&mut table, Column::Direct, &environment, amount).await?;
    let (_relayed, _registry, environment) = far::relayed().await?;
    ask(&mut table, Column::Relayed, &environment, amount).await?;
    if let Some(reference) = Reference::find() {
        // The reference answers slowly enough that fewer samples do.
        let amount = Amount {
            calls: amount.calls / 10,
            commands: amount.commands / 10,
            ..amount
        };
        let executor = reference.executor().await?;
        let environment = Environment::builder().url(&executor.url).spawn().await?;
        ask(&mut table, Column::Reference, &environment, amount).await?;
        let (_executor, _front, _registry, environment) = far::reference(&reference).await?;
        ask(&mut table, Column::ReferenceRelayed, &environment, amount).await?;
    }
    Ok(table)
}

async fn ask(
    table: &mut Table,
    column: Column,
    environment: &Environment,
    amount: Amount,
) -> Result<()> {
    table.push(
        column,
        measure::round_trips(environment, amount.calls).await?,
        measure::short_commands(environment, amount.commands).await?,
        measure::throughput(environment, amount.bytes, amount.streams).await?,
    );
    environment.shutdown().await;
    Ok(())
}
