//! Speed of the relay path over loopback, executor to harness through a router that only forwards:
//! `cargo run --release -p mainstay-link --example relay_throughput [MESSAGE_BYTES [STREAMS]]`.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use mainstay_link::relay::{Bundle, Station, Verdict, dial, executor, harness};
use mainstay_link::{
    Close, DialOptions, Frame, Limits, Link, RawSink, RawSocket, RawSource, accept,
};
use mainstay_noise::{Identity, Suite};
use mainstay_wire::relay::Frame as RelayFrame;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

const ENVIRONMENT: &str = "env";
const REGISTRATION: &str = "reg";
const TIME: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let size: usize = arguments.next().map_or(Ok(11_000), |text| text.parse())?;
    let streams: usize = arguments.next().map_or(Ok(1), |text| text.parse())?;

    let (near, far) = sockets().await?;
    let identity = Identity::generate()?;
    let station = Station {
        identity: identity.clone(),
        environment: ENVIRONMENT.to_owned(),
        registration: REGISTRATION.to_owned(),
        suites: vec![Suite::HybridIk],
    };
    let (accept, mut accepted) = mpsc::channel(128);
    let valid = |_| async { Verdict::Valid };
    let never = std::future::pending::<Close>();
    tokio::spawn(executor(near, station, valid, accept, never));
    let (claim, claims) = mpsc::unbounded_channel();
    let (to_executor, forwards) = mpsc::channel(64);
    tokio::spawn(to_harnesses(far.source, claims));
    tokio::spawn(forward(far.sink, forwards));

    let mut counters = Vec::new();
    for _ in 0..streams {
        let (url, socket) = listen().await?;
        let bundle = Bundle {
            url,
            environment: ENVIRONMENT.to_owned(),
            registration: REGISTRATION.to_owned(),
            executor_key: identity.public(Suite::HybridIk),
            authorization: String::new(),
        };
        let (claim, to_executor) = (claim.clone(), to_executor.clone());
        tokio::spawn(async move {
            let Some(RawSocket { sink, mut source }) = socket.await else {
                return;
            };
            let mut sink = Some(sink);
            while let Ok(Some(Frame::Binary(bytes))) = source.recv().await {
                if let (Some(sink), Ok(frame)) = (sink.take(), RelayFrame::decode(bytes.clone())) {
                    let _ = claim.send((frame.stream_id, sink));
                }
                let _ = to_executor.send(bytes).await;
            }
        });
        let socket = dial(&bundle, &DialOptions::default()).await?;
        let link = harness(socket, &Identity::generate()?, &bundle).await?;
        let far = accepted.recv().await.ok_or("no link")?;
        tokio::spawn(produce(far.link, size));
        counters.push(tokio::spawn(count(link)));
    }
    let cpu = cpu_time()?;
    let start = Instant::now();
    let (mut messages, mut bytes) = (0, 0);
    for counter in counters {
        let (m, b) = counter.await?;
        messages += m;
        bytes += b;
    }
    let cpu = cpu_time()? - cpu;
    let elapsed = start.elapsed().as_secs_f64();
    println!(
        "{streams} streams, {size} bytes: {:.0} MB/s, {:.0} messages/s, {:.2} ns of CPU per byte",
        bytes as f64 / 1e6 / elapsed,
        messages as f64 / elapsed,
        cpu.as_nanos() as f64 / bytes as f64,
    );
    Ok(())
}

async fn produce(mut link: Link, size: usize) {
    // As the executor does: some messages, then a flush.
    loop {
        for _ in 0..8 {
            if link.sink.send("x".repeat(size)).await.is_err() {
                return;
            }
        }
        if link.sink.flush().await.is_err() {
            return;
        }
    }
}

async fn count(mut link: Link) -> (usize, usize) {
    let (mut messages, mut bytes) = (0, 0);
    let end = Instant::now() + TIME;
    while let Ok(Some(message)) = link.source.recv().await {
        messages += 1;
        bytes += message.len();
        if Instant::now() > end {
            break;
        }
    }
    (messages, bytes)
}

async fn to_harnesses(
    mut source: RawSource,
    mut claims: mpsc::UnboundedReceiver<(String, RawSink)>,
) {
    let mut sinks: HashMap<String, (RawSink, bool)> = HashMap::new();
    while let Ok(Some(Frame::Binary(bytes))) = source.recv().await {
        while let Ok((id, sink)) = claims.try_recv() {
            sinks.insert(id, (sink, false));
        }
        // Field 2 follows the version: tag, length, id.
        let length = usize::from(bytes[3]);
        let Ok(id) = std::str::from_utf8(&bytes[4..4 + length]) else {
            return;
        };
        if let Some((sink, _)) = sinks.get_mut(id) {
            let _ = sink.feed(bytes).await;
            let _ = sink.flush().await;
        }
    }
}

async fn forward(mut sink: RawSink, mut frames: mpsc::Receiver<bytes::Bytes>) {
    while let Some(bytes) = frames.recv().await {
        let _ = sink.feed(bytes).await;
        let _ = sink.flush().await;
    }
}

async fn sockets() -> Result<(RawSocket, RawSocket), Box<dyn std::error::Error>> {
    let (url, accepted) = listen().await?;
    let options = DialOptions::rendezvous();
    let (near, far) = tokio::join!(mainstay_link::dial_raw(&url, &options), accepted);
    Ok((near?, far.ok_or("no socket")?))
}

async fn listen() -> std::io::Result<(String, impl Future<Output = Option<RawSocket>>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("ws://{}/", listener.local_addr()?);
    let (give, mut take) = mpsc::channel(1);
    let accepted = async move {
        let (stream, _) = listener.accept().await.ok()?;
        stream.set_nodelay(true).ok()?;
        let service = service_fn(move |mut request: Request<Incoming>| {
            let give = give.clone();
            async move {
                Ok::<_, std::convert::Infallible>(
                    match accept::upgrade(&mut request, Limits::rendezvous()) {
                        Ok((answer, socket)) => {
                            tokio::spawn(async move {
                                if let Ok(socket) = socket.await {
                                    let _ = give.send(socket).await;
                                }
                            });
                            answer
                        }
                        Err(refusal) => refusal,
                    },
                )
            }
        });
        let serving = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        tokio::spawn(serving);
        take.recv().await
    };
    Ok((url, accepted))
}

/// User and system time of this process.
fn cpu_time() -> Result<Duration, Box<dyn std::error::Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat
        .rsplit(") ")
        .next()
        .unwrap_or_default()
        .split(' ')
        .collect();
    let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    Ok(Duration::from_millis(ticks * 10))
}
