//! How fast the rendezvous forwards frames on loopback: `forwarding [payload bytes] [frames]`. Executor, harness and
//! registry share this process and two threads, so that one third of the work is the registry's.

use std::{env, sync::Arc, time::Instant};

use bytes::Bytes;
use mainstay_link::{DialOptions, RawSink, RawSocket, RawSource, dial_raw};
use mainstay_registry::{
    Config, Registry, TokenSource,
    tokens::{Role, Tokens},
};
use mainstay_wire::{
    base64::Base64,
    registry::{PROFILE_IK, PublicKey, SUITE_IK},
    relay::{Body, Frame},
};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

fn main() {
    let mut args = env::args().skip(1).filter_map(|arg| arg.parse().ok());
    let payload: usize = args.next().unwrap_or(61_456);
    let frames: usize = args.next().unwrap_or(20_000);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("runtime");
    runtime.block_on(run(payload, frames));
}

async fn run(payload: usize, frames: usize) {
    let mut tokens = Tokens::new();
    let executor = tokens.issue("e", Role::Executor).expect("token");
    let harness = tokens.issue("e", Role::Harness).expect("token");
    let config = Config::new(
        "127.0.0.1:0".parse().expect("address"),
        TokenSource::Memory(Arc::new(tokens)),
    );
    let registry = Registry::bind(config).await.expect("registry");
    let key = PublicKey {
        suite: SUITE_IK.into(),
        x25519_public_key: Base64(vec![1; 32].into()),
        mlkem768_public_key: None,
    };
    let register = json!({ "security_profile": PROFILE_IK, "executor_public_key": key });
    let mut executor = dial(&registry, "register", &executor, &register).await;
    let connect = json!({ "harness_public_key": key });
    let mut harness = dial(&registry, "connect", &harness, &connect).await;
    let frame = Frame::new(
        "6f1d3f0a-2c57-4a53-9a40-1f5a3f9d2b10",
        Body::Data {
            seq: 1,
            payload: vec![7; payload].into(),
        },
    )
    .encode();
    // Claims the stream.
    pass(&mut harness.sink, &mut executor.source, &frame, 1).await;
    for _ in 0..2 {
        let up = pass(&mut harness.sink, &mut executor.source, &frame, frames).await;
        report("harness -> executor", payload, frames, up);
        let down = pass(&mut executor.sink, &mut harness.source, &frame, frames).await;
        report("executor -> harness", payload, frames, down);
    }
    let started = Instant::now();
    let turns = 5_000;
    let (mut near, mut far) = (executor, harness);
    for _ in 0..turns {
        pass(&mut near.sink, &mut far.source, &frame, 1).await;
        std::mem::swap(&mut near, &mut far);
    }
    let each = started.elapsed().as_secs_f64() / f64::from(turns);
    println!("one way, one frame at a time: {:.1} us", each * 1e6);
}

fn report(what: &str, payload: usize, frames: usize, seconds: f64) {
    println!(
        "{what}: {:.0} MB/s, {:.0} frames/s",
        (payload * frames) as f64 / seconds / 1e6,
        frames as f64 / seconds
    );
}

async fn pass(sink: &mut RawSink, source: &mut RawSource, frame: &Bytes, count: usize) -> f64 {
    let started = Instant::now();
    let send = async {
        for _ in 0..count {
            sink.feed(frame.clone()).await.expect("sent");
        }
        sink.flush().await.expect("flushed");
    };
    let receive = async {
        for _ in 0..count {
            source.recv().await.expect("received").expect("frame");
        }
    };
    tokio::join!(send, receive);
    started.elapsed().as_secs_f64()
}

async fn dial(registry: &Registry, call: &str, token: &SecretString, body: &Value) -> RawSocket {
    loop {
        let mut tcp = TcpStream::connect(registry.local_addr())
            .await
            .expect("connected");
        let body = body.to_string();
        let request = format!(
            "POST /cloud/environment/e/{call} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\
             Authorization: Bearer {}\r\nContent-Length: {}\r\n\r\n{body}",
            token.expose_secret(),
            body.len()
        );
        tcp.write_all(request.as_bytes()).await.expect("asked");
        let mut answer = String::new();
        tcp.read_to_string(&mut answer).await.expect("answer");
        // Offline until the executor's socket is noted.
        if let Some((_, body)) = answer.split_once("\r\n\r\n")
            && answer.starts_with("HTTP/1.1 200")
        {
            let body: Value = serde_json::from_str(body).expect("JSON");
            let url = body["url"].as_str().expect("url");
            return dial_raw(url, &DialOptions::rendezvous())
                .await
                .expect("socket");
        }
    }
}
