//! Every message of the recorded conversations parses, and its typed form is written as it was recorded.

use std::path::PathBuf;

use mainstay_wire::envelope::{self, Message, Request, Success};
use mainstay_wire::{
    Call, Notice, RpcError, capabilities, environment, fs, http, initialize, network, process,
};
use serde::Serialize;
use serde_json::{Value, json};

struct Line {
    file: String,
    number: usize,
    value: Value,
}

fn lines() -> Vec<Line> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/transcripts");
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        // T80 is HTTP, not JSON-RPC.
        if !file.ends_with(".jsonl") || file.starts_with("80_") {
            continue;
        }
        for (at, line) in std::fs::read_to_string(&path).unwrap().lines().enumerate() {
            lines.push(Line {
                file: file.clone(),
                number: at + 1,
                value: serde_json::from_str(line).unwrap(),
            });
        }
    }
    assert!(lines.len() > 1000, "the recordings are missing");
    lines
}

/// Written, then read back as a value: `null` members that we leave out count as absent.
fn written<T: Serialize>(value: &T) -> Value {
    without_nulls(serde_json::to_value(value).unwrap())
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, without_nulls(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

/// The params of `C`, if they have the right shape, are written as recorded, but for members with a default and
/// unknown ones.
fn check_params<C: Call>(request: &Request<'_>, at: &str) {
    let Ok(params) = request.params::<C>() else {
        return;
    };
    if at == "31_fs_mutations.jsonl:7" {
        return; // Bad base64, which is kept as an error and has nothing to be written from.
    }
    let recorded = request
        .params
        .map_or(Value::Null, |raw| serde_json::from_str(raw.get()).unwrap());
    let written = written(&params);
    let again: C::Params = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(self::written(&again), written, "{at}");
    agree(&written, &without_nulls(recorded), at);
}

/// Members that are in both are equal; paths may have been normalised.
#[track_caller]
fn agree(written: &Value, recorded: &Value, at: &str) {
    match (written, recorded) {
        (Value::Object(written), Value::Object(recorded)) => {
            for (key, value) in written {
                match recorded.get(key) {
                    Some(recorded) if !key.to_lowercase().contains("path") && key != "cwd" => {
                        agree(value, recorded, at)
                    }
                    Some(_) | None => {}
                }
            }
        }
        // Absent params of a method without any.
        (Value::Object(written), Value::Null) if written.is_empty() => {}
        _ => assert_eq!(written, recorded, "{at}"),
    }
}

fn check_answer<C: Call>(success: &Success<'_>, at: &str) {
    let answer = success
        .answer::<C>()
        .unwrap_or_else(|error| panic!("{at}: {error}"));
    let recorded: Value = serde_json::from_str(success.result.get()).unwrap();
    // Nulls included: this is what our executor would have written.
    let mut ours = serde_json::to_value(&answer).unwrap();
    if C::METHOD == "initialize" {
        ours = written(&answer);
    }
    assert_eq!(ours, recorded, "{at}");
}

fn check_notice<N: Notice>(notice: &envelope::Notification<'_>, at: &str) {
    let params = notice
        .params::<N>()
        .unwrap_or_else(|error| panic!("{at}: {error}"));
    let recorded: Value = serde_json::from_str(notice.params.unwrap().get()).unwrap();
    assert_eq!(serde_json::to_value(&params).unwrap(), recorded, "{at}");
}

macro_rules! every_call {
    ($function:ident, $method:expr, $arguments:tt) => {
        every_call!(@ $function, $method, $arguments,
            initialize::Initialize, process::Start, process::Read, process::Write, process::SignalCall, process::Terminate,
            environment::Info, environment::Status, environment::ConfigRead, capabilities::DiscoverV2,
            capabilities::DiscoverRootsV1, http::HttpRequest, fs::ReadFile, fs::WriteFile, fs::CreateDirectory,
            fs::GetMetadata, fs::Canonicalize, fs::ReadDirectory, fs::Walk, fs::Remove, fs::Copy, fs::Open, fs::ReadBlock,
            fs::WriteBlock, fs::Close, fs::WatchMissing, network::PolicyRequest)
    };
    (@ $function:ident, $method:expr, $arguments:tt, $($call:ty),*) => {
        match $method {
            $(<$call as Call>::METHOD => { every_call!(! $function, $call, $arguments); true })*
            _ => false,
        }
    };
    (! $function:ident, $call:ty, ($($argument:expr),*)) => { $function::<$call>($($argument),*) };
}

#[test]
fn every_message_parses_and_is_written_the_same() {
    let mut asked: std::collections::HashMap<(String, Value, String), String> =
        std::collections::HashMap::new();
    let (mut requests, mut answers, mut notices) = (0, 0, 0);
    for line in lines() {
        let at = format!("{}:{}", line.file, line.number);
        let direction = line.value["dir"].as_str().unwrap();
        let Some(message) = line.value.get("msg") else {
            continue;
        };
        let text = message.to_string();
        let connection = line.value["conn"].to_string();
        let conversation = |id: &Value, from: &str| {
            (
                format!("{}#{connection}", line.file),
                id.clone(),
                from.to_owned(),
            )
        };
        match envelope::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{at}: {error}")) {
            Message::Request(request) => {
                requests += 1;
                asked.insert(
                    conversation(&message["id"], direction),
                    request.method.clone().into_owned(),
                );
                let known = every_call!(check_params, &*request.method, (&request, &at));
                assert!(
                    known || request.method == "nope/method" || direction == "c2s",
                    "{at}: {}",
                    request.method
                );
            }
            Message::Success(success) => {
                let other = if direction == "s2c" { "c2s" } else { "s2c" };
                let key = conversation(&message["id"], other);
                // T02 and T03 send requests as raw text, T03 also answers nobody asked for.
                let Some(method) = asked.get(&key) else {
                    assert!(
                        line.file.starts_with("02_")
                            || line.file.starts_with("03_")
                            || message["result"] == json!({"status": "ready"}),
                        "{at}"
                    );
                    continue;
                };
                if method == "network/policyRequest"
                    && success.answer::<network::PolicyRequest>().is_err()
                {
                    assert_eq!(
                        message["result"],
                        json!({"decision": "allow"}),
                        "{at}: the one deliberately bad shape"
                    );
                    continue;
                }
                answers += 1;
                assert!(
                    every_call!(check_answer, method.as_str(), (&success, &at)),
                    "{at}: {method}"
                );
            }
            Message::Failure(failure) => {
                answers += 1;
                assert_eq!(
                    serde_json::to_value(&failure.error).unwrap(),
                    message["error"],
                    "{at}"
                );
                let codes = [
                    -32600,
                    -32601,
                    -32602,
                    -32603,
                    RpcError::NOT_FOUND,
                    RpcError::ALREADY_ATTACHED,
                ];
                assert!(
                    codes.contains(&failure.error.code) || direction == "c2s",
                    "{at}"
                );
            }
            Message::Notification(notice) => {
                if direction == "c2s" {
                    continue;
                }
                notices += 1;
                match &*notice.method {
                    "process/output" => {
                        check_notice::<process::Output>(&notice, &at);
                        let canonical = envelope::notification(
                            "process/output",
                            &notice.params::<process::Output>().unwrap(),
                        );
                        assert!(
                            process::parse_output(canonical.as_bytes()).is_some(),
                            "{at}"
                        );
                    }
                    "process/exited" => check_notice::<process::Exited>(&notice, &at),
                    "process/closed" => check_notice::<process::Closed>(&notice, &at),
                    "fs/missingChanged" => check_notice::<fs::MissingChanged>(&notice, &at),
                    "http/request/bodyDelta" => check_notice::<http::BodyDelta>(&notice, &at),
                    "network/policyDecision" => {
                        check_notice::<network::PolicyDecision>(&notice, &at)
                    }
                    other => panic!("{at}: {other}"),
                }
            }
        }
    }
    assert!(
        requests > 300 && answers > 300 && notices > 100,
        "{requests} {answers} {notices}"
    );
}

/// What the reference answered with -32602 because of the shape, our types refuse with the same words, up to where a
/// library's wording begins.
#[test]
fn shape_errors_read_like_the_recorded_ones() {
    // Not by the shape: these are the executor's own checks of values.
    let by_value = [
        "argv must not be empty",
        "cwd URI",
        "'file:///",
        "writeId must not be empty",
        "http/request",
        "at least one config",
        "TOML paths",
        "network policy decision callback timeout must be nonzero",
        "callback-enabled process ID must be",
        "file system sandbox context",
    ];
    let recorded: std::collections::HashMap<_, _> = lines()
        .into_iter()
        .filter(|line| line.value["dir"] == "s2c" && line.value["msg"]["error"]["code"] == -32602)
        .map(|line| {
            (
                (
                    line.file,
                    line.value["conn"].to_string(),
                    line.value["msg"]["id"].clone(),
                ),
                line.value["msg"]["error"]["message"]
                    .as_str()
                    .unwrap()
                    .to_owned(),
            )
        })
        .collect();
    let mut checked = 0;
    for line in lines() {
        let key = (
            line.file.clone(),
            line.value["conn"].to_string(),
            line.value["msg"]["id"].clone(),
        );
        let Some(expected) = recorded.get(&key).filter(|_| line.value["dir"] == "c2s") else {
            continue;
        };
        if by_value.iter().any(|text| expected.starts_with(text)) {
            continue;
        }
        let text = line.value["msg"].to_string();
        let Message::Request(request) = envelope::parse(text.as_bytes()).unwrap() else {
            panic!("{text}")
        };
        fn refusal<C: Call>(request: &Request<'_>, expected: &str) {
            let found = match request.params::<C>() {
                Ok(_) => panic!(
                    "{} took {:?}, expected {expected}",
                    C::METHOD,
                    request.params
                ),
                Err(error) => error.message,
            };
            // serde_json tells numbers apart where the reference's build of it does not; uuid changed its words.
            let library = [
                "invalid type: number",
                "invalid number",
                "invalid character: ",
            ];
            let same = if library.iter().any(|text| expected.starts_with(text)) {
                found.starts_with("invalid ")
            } else {
                found == expected
            };
            assert!(same, "{}: {found:?}, recorded {expected:?}", C::METHOD);
        }
        // We know more signals than the reference.
        if expected.starts_with("unknown variant `kill`") {
            continue;
        }
        assert!(
            every_call!(refusal, &*request.method, (&request, expected)),
            "{}",
            request.method
        );
        checked += 1;
    }
    assert!(checked > 40, "{checked}");
}
