//! The process family, from sections 6 and 7 of the protocol and the recorded conversations T10 to T13.

use mainstay_wire::process::*;
use mainstay_wire::{PathUri, RpcError, envelope};
use serde::de::DeserializeOwned;
use serde_json::json;

fn decode<T: DeserializeOwned>(params: &str) -> Result<T, RpcError> {
    let raw: &serde_json::value::RawValue = serde_json::from_str(params).unwrap();
    envelope::decode_params(Some(raw))
}

fn message<T: DeserializeOwned + std::fmt::Debug>(params: &str) -> String {
    let error = decode::<T>(params).unwrap_err();
    assert_eq!(error.code, RpcError::INVALID_PARAMS);
    error.message
}

#[test]
fn t11_start_shape_errors() {
    for (params, expected) in [
        (r#"{"processId":"m1"}"#, "missing field `argv`"),
        (
            r#"{"processId":"m1","argv":["/bin/true"]}"#,
            "missing field `cwd`",
        ),
        (
            r#"{"processId":"m1","argv":["/bin/true"],"cwd":"file:///"}"#,
            "missing field `env`",
        ),
        (
            r#"{"processId":"m1","argv":["/bin/true"],"cwd":"file:///","env":{}}"#,
            "missing field `tty`",
        ),
        (
            r#"{"processId":"m1","argv":[],"cwd":"/w","env":{},"tty":false}"#,
            "invalid URI: relative URL without a base",
        ),
        (
            r#"{"processId":"m1","argv":[],"cwd":"http://e/x","env":{},"tty":false}"#,
            "unsupported path URI scheme `http`",
        ),
        (
            r#"{"processId":"m1","argv":[],"cwd":"file:///","env":{},"tty":false,"sandbox":{}}"#,
            "missing field `permissions`",
        ),
        (
            r#"{"processId":"m1","argv":[],"cwd":"file:///","env":{},"tty":false,"sandbox":{"permissions":{"type":"disabled"}}}"#,
            "missing field `windowsSandboxLevel`",
        ),
        (
            r#"{"processId":"m1","argv":[],"cwd":"file:///","env":{},"tty":false,"shellSnapshot":{}}"#,
            "missing field `scopeId`",
        ),
        (
            r#"{"processId":"m1","argv":[],"cwd":"file:///","env":{},"tty":false,"envPolicy":{}}"#,
            "missing field `inherit`",
        ),
        (
            r#"{"processId":"m1","argv":[],"cwd":"file:///","env":{},"tty":false,"networkProxy":{}}"#,
            "missing field `proxy`",
        ),
    ] {
        assert_eq!(message::<StartParams>(params), expected, "{params}");
    }
    assert!(message::<StartParams>(r#"{"processId":7}"#).starts_with("invalid type: "));
    let uuid = r#"{"processId":"m1","argv":[],"cwd":"file:///","env":{},"tty":false,"metadata":{"threadId":"not uuid"}}"#;
    assert!(message::<StartParams>(uuid).starts_with("invalid character: "));
}

#[test]
fn t11_start_optional_members() {
    let least = r#""processId":"","argv":[],"cwd":"file:///w","env":{},"tty":false"#;
    let plain = StartParams::new("", vec![], PathUri::parse("file:///w").unwrap());
    assert_eq!(
        decode::<StartParams>(&format!("{{{least}}}")).unwrap(),
        plain
    );
    let nulls = r#""arg0":null,"pipeStdin":null,"envPolicy":null,"sandbox":null,"enforceManagedNetwork":null,
        "managedNetwork":null,"networkProxy":null,"metadata":null,"shellSnapshot":null,"mainstay":null,"unknownField":1"#;
    assert_eq!(
        decode::<StartParams>(&format!("{{{least},{nulls}}}")).unwrap(),
        plain
    );
    let full = r#""arg0":"x","pipeStdin":true,"metadata":{"threadId":"00000000-0000-0000-0000-000000000001","toolCallId":"c"},
        "envPolicy":{"inherit":"core","ignoreDefaultExcludes":false,"exclude":["L*"],"set":{"B":"2"},"includeOnly":[]},
        "managedNetwork":{"loopbackPorts":[1]},"enforceManagedNetwork":true,"mainstay":{"size":{"rows":50,"cols":132}},
        "shellSnapshot":{"scopeId":"s","shell":{"name":"bash","path":"/bin/bash"}}"#;
    let params = decode::<StartParams>(&format!("{{{least},{full}}}")).unwrap();
    assert_eq!(params.env_policy.as_ref().unwrap().inherit, Inherit::Core);
    assert_eq!(params.managed_network.as_ref().unwrap().loopback_ports, [1]);
    let again: StartParams =
        serde_json::from_str(&serde_json::to_string(&params).unwrap()).unwrap();
    assert_eq!(again, params);
}

#[test]
fn t12_bad_field_values() {
    assert_eq!(
        message::<SignalParams>(r#"{"processId":"zz"}"#),
        "missing field `signal`"
    );
    // The reference's text ends after `interrupt`, the one signal it knows.
    assert!(
        message::<SignalParams>(r#"{"processId":"zz","signal":"boo"}"#)
            .starts_with("unknown variant `boo`, expected ")
    );
    assert_eq!(
        message::<WriteParams>(r#"{"processId":"zz","chunk":"eA=="}"#),
        "missing field `writeId`"
    );
    assert_eq!(
        message::<WriteParams>(r#"{"processId":"zz","chunk":"!!!notb64","writeId":"w"}"#),
        "Invalid symbol 33, offset 0."
    );
    assert_eq!(
        message::<ReadParams>(r#"{"processId":"zz","waitMs":"5"}"#),
        "invalid type: string \"5\", expected u64"
    );
    assert!(message::<ReadParams>(r#"{"processId":"zz","afterSeq":-1}"#).starts_with("invalid "));
    let read = decode::<ReadParams>(
        r#"{"processId":"p","afterSeq":null,"maxBytes":null,"waitMs":18446744073709551615}"#,
    )
    .unwrap();
    assert_eq!(
        (read.after_seq, read.max_bytes, read.wait_ms),
        (None, None, Some(u64::MAX))
    );
}

#[test]
fn answers_as_recorded() {
    let start = StartAnswer {
        process_id: "p1".into(),
        sandbox_type: Some(SandboxType::None),
    };
    assert_eq!(
        serde_json::to_string(&start).unwrap(),
        r#"{"processId":"p1","sandboxType":"none"}"#
    );
    let read = r#"{"chunks":[{"seq":1,"stream":"stdout","chunk":"b3V0"}],"nextSeq":6,"exited":true,"exitCode":3,"closed":true,"failure":null,"sandboxDenied":false}"#;
    let answer: ReadAnswer = serde_json::from_str(read).unwrap();
    assert_eq!(&answer.chunks[0].chunk[..], b"out");
    assert_eq!(serde_json::to_string(&answer).unwrap(), read);
    // An older executor, and a newer one.
    let start: StartAnswer = serde_json::from_str(r#"{"processId":"p"}"#).unwrap();
    assert_eq!(start.sandbox_type, None);
    let start: StartAnswer =
        serde_json::from_str(r#"{"processId":"p","sandboxType":"moon"}"#).unwrap();
    assert_eq!(start.sandbox_type, Some(SandboxType::Other("moon".into())));
}

#[test]
fn data_of_a_failed_start() {
    let data: SpawnErrorData = serde_json::from_value(json!({"kind": "spawnNotFound"})).unwrap();
    assert_eq!(
        data,
        SpawnErrorData {
            kind: SpawnErrorKind::SpawnNotFound,
            mainstay_missing: None
        }
    );
    let ours = SpawnErrorData {
        kind: SpawnErrorKind::SpawnNotFound,
        mainstay_missing: Some(mainstay_wire::extension::Missing::Cwd),
    };
    assert_eq!(
        serde_json::to_value(&ours).unwrap(),
        json!({"kind": "spawnNotFound", "mainstayMissing": "cwd"})
    );
    for (kind, word) in [
        (SpawnErrorKind::SpawnFailed, "spawnFailed"),
        (
            SpawnErrorKind::SpawnPermissionDenied,
            "spawnPermissionDenied",
        ),
        (SpawnErrorKind::SandboxUnavailable, "sandboxUnavailable"),
        (SpawnErrorKind::SandboxPreparation, "sandboxPreparation"),
    ] {
        assert_eq!(serde_json::to_value(&kind).unwrap(), json!(word));
    }
}

#[test]
fn hot_frames_equal_the_typed_ones() {
    for id in ["p1", "", "quote\" \\ \u{1} é"] {
        let mut frame = String::new();
        write_output(&mut frame, id, 7, Stream::Pty, b"\0\xFFout");
        let params = OutputParams {
            process_id: id.into(),
            seq: 7,
            stream: Stream::Pty,
            chunk: b"\0\xFFout"[..].into(),
        };
        assert_eq!(frame, envelope::notification("process/output", &params));
        let parsed = parse_output(frame.as_bytes()).unwrap();
        assert_eq!(
            (&*parsed.process_id, parsed.seq, parsed.stream),
            (id, 7, Stream::Pty)
        );
        assert_eq!(parsed.decode().unwrap(), b"\0\xFFout");
        let mut exited = String::new();
        write_exited(&mut exited, id, 8, -1, true);
        let params = ExitedParams {
            process_id: id.into(),
            seq: 8,
            exit_code: -1,
            sandbox_denied: true,
        };
        assert_eq!(exited, envelope::notification("process/exited", &params));
        let mut closed = String::new();
        write_closed(&mut closed, id, u64::MAX);
        let params = ClosedParams {
            process_id: id.into(),
            seq: u64::MAX,
        };
        assert_eq!(closed, envelope::notification("process/closed", &params));
    }
}

#[test]
fn the_hot_parse_borrows_and_declines_what_it_does_not_know() {
    let frame = br#"{"method":"process/output","params":{"processId":"p1","seq":1,"stream":"stdout","chunk":"b3V0"}}"#;
    let parsed = parse_output(frame).unwrap();
    assert!(matches!(
        parsed.process_id,
        std::borrow::Cow::Borrowed("p1")
    ));
    assert!(matches!(parsed.chunk, std::borrow::Cow::Borrowed("b3V0")));
    for other in [
        &br#"{"method":"process/closed","params":{"processId":"p1","seq":1}}"#[..],
        br#"{"params":{"processId":"p1","seq":1,"stream":"stdout","chunk":""},"method":"process/output"}"#,
        br#"{"method":"process/output","params":{"processId":"p1"}}"#,
        br#"{"method":"process/output","params":{"processId":"p1","seq":1,"stream":"stdout","chunk":"b3V0"}} x"#,
        // A request must not be taken for a notification.
        br#"{"method":"process/output","params":{"processId":"p1","seq":1,"stream":"stdout","chunk":""},"id":1}"#,
        br#"{"method":"process/output","params":{"processId":"p1","seq":1,"stream":"stdout","chunk":""},"method":"x"}"#,
        b"",
    ] {
        assert_eq!(parse_output(other), None, "{}", String::from_utf8_lossy(other));
    }
}

#[test]
fn bad_chunks_leave_the_buffer_alone() {
    let frame = br#"{"method":"process/output","params":{"processId":"p1","seq":1,"stream":"stdout","chunk":"b3V0*"}}"#;
    let mut out = b"before".to_vec();
    assert!(parse_output(frame).unwrap().decode_into(&mut out).is_err());
    assert_eq!(out, b"before");
}
