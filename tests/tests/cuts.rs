//! Output over a link that is cut again and again: nothing lost, nothing repeated.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use mainstay::{Command, Environment, Exit};
use mainstay_executor::{Config, Executor};
use mainstay_testkit::fault_proxy::{Counted, FaultProxy, Plan};
use mainstay_testkit::seed::Seed;
use sha2::{Digest, Sha256};

/// What `seq 1 last` prints, hashed.
fn expected(last: u32) -> ([u8; 32], usize) {
    let mut hash = Sha256::new();
    let mut len = 0;
    for number in 1..=last {
        let line = format!("{number}\n");
        len += line.len();
        hash.update(line.as_bytes());
    }
    (hash.finalize().into(), len)
}

async fn cut_stream(last: u32) {
    let executor = Executor::start(Config::default()).await.unwrap();
    let url = executor
        .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        .await
        .unwrap();
    let target: SocketAddr = url.trim_start_matches("ws://").parse().unwrap();
    let plan = Plan::cut_after_bytes(Counted::Down, 2_500_000..=3_500_000);
    let proxy = FaultProxy::start(target, plan, Seed::from_env(7))
        .await
        .unwrap();
    let environment = Environment::builder()
        .url(proxy.url("ws"))
        .spawn()
        .await
        .unwrap();

    let began = Instant::now();
    let mut process = environment
        .exec(Command::new("seq").arg("1").arg(last.to_string()))
        .await
        .unwrap();
    let mut stdout = process.stdout.take().unwrap();
    drop(process.stderr.take());
    let mut hash = Sha256::new();
    let mut len = 0;
    while let Some(chunk) = stdout.chunk().await.unwrap() {
        len += chunk.len();
        hash.update(&chunk);
    }
    let exit = process.wait().await;
    let (wanted, wanted_len) = expected(last);
    let counters = proxy.counters();
    println!(
        "{len} bytes in {:?} over {} cuts",
        began.elapsed(),
        counters.cut
    );
    assert_eq!(len, wanted_len);
    assert_eq!(<[u8; 32]>::from(hash.finalize()), wanted);
    assert!(
        matches!(exit, Exit::Exited(status) if status.code == 0),
        "{exit:?}"
    );
    assert!(counters.cut as usize >= wanted_len / 5_000_000);
    environment.shutdown().await;
    executor.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fast_output_survives_a_cut_every_three_megabytes() {
    cut_stream(2_000_000).await;
}
