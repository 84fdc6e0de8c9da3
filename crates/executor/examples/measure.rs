//! Measures an executor over loopback from a plain client: the round trip of the smallest request, `true` from start to
//! closed, and the flow of output. `cargo run --release -p mainstay-executor --example measure`

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use mainstay_executor::{Config, Executor};
use mainstay_testkit::rpc_client::RpcClient;
use serde_json::{Value, json};

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<()> {
    let url = match std::env::args().nth(1) {
        Some(url) => url,
        None => {
            let executor = Executor::start(Config::default()).await?;
            executor.listen("127.0.0.1:0".parse()?).await?
        }
    };
    let mut client = RpcClient::connect(&url).await?;
    client.initialize(None).await?;
    let mut trips = Vec::new();
    for _ in 0..5000 {
        let begin = Instant::now();
        let _ = client.call("environment/status", json!({})).await?;
        trips.push(begin.elapsed());
    }
    report("environment/status", trips);
    for (name, tty) in [("true", false), ("true in a terminal", true)] {
        let mut runs = Vec::new();
        for number in 0..500 {
            let begin = Instant::now();
            let id = format!("{name} {number}");
            let _ = client
                .send("process/start", program(&id, &["/bin/true"], tty))
                .await?;
            until_closed(&mut client).await?;
            runs.push(begin.elapsed());
        }
        report(name, runs);
    }
    let begin = Instant::now();
    let bytes: usize = 1 << 30;
    let _ = client
        .send(
            "process/start",
            program(
                "flow",
                &["/usr/bin/head", "-c", &bytes.to_string(), "/dev/zero"],
                false,
            ),
        )
        .await?;
    let frames = until_closed(&mut client).await?;
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "1 GiB of output: {:.0} MB/s in {frames} frames",
        bytes as f64 / 1e6 / seconds
    );
    Ok(())
}

fn program(id: &str, argv: &[&str], tty: bool) -> Value {
    json!({"processId": id, "argv": argv, "cwd": "file:///", "env": {}, "tty": tty})
}

/// Reads until a process is closed, without looking into its output; returns the number of messages.
async fn until_closed(client: &mut RpcClient) -> Result<usize> {
    for count in 0.. {
        let message = client.next_text().await.context("closed")?;
        if message.starts_with(r#"{"method":"process/closed""#) {
            return Ok(count);
        }
    }
    Ok(0)
}

fn report(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!(
        "{name}: median {:?}, p99 {:?}, max {:?}",
        at(0.5),
        at(0.99),
        at(1.0)
    );
}
