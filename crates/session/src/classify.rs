//! What an error means: whether and when it is worth another try (9.3, W5).

use crate::cause::Class;
use crate::error::{DialFailure, Error, RequestFailure};

/// "Session already attached": the executor has not noticed yet that the old link is dead.
pub const ALREADY_ATTACHED: i64 = -32010;
/// JSON-RPC code of a transport that closed under a request.
pub const TRANSPORT_CLOSED: i64 = -32000;
/// Its text.
pub const TRANSPORT_CLOSED_TEXT: &str = "JSON-RPC transport closed";
/// `error.code` of the registry's 409 for an environment without an executor.
pub const OFFLINE_CODE: &str = "environment_offline";

/// The class the machine decides by. Differs from the reference where W5 says so: TLS failures and upgrades answered 4xx (except
/// 401 once, 408 and 429) do not pass, rejected credentials do not pass.
#[must_use]
pub fn classify(error: &Error) -> Class {
    match error {
        Error::Attempt(inner) => classify(inner),
        Error::Closed { .. } | Error::Disconnected { .. } => Class::Closed,
        Error::Server {
            code: ALREADY_ATTACHED,
            ..
        } => Class::AlreadyAttached,
        Error::Server {
            code: TRANSPORT_CLOSED,
            text,
        } if text == TRANSPORT_CLOSED_TEXT => Class::Closed,
        Error::Server { .. } => Class::Terminal,
        Error::ConnectTimeout { .. } => Class::Dial,
        Error::Connect { failure, .. } => dial_class(*failure),
        Error::InitializeTimeout { .. } | Error::HandshakeRefused { .. } => Class::Handshake,
        Error::CredentialsRejected => Class::Terminal,
        Error::Denied(_) => Class::Denied,
        Error::ProvisioningFailed { .. } => Class::Provisioning,
        Error::RegistryRequest {
            failure: RequestFailure::Denied(_),
            ..
        } => Class::Denied,
        Error::RegistryHttp { .. } | Error::RegistryRequest { .. } => {
            if is_offline(error) {
                Class::Offline
            } else if is_registry_retryable(error) {
                Class::Registry
            } else {
                Class::Terminal
            }
        }
        Error::Internal { .. } => Class::Crashed,
        Error::Spawn { .. }
        | Error::ConnectConfiguration { .. }
        | Error::RpcTimeout { .. }
        | Error::Json { .. }
        | Error::HttpRequest { .. }
        | Error::AuthenticationRequired
        | Error::Protocol { .. }
        | Error::ProvisioningMode { .. }
        | Error::RegistryConfiguration { .. }
        | Error::RegistryAuthentication { .. } => Class::Terminal,
    }
}

fn dial_class(failure: DialFailure) -> Class {
    match failure {
        DialFailure::Http { status: 401, .. } => Class::Unauthorized,
        DialFailure::Http {
            status: 408 | 429, ..
        } => Class::Dial,
        DialFailure::Http {
            status: 400..=499, ..
        } => Class::Terminal,
        DialFailure::Tls => Class::Terminal,
        DialFailure::Http { .. }
        | DialFailure::Io(_)
        | DialFailure::Incomplete
        | DialFailure::Protocol => Class::Dial,
    }
}

/// Whether the transport closed under the request.
#[must_use]
pub fn is_transport_closed(error: &Error) -> bool {
    match error {
        Error::Closed { .. } | Error::Disconnected { .. } | Error::HandshakeRefused { .. } => true,
        Error::Server {
            code: TRANSPORT_CLOSED,
            text,
        } => text == TRANSPORT_CLOSED_TEXT,
        _ => false,
    }
}

/// Whether the registry knows no executor that is online.
#[must_use]
pub fn is_offline(error: &Error) -> bool {
    matches!(error, Error::RegistryHttp { status: 409, code: Some(code), .. } if code == OFFLINE_CODE)
}

/// Whether the registry may answer better next time.
#[must_use]
pub fn is_registry_retryable(error: &Error) -> bool {
    match error {
        Error::RegistryRequest { failure, .. } => matches!(
            failure,
            RequestFailure::Connect
                | RequestFailure::Timeout
                | RequestFailure::Body
                | RequestFailure::Decode
        ),
        Error::RegistryHttp {
            status: 500..=599 | 408 | 429,
            ..
        } => true,
        other => is_offline(other),
    }
}

/// Whether a policy denial is inside.
#[must_use]
pub fn is_denied(error: &Error) -> bool {
    classify(error) == Class::Denied
}

/// The reference's rule for recoveries, for comparison: it retries every WebSocket error to the deadline (W5).
#[must_use]
pub fn is_recovery_retryable_in_reference(error: &Error) -> bool {
    let root = error.root();
    match root {
        _ if is_denied(root) => false,
        Error::ProvisioningFailed { .. }
        | Error::ConnectTimeout { .. }
        | Error::Connect { .. }
        | Error::InitializeTimeout { .. }
        | Error::Server {
            code: ALREADY_ATTACHED,
            ..
        } => true,
        other => is_transport_closed(other) || is_registry_retryable(other),
    }
}

/// Whether preparing an environment may be repeated: stricter than a recovery, it has no deadline of its own.
#[must_use]
pub fn is_preparation_retryable(error: &Error) -> bool {
    use std::io::ErrorKind as Io;
    match error {
        Error::Closed { .. }
        | Error::Disconnected { .. }
        | Error::HandshakeRefused { .. }
        | Error::ConnectTimeout { .. }
        | Error::InitializeTimeout { .. }
        | Error::Server {
            code: ALREADY_ATTACHED,
            ..
        } => true,
        Error::Connect { failure, .. } => match failure {
            DialFailure::Incomplete => true,
            DialFailure::Http { status, .. } => matches!(status, 500..=599 | 408 | 409 | 429),
            DialFailure::Io(kind) => matches!(
                kind,
                Io::ConnectionRefused
                    | Io::ConnectionReset
                    | Io::ConnectionAborted
                    | Io::NetworkDown
                    | Io::NetworkUnreachable
                    | Io::HostUnreachable
                    | Io::BrokenPipe
                    | Io::NotConnected
                    | Io::UnexpectedEof
                    | Io::TimedOut
            ),
            DialFailure::Tls | DialFailure::Protocol => false,
        },
        other => is_registry_retryable(other),
    }
}
