//! Far sides of all kinds: an executor behind a proxy, servers that refuse.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use mainstay_executor::{Config, Executor};
use mainstay_testkit::fault_proxy::FaultProxy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// An executor behind a proxy.
pub(crate) async fn behind_proxy() -> (Executor, SocketAddr, FaultProxy) {
    let executor = Executor::start(Config::default()).await.unwrap();
    let url = executor
        .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
        .await
        .unwrap();
    let target = url.trim_start_matches("ws://").parse().unwrap();
    let proxy = FaultProxy::transparent(target).await.unwrap();
    (executor, target, proxy)
}

/// A server that answers every request with `status`, and tells how many it had.
pub(crate) async fn refusing(status: &'static str) -> (SocketAddr, Arc<AtomicUsize>) {
    refusing_after(status, || {}).await
}

/// The same, doing something before each answer.
pub(crate) async fn refusing_after(
    status: &'static str,
    before: impl Fn() + Send + 'static,
) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counter = count.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            before();
            counter.fetch_add(1, SeqCst);
            let answer =
                format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (addr, count)
}
