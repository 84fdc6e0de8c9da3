use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use mainstay_session::classify::*;
use mainstay_session::*;

fn text() -> String {
    "text".to_owned()
}

fn http(status: u16, code: Option<&str>) -> Error {
    Error::RegistryHttp {
        status,
        code: code.map(str::to_owned),
        text: text(),
        retry_after: None,
    }
}

fn request(failure: RequestFailure) -> Error {
    Error::RegistryRequest {
        failure,
        text: text(),
    }
}

fn dial(failure: DialFailure) -> Error {
    Error::Connect {
        url: text(),
        failure,
        text: text(),
    }
}

fn upgrade(status: u16) -> Error {
    dial(DialFailure::Http {
        status,
        retry_after: None,
    })
}

fn server(code: i64, text: &str) -> Error {
    Error::Server {
        code,
        text: text.to_owned(),
    }
}

fn disconnected() -> Error {
    Error::Disconnected {
        text: text(),
        delivery: Delivery::NotSent,
    }
}

/// The table of 9.3: (error, class, retried by a recovery, retried by the next caller after a failed startup).
#[test]
fn a15_every_row_of_the_classification() {
    let timeout = Duration::from_secs(10);
    let rows = [
        (http(500, None), Class::Registry, true, true),
        (http(502, None), Class::Registry, true, true),
        (http(503, None), Class::Registry, true, true),
        (http(408, None), Class::Registry, true, true),
        (http(429, None), Class::Registry, true, true),
        (
            http(409, Some("environment_offline")),
            Class::Offline,
            true,
            true,
        ),
        (http(409, Some("other")), Class::Terminal, false, false),
        (http(409, None), Class::Terminal, false, false),
        (http(400, None), Class::Terminal, false, false),
        (
            http(404, Some("environment_offline")),
            Class::Terminal,
            false,
            false,
        ),
        (
            Error::RegistryAuthentication { text: text() },
            Class::Terminal,
            false,
            false,
        ),
        (
            request(RequestFailure::Connect),
            Class::Registry,
            true,
            true,
        ),
        (
            request(RequestFailure::Timeout),
            Class::Registry,
            true,
            true,
        ),
        (request(RequestFailure::Body), Class::Registry, true, true),
        (request(RequestFailure::Decode), Class::Registry, true, true),
        (
            request(RequestFailure::Route),
            Class::Terminal,
            false,
            false,
        ),
        (
            request(RequestFailure::Build),
            Class::Terminal,
            false,
            false,
        ),
        (
            request(RequestFailure::RedirectScheme),
            Class::Terminal,
            false,
            false,
        ),
        (
            request(RequestFailure::TooManyRedirects),
            Class::Terminal,
            false,
            false,
        ),
        (
            request(RequestFailure::Denied(Denial::Unavailable)),
            Class::Denied,
            false,
            true,
        ),
        (Error::Json { text: text() }, Class::Terminal, false, false),
        (
            Error::Protocol { text: text() },
            Class::Terminal,
            false,
            false,
        ),
        (
            Error::RegistryConfiguration { text: text() },
            Class::Terminal,
            false,
            false,
        ),
        (
            dial(DialFailure::Io(ErrorKind::ConnectionRefused)),
            Class::Dial,
            true,
            true,
        ),
        (dial(DialFailure::Incomplete), Class::Dial, true, true),
        (dial(DialFailure::Protocol), Class::Dial, true, true),
        (
            Error::ConnectTimeout {
                url: text(),
                timeout,
            },
            Class::Dial,
            true,
            true,
        ),
        (
            Error::InitializeTimeout { timeout },
            Class::Handshake,
            true,
            true,
        ),
        (
            Error::HandshakeRefused { text: text() },
            Class::Handshake,
            true,
            true,
        ),
        (Error::CredentialsRejected, Class::Terminal, false, false),
        (
            server(-32600, "unknown session 1"),
            Class::Terminal,
            false,
            false,
        ),
        (
            server(-32010, "attached"),
            Class::AlreadyAttached,
            true,
            true,
        ),
        (
            server(-32000, "JSON-RPC transport closed"),
            Class::Closed,
            true,
            true,
        ),
        (
            server(-32000, "something else"),
            Class::Terminal,
            false,
            false,
        ),
        (
            Error::Denied(Denial::Destination),
            Class::Denied,
            false,
            true,
        ),
        (
            Error::ProvisioningFailed { text: text() },
            Class::Provisioning,
            true,
            true,
        ),
        (
            Error::Spawn {
                program: text(),
                text: text(),
            },
            Class::Terminal,
            false,
            false,
        ),
        (
            Error::Closed {
                delivery: Delivery::Unknown,
            },
            Class::Closed,
            true,
            true,
        ),
        (disconnected(), Class::Closed, true, true),
        (
            Error::RpcTimeout {
                method: "environment/info",
                timeout,
            },
            Class::Terminal,
            false,
            false,
        ),
        (Error::Internal { text: text() }, Class::Crashed, true, true),
    ];
    for (error, class, recovery, startup) in rows {
        assert_eq!(classify(&error), class, "{error:?}");
        assert_eq!(class.recovery_retryable(), recovery, "{error:?}");
        assert_eq!(class.may_retry_startup(), startup, "{error:?}");
        let wrapped = Error::Attempt(Arc::new(error.clone()));
        assert_eq!(classify(&wrapped), class, "wrapped {error:?}");
        assert_eq!(wrapped.delivery(), error.delivery(), "wrapped {error:?}");
    }
}

#[test]
fn w05_permanent_dial_errors_are_not_retried() {
    let rows = [
        (upgrade(401), Class::Unauthorized),
        (upgrade(403), Class::Terminal),
        (upgrade(404), Class::Terminal),
        (upgrade(410), Class::Terminal),
        (upgrade(408), Class::Dial),
        (upgrade(429), Class::Dial),
        (upgrade(500), Class::Dial),
        (upgrade(503), Class::Dial),
        (upgrade(302), Class::Dial),
        (dial(DialFailure::Tls), Class::Terminal),
    ];
    for (error, class) in rows {
        assert_eq!(classify(&error), class, "{error:?}");
        assert!(is_recovery_retryable_in_reference(&error), "{error:?}");
    }
}

#[test]
fn a15_the_references_rule_never_retries_a_denial() {
    let denied = request(RequestFailure::Denied(Denial::Unavailable));
    assert!(!is_recovery_retryable_in_reference(&denied));
    assert!(!is_recovery_retryable_in_reference(&Error::Attempt(
        Arc::new(denied)
    )));
    assert!(is_recovery_retryable_in_reference(&Error::Attempt(
        Arc::new(http(503, None))
    )));
    assert!(is_recovery_retryable_in_reference(&server(-32010, "")));
    assert!(!is_recovery_retryable_in_reference(&server(-32600, "")));
    assert!(is_recovery_retryable_in_reference(
        &Error::HandshakeRefused { text: text() }
    ));
}

#[test]
fn preparation_retries_fewer_dial_errors() {
    let rows = [
        (dial(DialFailure::Io(ErrorKind::ConnectionRefused)), true),
        (dial(DialFailure::Io(ErrorKind::UnexpectedEof)), true),
        (dial(DialFailure::Io(ErrorKind::TimedOut)), true),
        (dial(DialFailure::Io(ErrorKind::PermissionDenied)), false),
        (dial(DialFailure::Incomplete), true),
        (dial(DialFailure::Tls), false),
        (dial(DialFailure::Protocol), false),
        (upgrade(409), true),
        (upgrade(401), false),
        (upgrade(503), true),
        (http(503, None), true),
        (http(404, None), false),
        (server(-32010, ""), true),
        (server(-32000, "JSON-RPC transport closed"), false),
        (disconnected(), true),
        (Error::ProvisioningFailed { text: text() }, false),
    ];
    for (error, expected) in rows {
        assert_eq!(is_preparation_retryable(&error), expected, "{error:?}");
    }
}

#[test]
fn transport_closed_is_exactly_what_the_document_lists() {
    assert!(is_transport_closed(&disconnected()));
    assert!(is_transport_closed(&Error::Closed {
        delivery: Delivery::NotSent
    }));
    assert!(is_transport_closed(&server(
        -32000,
        "JSON-RPC transport closed"
    )));
    assert!(!is_transport_closed(&server(
        -32000,
        "JSON-RPC transport closed."
    )));
    assert!(!is_transport_closed(&server(
        -32001,
        "JSON-RPC transport closed"
    )));
}
