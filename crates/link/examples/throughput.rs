//! How fast one link carries messages over a loopback socket: `throughput [read buffer] [message] [count]`.
//! The same flow without WebSocket framing is the last line.

use std::{env, time::Instant};

use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use mainstay_link::{DialOptions, Limits, Link, accept, dial};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

fn main() {
    let mut args = env::args()
        .skip(1)
        .filter_map(|arg| arg.parse::<usize>().ok());
    let read_buffer = args.next().unwrap_or(Limits::direct().read_buffer);
    let message = args.next().unwrap_or(60 * 1024);
    let count = args.next().unwrap_or(40_000);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("runtime");
    runtime.block_on(async {
        for up in [true, false, true, false] {
            let taken = websocket(read_buffer, message, count, up).await;
            let direction = if up {
                "dialled -> accepted"
            } else {
                "accepted -> dialled"
            };
            report(direction, message, count, taken);
        }
        report("plain TCP", message, count, plain(message, count).await);
    });
}

fn report(what: &str, message: usize, count: usize, seconds: f64) {
    println!(
        "{what}: {:.0} MB/s, {:.0} messages/s",
        (message * count) as f64 / seconds / 1e6,
        count as f64 / seconds
    );
}

async fn websocket(read_buffer: usize, message: usize, count: usize, up: bool) -> f64 {
    let limits = Limits {
        read_buffer,
        ..Limits::direct()
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listener");
    let url = format!("ws://{}", listener.local_addr().expect("address"));
    let (accepted, mut sockets) = mpsc::channel(1);
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("connection");
        let service = service_fn(move |mut request: Request<Incoming>| {
            let accepted = accepted.clone();
            async move {
                let (answer, socket) = accept::upgrade(&mut request, limits).expect("upgrade");
                tokio::spawn(async move {
                    let _ = accepted.send(socket.await.expect("socket")).await;
                });
                Ok::<_, std::convert::Infallible>(answer)
            }
        });
        hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades()
            .await
    });
    let options = DialOptions {
        limits,
        ..DialOptions::default()
    };
    let near = dial(&url, &options).await.expect("link");
    let far = Link::from(sockets.recv().await.expect("socket"));
    let (mut from, mut to) = if up { (near, far) } else { (far, near) };
    let text = "x".repeat(message);
    let started = Instant::now();
    let receiver = tokio::spawn(async move {
        for _ in 0..count {
            to.source.recv().await.expect("link").expect("message");
        }
        to
    });
    for _ in 0..count {
        from.sink.send(text.clone()).await.expect("sent");
    }
    from.sink.flush().await.expect("flushed");
    receiver.await.expect("receiver");
    started.elapsed().as_secs_f64()
}

async fn plain(message: usize, count: usize) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listener");
    let address = listener.local_addr().expect("address");
    let mut near = TcpStream::connect(address).await.expect("connected");
    let (mut far, _) = listener.accept().await.expect("accepted");
    let started = Instant::now();
    let receiver = tokio::spawn(async move {
        let mut buffer = vec![0; 64 * 1024];
        let mut left = message * count;
        while left > 0 {
            left -= far.read(&mut buffer).await.expect("read");
        }
    });
    let data = vec![0; message];
    for _ in 0..count {
        near.write_all(&data).await.expect("written");
    }
    receiver.await.expect("receiver");
    started.elapsed().as_secs_f64()
}
