//! Whole commands, as a person runs them: `mainstay run` beside `ssh`, each a process of its own.

use std::{process::Stdio, time::Instant};

use anyhow::{Context, Result, ensure};
use mainstay_executor::{Config, Executor};
use secrecy::ExposeSecret;
use tokio::{io::AsyncReadExt, process::Command};

use crate::{
    Amount, far,
    ssh::Ssh,
    stats::Samples,
    table::{Row, Table},
};

/// Runs `true`, and a program with much output, without and with each way to another machine.
pub(crate) async fn run(amount: Amount) -> Result<Table<2>> {
    let mainstay = std::env::current_exe()?.with_file_name("mainstay");
    ensure!(
        mainstay.exists(),
        "{} is missing: `cargo build --release -p mainstay-cli` makes it",
        mainstay.display()
    );
    let listening = Executor::start(Config::default()).await?;
    let url = listening.listen(([127, 0, 0, 1], 0).into()).await?;
    let (_registered, registry, token) = far::registered().await?;
    let direct = |remote: &str| {
        let mut command = Command::new(&mainstay);
        command.args(["run", "-n", "--url", &url, "--", "sh", "-c", remote]);
        command
    };
    let relayed = |remote: &str| {
        let mut command = Command::new(&mainstay);
        command.args(["run", "-n", "--registry", registry.url()]);
        command.args(["--environment", far::ENVIRONMENT]);
        command.env("MAINSTAY_TOKEN", token.expose_secret());
        command.args(["--", "sh", "-c", remote]);
        command
    };
    let ssh = Ssh::start().await?;
    if ssh.is_none() {
        eprintln!("no ssh server here: its columns are left out");
    }
    let _shared = match &ssh {
        Some(ssh) => Some(ssh.share().await?),
        None => None,
    };
    let mut table = Table::new([
        Row {
            name: "`true`, ms",
            digits: 1,
            tail: Some(95.0),
        },
        Row {
            name: "output, MB/s",
            digits: 0,
            tail: None,
        },
    ]);
    for round in 1..=amount.rounds {
        table.add("`sh -c`", measure(local, amount).await?);
        table.add("`mainstay run --url`", measure(direct, amount).await?);
        table.add("`mainstay run --registry`", measure(relayed, amount).await?);
        if let Some(ssh) = &ssh {
            let new = |remote: &str| ssh.command(remote);
            table.add("`ssh`", measure(new, amount).await?);
            let shared = |remote: &str| ssh.shared(remote);
            table.add("`ssh`, shared connection", measure(shared, amount).await?);
        }
        eprintln!("round {round} of {}, whole commands", amount.rounds);
    }
    Ok(table)
}

fn local(remote: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", remote]);
    command
}

/// Milliseconds of `true`, megabytes per second of output.
async fn measure(run: impl Fn(&str) -> Command, amount: Amount) -> Result<[Samples; 2]> {
    let (mut short, mut output) = (Samples::default(), Samples::default());
    for _ in 0..amount.processes {
        short.push(received(run("true"), 0).await? * 1e3);
    }
    let bytes = amount.bytes;
    let seconds = received(run(&format!("head -c {bytes} /dev/zero")), bytes).await?;
    output.push(bytes as f64 / 1e6 / seconds);
    Ok([short, output])
}

/// Seconds until the command has ended with success and so many bytes.
async fn received(mut command: Command, expected: u64) -> Result<f64> {
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut stdout = child.stdout.take().context("no output")?;
    let (mut buffer, mut received) = (vec![0; 64 * 1024], 0);
    loop {
        match stdout.read(&mut buffer).await? {
            0 => break,
            read => received += read as u64,
        }
    }
    let status = child.wait().await?;
    ensure!(status.success(), "{command:?} ended as {status}");
    ensure!(received == expected, "{received} of {expected} bytes");
    Ok(start.elapsed().as_secs_f64())
}
