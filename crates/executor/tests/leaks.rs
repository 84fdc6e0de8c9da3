//! Everything a session used is given back: descriptors, children. Alone in its binary, because it counts what this
//! process has.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use mainstay_executor::{Config, Executor};
use mainstay_testkit::rpc_client::RpcClient;
use serde_json::json;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .count()
}

fn children() -> usize {
    let own = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_ours = |entry: &std::fs::DirEntry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ")
            .and_then(|(_, rest)| rest.split(' ').nth(1))
            == Some(&own)
    };
    processes.filter(is_ours).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn descriptors_and_children_return_to_where_they_were() -> Result<()> {
    let executor = Executor::start(Config::default()).await?;
    let url = executor.listen("127.0.0.1:0".parse()?).await?;
    let before = (descriptors(), children());
    let mut clients = Vec::new();
    for _ in 0..5 {
        let mut client = RpcClient::connect(&url).await?;
        client.initialize(None).await?;
        for number in 0..20 {
            let (script, tty) = match number % 4 {
                0 => ("echo done", false),
                1 => ("exec sleep 1000", false),
                2 => ("exec sleep 1000", true),
                _ => ("no-such-program-at-all", true),
            };
            let params = json!({"processId": number.to_string(), "argv": ["/bin/sh", "-c", script], "cwd": "file:///",
                                "env": {}, "tty": tty, "pipeStdin": true});
            let started = client.call("process/start", params).await?;
            ensure!(started.is_ok(), "{started:?}");
        }
        let failed = json!({"processId": "x", "argv": ["/no/such"], "cwd": "file:///", "env": {}, "tty": true});
        ensure!(client.call("process/start", failed).await?.is_err());
        clients.push(client);
    }
    ensure!(children() >= before.1 + 50);
    for (number, mut client) in clients.into_iter().enumerate() {
        if number % 2 == 0 {
            let ended = client.call("mainstay/endSession", json!({})).await?;
            ensure!(ended.is_ok());
        } else {
            let list = client
                .call("mainstay/processes", json!({}))
                .await?
                .expect("listed");
            for process in list["processes"].as_array().into_iter().flatten() {
                let params = json!({"processId": process["processId"]});
                let _ = client.call("process/terminate", params).await?;
            }
            client.close().await?;
        }
    }
    let begin = Instant::now();
    while (descriptors(), children()) != before {
        let now = (descriptors(), children());
        ensure!(
            begin.elapsed() < Duration::from_secs(30),
            "{before:?} became {now:?}"
        );
        tokio::task::yield_now().await;
    }
    Ok(())
}
