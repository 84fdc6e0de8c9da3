//! What holds for every input: no bytes panic, what is written reads back, scan agrees with a naive check.

use std::collections::HashSet;
use std::fmt;

use bytes::Bytes;
use mainstay_wire::envelope::{self, Message, RequestId};
use mainstay_wire::process::{OutputParams, Stream, parse_output, write_output};
use mainstay_wire::relay::{Body, Frame};
use mainstay_wire::scan::{Excess, scan};
use mainstay_wire::{PathUri, base64, limits, registry};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// Everything that takes bytes from a peer.
fn swallow(bytes: &[u8]) {
    let _ = envelope::parse(bytes);
    if let Ok(Message::Request(request)) = envelope::parse_trusted(bytes) {
        let _ = request.params::<mainstay_wire::process::Start>();
        let _ = request.params::<mainstay_wire::fs::Walk>();
        let _ = request.params::<mainstay_wire::http::HttpRequest>();
    }
    let _ = parse_output(bytes);
    let _ = Frame::decode(Bytes::copy_from_slice(bytes));
    let _ = registry::read_error(bytes, "empty");
    let _ = base64::decode(bytes);
    let _ = serde_json::from_slice::<registry::PublicKey>(bytes);
    if let Ok(uri) = PathUri::from_native_bytes(bytes) {
        let _ = uri.join_native_bytes(bytes);
    }
    let text = String::from_utf8_lossy(bytes);
    let _ = scan(&text);
    if let Ok(uri) = PathUri::parse(&text) {
        let _ = uri.to_native_bytes();
        assert_eq!(
            PathUri::parse(uri.as_str()).as_ref(),
            Ok(&uri),
            "normal forms stay"
        );
    }
}

/// Messages to damage.
fn seeds() -> impl Strategy<Value = Vec<u8>> {
    let frame = Frame::new(
        "s",
        Body::Data {
            seq: 1,
            payload: Bytes::from_static(b"abc"),
        },
    );
    prop::sample::select(vec![
        br#"{"id":1,"method":"process/start","params":{"processId":"p","argv":["a"],"cwd":"file:///w","env":{"A":"1"},"tty":false}}"#.to_vec(),
        br#"{"method":"process/output","params":{"processId":"p1","seq":1,"stream":"stdout","chunk":"b3V0"}}"#.to_vec(),
        br#"{"error":{"code":-32603,"data":{"kind":"spawnNotFound"},"message":"m"},"id":"x"}"#.to_vec(),
        br#"{"id":12,"result":{"a":[1.5e3,true,null,"\u00e9\ud83d\ude00"]}}"#.to_vec(),
        br#"{"error":{"code":"c","message":"m"}}"#.to_vec(),
        b"file://localhost/a%20b/../c?x#y".to_vec(),
        frame.encode().to_vec(),
    ])
}

/// JSON text with repeated keys, escapes and spaces: what a `Value` cannot hold.
fn json_text() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![
        "", "a", "b", "\\u0061", "\\\"", "é", "\\u00e9", "k1", "k2", "k3", "\\/", "/",
    ]);
    let scalar = prop::sample::select(vec![
        "0",
        "-1.5e+3",
        "true",
        "null",
        "\"\"",
        "\"a\"",
        "\"{,\\\\\\\"[\"",
        "\"é\"",
    ]);
    let scalar = scalar.prop_map(str::to_owned);
    scalar.prop_recursive(6, 60, 20, move |inner| {
        let member =
            (key.clone(), inner.clone()).prop_map(|(key, value)| format!("\"{key}\" : {value}"));
        prop_oneof![
            vec(inner, 0..5).prop_map(|items| format!("[{}]", items.join(" ,\n"))),
            vec(member, 0..20).prop_map(|members| format!("{{ {}}}", members.join(","))),
        ]
    })
}

/// A JSON value that remembers repeated keys, built by serde.
#[derive(Debug)]
enum Node {
    Scalar,
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Node {
    fn repeats(&self) -> bool {
        match self {
            Node::Scalar => false,
            Node::Array(items) => items.iter().any(Node::repeats),
            Node::Object(members) => {
                let mut seen = HashSet::new();
                members
                    .iter()
                    .any(|(key, value)| !seen.insert(key) || value.repeats())
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Node;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }
            fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
                Ok(Node::Scalar)
            }
            fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
                Ok(Node::Scalar)
            }
            fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
                Ok(Node::Scalar)
            }
            fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
                Ok(Node::Scalar)
            }
            fn visit_str<E>(self, _: &str) -> Result<Node, E> {
                Ok(Node::Scalar)
            }
            fn visit_unit<E>(self) -> Result<Node, E> {
                Ok(Node::Scalar)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
                let mut array = Vec::new();
                while let Some(item) = items.next_element()? {
                    array.push(item);
                }
                Ok(Node::Array(array))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Node, A::Error> {
                let mut object = Vec::new();
                while let Some(member) = members.next_entry()? {
                    object.push(member);
                }
                Ok(Node::Object(object))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 30, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            btree_map(".*", inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn id() -> impl Strategy<Value = RequestId> {
    prop_oneof![
        any::<i64>().prop_map(RequestId::Int),
        ".*".prop_map(RequestId::Text)
    ]
}

fn body() -> impl Strategy<Value = Body> {
    let payload = || vec(any::<u8>(), 1..300).prop_map(Bytes::from);
    prop_oneof![
        (any::<u32>(), payload()).prop_map(|(seq, payload)| Body::Data { seq, payload }),
        Just(Body::Ack),
        Just(Body::Heartbeat),
        any::<u32>().prop_map(|next_seq| Body::Resume { next_seq }),
        ".+".prop_map(|reason| Body::Reset { reason }),
        payload().prop_map(|payload| Body::Handshake { payload }),
    ]
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in vec(any::<u8>(), 0..400)) {
        swallow(&bytes);
    }

    #[test]
    fn no_jsonish_text_panics(text in r#"[\[\]{}:,"\\0-9a-z\-.eéu \n]{0,200}"#) {
        swallow(text.as_bytes());
    }

    #[test]
    fn no_urlish_text_panics(text in r"(?i:file|http):/{0,4}[a-z@:%?#|~./\\é0-9]{0,60}") {
        swallow(text.as_bytes());
    }

    #[test]
    fn no_damaged_message_panics(
        seed in seeds(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
        doubled in any::<bool>(),
    ) {
        let mut bytes = seed;
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if doubled {
            bytes.extend_from_within(..);
        }
        swallow(&bytes);
        swallow(&bytes[..cut.index(bytes.len())]);
    }

    #[test]
    fn scan_agrees_with_a_naive_check(text in json_text()) {
        let naive: Node = serde_json::from_str(&text).unwrap();
        let found = scan(&text);
        let duplicate = matches!(&found, Err(Excess::DuplicateKey { .. }));
        prop_assert_eq!(duplicate, naive.repeats(), "{}", text);
        prop_assert!(duplicate || found.is_ok());
    }

    #[test]
    fn scan_agrees_with_serde_about_depth(kinds in vec(any::<bool>(), 120..136)) {
        let mut text = "0".to_owned();
        for object in &kinds {
            text = if *object { format!(r#"{{"a":{text}}}"#) } else { format!("[{text}]") };
        }
        let serde = serde_json::from_str::<Value>(&text);
        prop_assert_eq!(scan(&text).is_ok(), serde.is_ok());
        prop_assert_eq!(scan(&text).is_ok(), kinds.len() <= limits::JSON_DEPTH);
    }

    #[test]
    fn messages_read_back(id in id(), method in ".*", params in value(), code in any::<i64>(), text in ".*", data in option::of(value())) {
        let request = envelope::request(&id, &method, &params, None);
        let Message::Request(read) = envelope::parse(request.as_bytes()).unwrap() else { panic!("{request}") };
        prop_assert_eq!((&read.id, &*read.method), (&id, &*method));
        prop_assert_eq!(&serde_json::from_str::<Value>(read.params.unwrap().get()).unwrap(), &params);

        let notification = envelope::notification(&method, &params);
        let Message::Notification(read) = envelope::parse(notification.as_bytes()).unwrap() else { panic!("{notification}") };
        prop_assert_eq!(&*read.method, &*method);

        let success = envelope::success(&id, &params);
        let Message::Success(read) = envelope::parse(success.as_bytes()).unwrap() else { panic!("{success}") };
        prop_assert_eq!(&read.id, &id);
        prop_assert_eq!(&serde_json::from_str::<Value>(read.result.get()).unwrap(), &params);

        // `null` data is no data.
        let error = mainstay_wire::RpcError { code, message: text, data: data.filter(|data| !data.is_null()) };
        let failure = envelope::failure(&id, &error);
        let Message::Failure(read) = envelope::parse(failure.as_bytes()).unwrap() else { panic!("{failure}") };
        prop_assert_eq!((read.id, read.error), (id, error));
    }

    #[test]
    fn output_frames_read_back(process_id in ".*", seq in any::<u64>(), bytes in vec(any::<u8>(), 0..300)) {
        let mut frame = String::new();
        write_output(&mut frame, &process_id, seq, Stream::Stderr, &bytes);
        let read = parse_output(frame.as_bytes()).unwrap();
        prop_assert_eq!((&*read.process_id, read.seq, read.stream), (&*process_id, seq, Stream::Stderr));
        prop_assert_eq!(&read.decode().unwrap(), &bytes);
        let params = OutputParams { process_id, seq, stream: Stream::Stderr, chunk: bytes.into() };
        prop_assert_eq!(frame, envelope::notification("process/output", &params));
    }

    #[test]
    fn base64_reads_back_and_refuses_what_it_would_not_write(bytes in vec(any::<u8>(), 0..100), text in "[A-Za-z0-9+/=]{0,24}") {
        let mut written = String::new();
        base64::encode_into(&bytes, &mut written);
        prop_assert_eq!(base64::decode(written.as_bytes()).unwrap(), bytes);
        if let Ok(bytes) = base64::decode(text.as_bytes()) {
            let mut again = String::new();
            base64::encode_into(&bytes, &mut again);
            prop_assert_eq!(again, text);
        }
    }

    #[test]
    fn native_paths_read_back(segments in vec(vec(1u8..=255, 1..12), 0..6)) {
        let segments: Vec<Vec<u8>> = segments
            .into_iter()
            .map(|segment| segment.into_iter().map(|byte| if byte == b'/' { b'_' } else { byte }).collect::<Vec<u8>>())
            .filter(|segment| segment != b"." && segment != b"..")
            .collect();
        let mut path = vec![b'/'];
        path.extend_from_slice(&segments.join(&b'/'));
        let uri = PathUri::from_native_bytes(&path).unwrap();
        prop_assert_eq!(&uri.to_native_bytes().unwrap(), &path);
        // What we write is already in the normal form.
        prop_assert_eq!(&PathUri::parse(uri.as_str()).unwrap(), &uri);
    }

    #[test]
    fn joining_is_appending_and_normalising(base in "(/[a-z.]{1,4}){0,3}", more in "[a-z./]{0,12}") {
        let base = if base.is_empty() { "/".to_owned() } else { base };
        let uri = PathUri::from_native_bytes(base.as_bytes()).unwrap();
        let joined = uri.join_native_bytes(more.as_bytes()).unwrap();
        let whole = if more.starts_with('/') { more } else { format!("{base}/{more}") };
        prop_assert_eq!(joined, PathUri::from_native_bytes(whole.as_bytes()).unwrap());
    }

    #[test]
    fn relay_frames_read_back(
        stream_id in "[a-z0-9-]{1,36}",
        body in body(),
        traceparent in option::of(".*"),
        tracestate in option::of(".*"),
    ) {
        let frame = Frame { stream_id, body, traceparent, tracestate };
        prop_assert_eq!(Frame::decode(frame.encode()), Ok(frame));
    }
}
