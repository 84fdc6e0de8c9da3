//! The envelope, from section 2 of the protocol and the recorded answers T01, T02 and T03.

use mainstay_wire::envelope::{self, Malformed, Message, RequestId};
use mainstay_wire::{RpcError, environment, fs, initialize, process};
use serde_json::json;

fn parse(text: &str) -> Message<'_> {
    envelope::parse(text.as_bytes()).unwrap()
}

fn malformed(text: &str) -> String {
    envelope::parse(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn the_four_kinds() {
    let Message::Request(request) = parse(r#"{"id":1,"method":"m","params":{"a":1}}"#) else {
        panic!()
    };
    assert_eq!((request.id, &*request.method), (RequestId::Int(1), "m"));
    assert_eq!(request.params.unwrap().get(), r#"{"a":1}"#);
    let Message::Notification(notice) = parse(r#"{"method":"n"}"#) else {
        panic!()
    };
    assert!(notice.method == "n" && notice.params.is_none());
    let Message::Success(success) = parse(r#"{"result":null,"id":"x"}"#) else {
        panic!()
    };
    assert_eq!(
        (success.id, success.result.get()),
        (RequestId::Text("x".into()), "null")
    );
    let Message::Failure(failure) = parse(r#"{"error":{"message":"no","code":-32603},"id":-1}"#)
    else {
        panic!()
    };
    assert_eq!(
        (failure.id, failure.error),
        (envelope::UNREADABLE_ID, RpcError::internal("no"))
    );
}

#[test]
fn s2_classification_goes_by_presence() {
    assert!(matches!(
        parse(r#"{"id":1,"method":"m","result":1,"error":2}"#),
        Message::Request(_)
    ));
    assert!(matches!(
        parse(r#"{"method":"m","result":1}"#),
        Message::Notification(_)
    ));
    assert!(matches!(
        parse(r#"{"id":1,"result":1,"error":2}"#),
        Message::Success(_)
    ));
    assert_eq!(malformed(r#"{"result":1}"#), "missing field `id`");
    assert_eq!(
        malformed(r#"{"error":{"code":1,"message":"m"}}"#),
        "missing field `id`"
    );
}

#[test]
fn t02_accepted() {
    for text in [
        r#"{"jsonrpc":"2.0","id":10,"method":"environment/status","params":{}}"#,
        r#"{"jsonrpc":7,"id":11,"method":"environment/status","params":{}}"#,
        r#"{"id":"string-id","method":"environment/status","params":{}}"#,
        r#"{"id":-7,"method":"environment/status"}"#,
        r#"{"id":9223372036854775807,"method":"environment/status"}"#,
        r#"{"id":-9223372036854775808,"method":"environment/status"}"#,
        r#"{"id":-0,"method":"environment/status"}"#,
        r#"{"id":5,"method":"environment/status","trace":["a","b"]}"#,
        r#"{"id":5,"method":"environment/status","x":1e999}"#,
        r#"{"id":12,"method":"environment/status","params":{},"extra":true,"trace":{"traceparent":"00-1-2-01"}}"#,
        r#"{"id":12,"method":"environment/status","trace":null}"#,
        r#"{"id":12,"method":"environment/status","trace":{"tracestate":null,"x":1}}"#,
        "  \n {\"id\":21,\"method\":\"environment/status\"}  \n",
    ] {
        let Message::Request(request) = parse(text) else {
            panic!("{text}")
        };
        request.params::<environment::Status>().unwrap();
    }
}

#[test]
fn t02_malformed() {
    for (text, detail) in [
        (
            r#"{"id":9223372036854775808,"method":"m"}"#,
            "data did not match any variant of untagged enum RequestId",
        ),
        (
            r#"{"id":1.5,"method":"m"}"#,
            "data did not match any variant of untagged enum RequestId",
        ),
        (
            r#"{"id":1.0,"method":"m"}"#,
            "data did not match any variant of untagged enum RequestId",
        ),
        (
            r#"{"id":{},"method":"m"}"#,
            "data did not match any variant of untagged enum RequestId",
        ),
        (
            r#"{"id":null,"method":"m"}"#,
            "data did not match any variant of untagged enum RequestId",
        ),
        (
            r#"{"id":13,"method":"m","trace":"bad"}"#,
            "invalid type: string \"bad\", expected struct W3cTraceContext",
        ),
        (
            r#"{"id":14,"method":"m", "method":"n"}"#,
            "duplicate JSON object key `method`",
        ),
        (
            r#"{"id":14,"method":"m","params":{"a":{"b":1,"b":2}}}"#,
            "duplicate JSON object key `b`",
        ),
        (
            r#"{"id":1e2,"method":"m"}"#,
            "data did not match any variant of untagged enum RequestId",
        ),
        (r#"{"id":01,"method":"m"}"#, "invalid number"),
        (
            r#"{"id":5,"method":"m","x":"\ud800"}"#,
            "lone surrogate in hex escape",
        ),
        ("not json", "expected ident at line 1 column 2"),
        ("", "EOF while parsing a value at line 1 column 0"),
        ("[]", "expected a JSON-RPC object"),
        (r#"[{"id":15,"method":"m"}]"#, "expected a JSON-RPC object"),
        ("5", "expected a JSON-RPC object"),
        ("null", "expected a JSON-RPC object"),
        ("{}", "missing field `error`"),
        (r#"{"id":16}"#, "missing field `error`"),
        (r#"{"id":17,"method":5}"#, "invalid type: "),
        (
            r#"{"id":17,"method":null}"#,
            "invalid type: null, expected a string",
        ),
        (
            r#"{"id":18,"method":"m"} trailing"#,
            "trailing characters at line 1 column 24",
        ),
        (
            r#"{"id":19,"error":{"code":"x","message":"m"}}"#,
            "invalid type: string \"x\", expected i64",
        ),
        (r#"{"id":20,"error":{"code":1}}"#, "missing field `message`"),
    ] {
        let found = malformed(text);
        assert!(found.starts_with(detail), "{text}: {found}");
    }
    assert!(matches!(
        envelope::parse(b"\xFF\xFE\0bad"),
        Err(Malformed::NotUtf8(0))
    ));
    // Even where nothing looks at it.
    assert!(matches!(
        envelope::parse(b"{\"method\":\"m\",\"extra\":\"\xFF\"}"),
        Err(Malformed::NotUtf8(_))
    ));
}

#[test]
fn s2_depth_is_refused_where_nobody_looks() {
    let text = format!(
        r#"{{"id":1,"method":"m","extra":{}{}}}"#,
        "[".repeat(127),
        "]".repeat(127)
    );
    assert_eq!(malformed(&text), "recursion limit exceeded");
}

#[test]
fn a_notification_survives_a_strange_trace() {
    assert!(matches!(
        parse(r#"{"method":"m","trace":5}"#),
        Message::Notification(_)
    ));
}

#[test]
fn t02_t70_answers_to_the_unreadable() {
    let error = envelope::parse(b"[]").unwrap_err();
    assert_eq!(
        envelope::failure(
            &envelope::UNREADABLE_ID,
            &error.on_websocket("127.0.0.1:40000")
        ),
        r#"{"error":{"code":-32600,"message":"failed to parse websocket JSON-RPC message from exec-server websocket 127.0.0.1:40000: expected a JSON-RPC object"},"id":-1}"#
    );
    assert!(
        error
            .on_stdio()
            .message
            .starts_with("failed to parse JSON-RPC message from exec-server stdio: ")
    );
}

#[test]
fn the_unreadable_is_not_echoed_at_length() {
    let huge = format!(
        r#"{{"id":1,"method":"m","trace":"{}"}}"#,
        "ü".repeat(1_000_000)
    );
    assert!(malformed(&huge).len() < 2000);
    let Message::Request(request) =
        parse(r#"{"id":1,"method":"m","params":{"processId":"p","afterSeq":"X"}}"#)
    else {
        panic!()
    };
    assert_eq!(
        request.params::<process::Read>().unwrap_err().message,
        "invalid type: string \"X\", expected u64"
    );
    let huge = format!(
        r#"{{"id":1,"method":"m","params":{{"processId":"p","afterSeq":"{}"}}}}"#,
        "x".repeat(1_000_000)
    );
    let Message::Request(request) = parse(&huge) else {
        panic!()
    };
    assert!(request.params::<process::Read>().unwrap_err().message.len() < 2000);
}

#[test]
fn t01_params_of_methods_without_any() {
    let status = |params: &str| {
        let text = format!(r#"{{"id":1,"method":"environment/status"{params}}}"#);
        let Message::Request(request) = parse(&text) else {
            panic!()
        };
        request
            .params::<environment::Status>()
            .map(|_| ())
            .map_err(|error| (error.code, error.message))
    };
    for accepted in [
        "",
        r#","params":null"#,
        r#","params":{}"#,
        r#","params":{ }"#,
    ] {
        assert_eq!(status(accepted), Ok(()));
    }
    let refused = |text: &str| Err((RpcError::INVALID_PARAMS, text.to_owned()));
    assert_eq!(
        status(r#","params":[]"#),
        refused("invalid type: sequence, expected unit")
    );
    assert_eq!(
        status(r#","params":{"x":1}"#),
        refused("invalid type: map, expected unit")
    );
    assert!(
        status(r#","params":"x""#)
            .unwrap_err()
            .1
            .starts_with("invalid type: string")
    );
}

/// Observed at the reference, which decodes from values.
#[test]
fn shape_errors_name_what_was_found() {
    let open = |mode: &str| {
        let text = format!(
            r#"{{"id":1,"method":"fs/open","params":{{"handleId":"h","path":"file:///","mode":{mode}}}}}"#
        );
        let Message::Request(request) = parse(&text) else {
            panic!()
        };
        request.params::<fs::Open>().unwrap_err().message
    };
    assert_eq!(open("[]"), "invalid type: sequence, expected string or map");
    assert_eq!(
        open("true"),
        "invalid type: boolean `true`, expected string or map"
    );
    assert_eq!(
        open(r#"{"a":1,"b":2}"#),
        "invalid value: map, expected map with a single key"
    );
}

#[test]
fn t01_params_of_initialize() {
    let initialize = |params: &str| {
        let text = format!(r#"{{"id":1,"method":"initialize"{params}}}"#);
        let Message::Request(request) = parse(&text) else {
            panic!()
        };
        request
            .params::<initialize::Initialize>()
            .map_err(|error| error.message)
    };
    assert_eq!(
        initialize("").unwrap_err(),
        "invalid type: null, expected struct InitializeParams"
    );
    assert_eq!(
        initialize(r#","params":{}"#).unwrap_err(),
        "missing field `clientName`"
    );
    assert!(
        initialize(r#","params":{"clientName":5}"#)
            .unwrap_err()
            .starts_with("invalid type: ")
    );
    let params =
        initialize(r#","params":{"clientName":"probe","resumeSessionId":null,"later":1}"#).unwrap();
    assert_eq!(
        params,
        initialize::InitializeParams {
            client_name: "probe".into(),
            ..Default::default()
        }
    );
    let params = initialize(r#","params":{"clientName":"m","mainstay":{"capabilities":["mainstayCredit"],"takeOver":null}}"#).unwrap();
    let extension = params.mainstay.unwrap();
    assert!(extension.has("mainstayCredit") && !extension.take_over);
}

#[test]
fn initialized_takes_anything() {
    for params in [
        "",
        r#","params":[1]"#,
        r#","params":{"x":1}"#,
        r#","params":null"#,
    ] {
        let text = format!(r#"{{"method":"initialized"{params}}}"#);
        let Message::Notification(notice) = parse(&text) else {
            panic!()
        };
        notice.params::<initialize::Initialized>().unwrap();
    }
}

#[test]
fn written() {
    let params = process::TerminateParams {
        process_id: "p".into(),
        grace_ms: None,
    };
    assert_eq!(
        envelope::request(&RequestId::Int(3), "process/terminate", &params, None),
        r#"{"id":3,"method":"process/terminate","params":{"processId":"p"}}"#
    );
    assert_eq!(
        envelope::notification(
            "fs/missingChanged",
            &fs::MissingChangedParams { watch_id: 4 }
        ),
        r#"{"method":"fs/missingChanged","params":{"watchId":4}}"#
    );
    let error = RpcError::internal("No such file or directory (os error 2)")
        .with_data(json!({"kind": "spawnNotFound"}));
    assert_eq!(
        envelope::failure(&RequestId::Text("a".into()), &error),
        r#"{"error":{"code":-32603,"data":{"kind":"spawnNotFound"},"message":"No such file or directory (os error 2)"},"id":"a"}"#
    );
}

#[test]
fn s14_texts_of_the_handshake_errors() {
    use mainstay_wire::{Call, Family};
    let texts = [
        RpcError::before_initialize(process::Start::FAMILY),
        RpcError::before_initialized(fs::ReadFile::FAMILY),
        RpcError::before_initialize(Family::CapabilityDiscovery),
        RpcError::method_not_found("nope/method"),
        RpcError::unknown_session("not-a-uuid"),
        RpcError::already_attached("s"),
    ]
    .map(|error| (error.code, error.message));
    let expected = [
        (
            -32600,
            "client must call initialize before using exec methods",
        ),
        (
            -32600,
            "client must send initialized before using filesystem methods",
        ),
        (
            -32600,
            "client must call initialize before using capability discovery methods",
        ),
        (
            -32601,
            "exec-server stub does not implement `nope/method` yet",
        ),
        (-32600, "unknown session id not-a-uuid"),
        (
            -32010,
            "session s is already attached to another connection",
        ),
    ]
    .map(|(code, message)| (code, message.to_owned()));
    assert_eq!(texts, expected);
}
