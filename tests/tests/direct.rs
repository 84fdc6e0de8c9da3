//! One command over a direct link, against our executor.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use mainstay::{Command, Environment, Exit, ExitStatus};
use mainstay_executor::{Config, Executor};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn executor() -> (Executor, String) {
    let executor = Executor::start(Config::default()).await.unwrap();
    let url = executor
        .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        .await
        .unwrap();
    (executor, url)
}

async fn environment(url: &str) -> Environment {
    Environment::builder().url(url).spawn().await.unwrap()
}

fn code(exit: &Exit) -> Option<i32> {
    match exit {
        Exit::Exited(ExitStatus { code, .. }) => Some(*code),
        Exit::Lost(_) => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_error_and_exit_code_come_through_separately() {
    let (executor, url) = executor().await;
    let environment = environment(&url).await;
    let command = Command::new("sh")
        .arg("-c")
        .arg("printf out; printf err >&2; exit 7");
    let output = environment
        .exec(command)
        .await
        .unwrap()
        .wait_with_output()
        .await
        .unwrap();
    assert_eq!(&output.stdout[..], b"out");
    assert_eq!(&output.stderr[..], b"err");
    assert_eq!(code(&output.exit), Some(7));
    environment.shutdown().await;
    executor.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_megabytes_through_cat_are_the_same() {
    let (executor, url) = executor().await;
    let environment = environment(&url).await;
    let mut process = environment
        .exec(Command::new("cat").pipe_stdin())
        .await
        .unwrap();
    let sent: Vec<u8> = (0..10_u32 << 20)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let mut stdin = process.stdin.take().unwrap();
    let mut stdout = process.stdout.take().unwrap();
    let input = sent.clone();
    let writer = tokio::spawn(async move {
        stdin.write_all(&input).await.unwrap();
        stdin.shutdown().await.unwrap();
    });
    let mut received = Vec::new();
    stdout.read_to_end(&mut received).await.unwrap();
    writer.await.unwrap();
    assert!(received == sent);
    assert_eq!(code(&process.wait().await), Some(0));
    environment.shutdown().await;
    executor.shutdown(Duration::ZERO).await;
}
