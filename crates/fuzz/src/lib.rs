//! What each fuzz target does with its bytes: one function per input that a stranger can reach.
//!
//! The functions know nothing of libFuzzer, so that `tests/tests/fuzz_corpora.rs` replays the seeds with the ordinary
//! toolchain. They panic when something that must hold does not; everything else is silent.

use std::convert::Infallible;
use std::io::Cursor;
use std::sync::OnceLock;

use bytes::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use mainstay_link::{Limits, Link, accept};
use mainstay_noise::{Identity, Initiator, Opener, Prologue, Responder, Sealer, Suite};
use mainstay_wire::envelope::{self, Message};
use mainstay_wire::relay::{Body, Frame};
use mainstay_wire::{Call, Notice, PathUri, base64, process, registry};
use mainstay_wire::{capabilities, environment, extension, fs, http, initialize, network};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

/// A function that takes the bytes of one input.
pub type Target = fn(&[u8]);

/// Every target by name.
pub const TARGETS: [(&str, Target); 9] = [
    ("envelope", envelope),
    ("params", params),
    ("relay_frame", relay_frame),
    ("path_uri", path_uri),
    ("registry_body", registry_body),
    ("stdio_line", stdio_line),
    ("websocket", websocket),
    ("noise_handshake", noise_handshake),
    ("noise_records", noise_records),
];

/// A WebSocket message at either end.
pub fn envelope(data: &[u8]) {
    let strict = envelope::parse(data);
    let trusted = envelope::parse_trusted(data);
    if strict.is_ok() {
        assert!(
            trusted.is_ok(),
            "the strict parser takes no more than the trusting one"
        );
    }
    match strict {
        Ok(Message::Request(request)) => {
            let answer = envelope::success(&request.id, &true);
            let Ok(Message::Success(success)) = envelope::parse(answer.as_bytes()) else {
                panic!("{answer}")
            };
            assert_eq!(success.id, request.id);
        }
        Ok(Message::Notification(_) | Message::Success(_)) => {}
        Ok(Message::Failure(failure)) => {
            let again = envelope::failure(&failure.id, &failure.error);
            let Ok(Message::Failure(read)) = envelope::parse(again.as_bytes()) else {
                panic!("{again}")
            };
            assert_eq!(read, failure);
        }
        Err(malformed) => {
            let answer =
                envelope::failure(&envelope::UNREADABLE_ID, &malformed.on_websocket("[::1]:1"));
            assert!(
                answer.len() < 16 * 1024,
                "a refusal is bounded, whatever it refuses"
            );
        }
    }
    if let Some(output) = process::parse_output(data) {
        assert!(
            matches!(trusted, Ok(Message::Notification(_))),
            "the fast parser takes no more than the general one"
        );
        let mut bytes = Vec::new();
        if output.decode_into(&mut bytes).is_ok() {
            let mut frame = String::new();
            process::write_output(
                &mut frame,
                &output.process_id,
                output.seq,
                output.stream,
                &bytes,
            );
            assert_eq!(process::parse_output(frame.as_bytes()), Some(output));
        }
    }
}

/// Params and answer of the method that the first byte selects.
pub fn params(data: &[u8]) {
    let Some((selector, json)) = data.split_first() else {
        return;
    };
    let Some(raw) = std::str::from_utf8(json)
        .ok()
        .and_then(|text| serde_json::from_str::<&RawValue>(text).ok())
    else {
        return;
    };
    let types = types();
    types[usize::from(*selector) % types.len()](raw);
}

fn types() -> Vec<fn(&RawValue)> {
    vec![
        call::<initialize::Initialize>,
        call::<environment::Info>,
        call::<environment::Status>,
        call::<environment::ConfigRead>,
        call::<process::Start>,
        call::<process::Read>,
        call::<process::Write>,
        call::<process::SignalCall>,
        call::<process::Terminate>,
        call::<fs::ReadFile>,
        call::<fs::WriteFile>,
        call::<fs::CreateDirectory>,
        call::<fs::GetMetadata>,
        call::<fs::Canonicalize>,
        call::<fs::ReadDirectory>,
        call::<fs::Walk>,
        call::<fs::Remove>,
        call::<fs::Copy>,
        call::<fs::Open>,
        call::<fs::ReadBlock>,
        call::<fs::WriteBlock>,
        call::<fs::Close>,
        call::<fs::WatchMissing>,
        call::<http::HttpRequest>,
        call::<network::PolicyRequest>,
        call::<capabilities::DiscoverV2>,
        call::<capabilities::DiscoverRootsV1>,
        call::<extension::CloseStdin>,
        call::<extension::Resize>,
        call::<extension::Processes>,
        call::<extension::EndSession>,
        call::<extension::CancelHttp>,
        notice::<initialize::Initialized>,
        notice::<process::Output>,
        notice::<process::Exited>,
        notice::<process::Closed>,
        notice::<fs::MissingChanged>,
        notice::<http::BodyDelta>,
        notice::<network::PolicyDecision>,
        notice::<extension::Credit>,
    ]
}

fn call<C: Call>(raw: &RawValue) {
    shape::<C::Params>(raw);
    shape::<C::Answer>(raw);
}

fn notice<N: Notice>(raw: &RawValue) {
    shape::<N::Params>(raw);
}

/// What is taken is written, and what is written is taken and written the same.
fn shape<T: Serialize + DeserializeOwned>(raw: &RawValue) {
    match envelope::decode_params::<T>(Some(raw)) {
        Ok(value) => {
            let written = serde_json::to_string(&value).unwrap();
            let again: T = serde_json::from_str(&written).unwrap();
            assert_eq!(serde_json::to_string(&again).unwrap(), written);
        }
        Err(error) => assert!(
            error.message.len() < 16 * 1024,
            "a refusal is bounded, whatever it refuses"
        ),
    }
}

/// A message of a rendezvous socket.
pub fn relay_frame(data: &[u8]) {
    if let Ok(frame) = Frame::decode(Bytes::copy_from_slice(data)) {
        assert_eq!(Frame::decode(frame.encode()).as_ref(), Ok(&frame));
        if let Body::Data { payload, .. } | Body::Handshake { payload } = &frame.body {
            assert!(!payload.is_empty());
        }
    }
}

/// A path URI, and a native path.
pub fn path_uri(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(uri) = PathUri::parse(text)
    {
        assert_eq!(PathUri::parse(uri.as_str()).as_ref(), Ok(&uri));
        if let Ok(native) = uri.to_native_bytes() {
            assert!(native.starts_with(b"/") && !native.contains(&0));
            let written = PathUri::from_native_bytes(&native).unwrap();
            assert!(written.to_native_bytes().is_ok());
        }
    }
    if let Ok(uri) = PathUri::from_native_bytes(data)
        && let Ok(native) = uri.to_native_bytes()
    {
        assert_eq!(PathUri::parse(uri.as_str()).as_ref(), Ok(&uri));
        assert_eq!(PathUri::from_native_bytes(&native).as_ref(), Ok(&uri));
    }
}

/// Bodies of the registry, at either end, and base64.
pub fn registry_body(data: &[u8]) {
    let (_, text) = registry::read_error(data, "empty");
    assert!(!text.is_empty() || data.len() > 2);
    if let Ok(raw) = serde_json::from_slice::<&RawValue>(data) {
        shape::<registry::RegisterRequest>(raw);
        shape::<registry::RegisterAnswer>(raw);
        shape::<registry::ConnectRequest>(raw);
        shape::<registry::ConnectAnswer>(raw);
        shape::<registry::ValidateRequest>(raw);
        shape::<registry::ValidateAnswer>(raw);
        shape::<registry::ErrorBody>(raw);
    }
    if let Ok(bytes) = base64::decode(data) {
        let mut text = String::new();
        base64::encode_into(&bytes, &mut text);
        assert_eq!(text.as_bytes(), data);
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
}

/// What arrives on standard input.
pub fn stdio_line(data: &[u8]) {
    runtime().block_on(async {
        let mut link = mainstay_link::stdio(Cursor::new(data.to_vec()), tokio::io::sink());
        let mut seen = 0;
        while let Ok(Some(line)) = link.source.recv().await {
            assert!(!line.contains(&b'\n') && !line.trim_ascii().is_empty());
            seen += line.len();
            envelope(&line);
        }
        assert!(seen <= data.len());
    });
}

/// What arrives on a socket behind its upgrade: the frames of whoever was let in.
pub fn websocket(data: &[u8]) {
    const UPGRADE: &[u8] =
        b"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    /// The 101 and a close frame.
    const AROUND: usize = 1024;
    runtime().block_on(async {
        // Room for everything either side says, so that none waits for the other.
        let (mut near, far) = tokio::io::duplex(UPGRADE.len() + data.len() + AROUND);
        let (upgraded, mut sockets) = mpsc::unbounded_channel();
        let service = service_fn(move |mut request| {
            let (answer, socket) = accept::upgrade(&mut request, Limits::direct()).unwrap();
            let upgraded = upgraded.clone();
            tokio::spawn(async move { upgraded.send(socket.await.unwrap()) });
            std::future::ready(Ok::<_, Infallible>(answer))
        });
        let server = http1::Builder::new().serve_connection(TokioIo::new(far), service);
        tokio::spawn(server.with_upgrades());
        near.write_all(UPGRADE).await.unwrap();
        near.write_all(data).await.unwrap();
        let mut link = Link::from(sockets.recv().await.unwrap());
        // An end before the upgrade would be one of the request.
        near.shutdown().await.unwrap();
        let mut seen = 0;
        while let Ok(Some(message)) = link.source.recv().await {
            seen += message.len();
            envelope(&message);
        }
        assert!(seen <= data.len());
        drop(link);
        let mut said = Vec::new();
        near.read_to_end(&mut said).await.unwrap();
        assert!(
            said.len() <= data.len() + AROUND,
            "nobody is answered with more than was asked"
        );
    });
}

struct Peers {
    executor: Identity,
    harness: Identity,
}

/// One pair of identities for all inputs: making them costs more than everything else.
fn peers() -> &'static Peers {
    static PEERS: OnceLock<Peers> = OnceLock::new();
    PEERS.get_or_init(|| Peers {
        executor: Identity::generate().unwrap(),
        harness: Identity::generate().unwrap(),
    })
}

fn prologue(suite: Suite) -> Prologue {
    Prologue::new(
        suite,
        "env-1",
        "reg-1",
        "6f1d3f0a-2c57-4a53-9a40-1f5a3f9d2b10",
    )
}

/// A first and a second handshake message from a stranger: neither can be right.
pub fn noise_handshake(data: &[u8]) {
    let peers = peers();
    for suite in [Suite::HybridIk, Suite::Ik] {
        assert!(Responder::read(&peers.executor, &prologue(suite), data).is_err());
    }
    let remote = peers.executor.public(Suite::Ik);
    let (mut initiator, first) =
        Initiator::start(&peers.harness, &remote, &prologue(Suite::Ik), "token").unwrap();
    assert!(initiator.finish(data).is_err());
    // A forged answer leaves no trace.
    let (second, _) = Responder::read(&peers.executor, &prologue(Suite::Ik), &first)
        .unwrap()
        .accept()
        .unwrap();
    initiator.finish(&second).unwrap();
}

/// Records of an established channel, in any order, repeated, damaged and forged. Four bytes per step: what to do,
/// which record, where to damage it, with what.
pub fn noise_records(data: &[u8]) {
    let (mut sealer, mut opener) = channel();
    let messages: Vec<Vec<u8>> = (0..100u8)
        .map(|n| vec![n; 1 + usize::from(n) * 7])
        .collect();
    let records: Vec<Bytes> = messages
        .iter()
        .map(|message| {
            let mut record = Vec::new();
            sealer.push(message.clone()).unwrap();
            sealer.seal(&mut record).unwrap();
            record.into()
        })
        .collect();
    let mut delivered = 0;
    for step in data.chunks_exact(4) {
        let &[kind, which, place, byte] = step else {
            unreachable!()
        };
        let number = usize::from(which) % records.len();
        let mut record = records[number].to_vec();
        let mut seq = number as u32;
        match kind % 4 {
            0 => {}
            1 => {
                let place = usize::from(place) % record.len();
                record[place] ^= byte;
            }
            2 => record.truncate(usize::from(place)),
            _ => seq = seq.wrapping_add(u32::from_be_bytes([byte, 0, place, 0])),
        }
        if opener.accept(seq, record.into()).is_err() {
            return;
        }
        while let Some(message) = opener.message().unwrap() {
            assert_eq!(
                message, messages[delivered],
                "messages arrive whole, once, in order"
            );
            delivered += 1;
        }
    }
}

fn channel() -> (Sealer, Opener) {
    let peers = peers();
    let remote = peers.executor.public(Suite::Ik);
    let (mut initiator, first) =
        Initiator::start(&peers.harness, &remote, &prologue(Suite::Ik), "").unwrap();
    let (second, executor) = Responder::read(&peers.executor, &prologue(Suite::Ik), &first)
        .unwrap()
        .accept()
        .unwrap();
    let (sealer, _) = initiator.finish(&second).unwrap().split();
    let (_, opener) = executor.split();
    (sealer, opener)
}
