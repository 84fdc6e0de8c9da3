//! Measures Mainstay beside the same work without it, in one run, and writes the table of `docs/performance.md`.
//!
//! `mainstay-bench [--quick] [--write FILE]`
#![allow(clippy::disallowed_types, reason = "not an actor crate")]

mod commands;
mod crowd;
mod far;
mod local;
mod measure;
mod shape;
mod ssh;
mod stats;
mod table;

use anyhow::{Context, Result, bail};
use mainstay::Environment;
use mainstay_testkit::reference::Reference;

use table::{Row, Table};

/// How much of everything is measured in one round.
#[derive(Clone, Copy, Debug)]
struct Amount {
    rounds: usize,
    calls: usize,
    commands: usize,
    bytes: u64,
    /// Whole commands, each a process of its own, in one round.
    processes: usize,
    /// Short commands eight at a time.
    crowd: usize,
    /// Turns of each reader beside a stalled one.
    turns: usize,
}

const FULL: Amount = Amount {
    rounds: 10,
    calls: 2_000,
    commands: 30,
    bytes: 200_000_000,
    processes: 10,
    crowd: 2_000,
    turns: 50,
};
const QUICK: Amount = Amount {
    rounds: 2,
    calls: 500,
    commands: 10,
    bytes: 20_000_000,
    processes: 3,
    crowd: 500,
    turns: 20,
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
    let (crowd, readers) = crowd::run(amount).await?;
    let tables = [
        ("table", run(amount).await?.markdown()),
        ("crowd", crowd.markdown()),
        ("readers", readers.markdown()),
        ("commands", commands::run(amount).await?.markdown()),
    ];
    for (name, text) in &tables {
        println!("{text}");
        if let Some(file) = &write {
            table::write(file.as_ref(), name, text)?;
        }
    }
    Ok(())
}

/// Inside one process: what the library costs.
async fn run(amount: Amount) -> Result<Table<3>> {
    let (_direct, direct) = far::direct().await?;
    let (_relayed, _registry, relayed) = far::relayed().await?;
    let mut columns = vec![("direct", direct, 1), ("relay + Noise", relayed, 1)];
    let reference = Reference::find();
    let mut theirs = None;
    if let Some(reference) = &reference {
        let executor = reference.executor().await?;
        let environment = Environment::builder().url(&executor.url).spawn().await?;
        // A trivial command takes it 50 ms: fewer of them do.
        columns.push(("reference executor, direct", environment, 10));
        let (registered, front, registry, environment) = far::reference(reference).await?;
        columns.push(("reference executor, relay + Noise", environment, 10));
        theirs = Some((executor, registered, front, registry));
    }
    let mut table = Table::new([
        Row {
            name: "call, µs",
            digits: 0,
            tail: Some(95.0),
        },
        Row {
            name: "`true` start → closed, µs",
            digits: 0,
            tail: Some(95.0),
        },
        Row {
            name: "output, MB/s",
            digits: 0,
            tail: None,
        },
    ]);
    // Round by round, so that a machine that gets busy meanwhile is as busy for everyone.
    for round in 1..=amount.rounds {
        let local = [
            local::round_trips(amount.calls).await?,
            local::short_commands(amount.commands).await?,
            local::throughput(amount.bytes, 1).await?,
        ];
        table.add("without Mainstay", local);
        for (column, environment, fewer) in &columns {
            let samples = [
                measure::round_trips(environment, amount.calls / fewer).await?,
                measure::short_commands(environment, amount.commands / fewer).await?,
                measure::throughput(environment, amount.bytes, 1).await?,
            ];
            table.add(column, samples);
        }
        eprintln!("round {round} of {}", amount.rounds);
    }
    for (_, environment, _) in columns {
        environment.shutdown().await;
    }
    drop(theirs);
    Ok(table)
}
