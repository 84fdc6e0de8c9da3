//! The error object of a failure, and one constructor per code.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Family;

/// The `error` member of a failure (`protocol.md` 2 and 14). Written as `code`, `data`, `message`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// One of the codes below, or anything else a peer likes.
    pub code: i64,
    /// Facts for programs; only failed process starts have them in the reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// Text for people, part of the contract where `protocol.md` gives it.
    pub message: String,
}

impl RpcError {
    /// Malformed message, handshake order, unknown session or process, most invalid file input.
    pub const INVALID_REQUEST: i64 = -32600;
    /// No such method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// Params of the wrong shape or value.
    pub const INVALID_PARAMS: i64 = -32602;
    /// Internal or operating-system error.
    pub const INTERNAL: i64 = -32603;
    /// File, directory or file handle not found.
    pub const NOT_FOUND: i64 = -32004;
    /// The session is attached to another connection.
    pub const ALREADY_ATTACHED: i64 = -32010;

    /// -32600.
    pub fn invalid_request(message: impl fmt::Display) -> Self {
        Self::new(Self::INVALID_REQUEST, message)
    }

    /// -32601 with the text the reference's executor uses.
    pub fn method_not_found(method: &str) -> Self {
        Self::new(
            Self::METHOD_NOT_FOUND,
            format_args!("exec-server stub does not implement `{method}` yet"),
        )
    }

    /// -32601 with the text the reference's client uses.
    pub fn client_method_not_found(method: &str) -> Self {
        Self::new(
            Self::METHOD_NOT_FOUND,
            format_args!("exec-server client does not implement `{method}`"),
        )
    }

    /// -32602.
    pub fn invalid_params(message: impl fmt::Display) -> Self {
        Self::new(Self::INVALID_PARAMS, message)
    }

    /// -32603.
    pub fn internal(message: impl fmt::Display) -> Self {
        Self::new(Self::INTERNAL, message)
    }

    /// -32004.
    pub fn not_found(message: impl fmt::Display) -> Self {
        Self::new(Self::NOT_FOUND, message)
    }

    /// -32010.
    pub fn already_attached(id: &str) -> Self {
        Self::new(
            Self::ALREADY_ATTACHED,
            format_args!("session {id} is already attached to another connection"),
        )
    }

    /// -32600 for a method of `family` before `initialize` succeeded.
    pub fn before_initialize(family: Family) -> Self {
        Self::invalid_request(format_args!(
            "client must call initialize before using {family} methods"
        ))
    }

    /// -32600 for a method of `family` between `initialize` and `initialized`.
    pub fn before_initialized(family: Family) -> Self {
        Self::invalid_request(format_args!(
            "client must send initialized before using {family} methods"
        ))
    }

    /// -32600 for a second `initialize` after a success.
    pub fn initialized_twice() -> Self {
        Self::invalid_request("initialize may only be sent once per connection")
    }

    /// -32600 for a resume of a session nobody knows.
    pub fn unknown_session(id: &str) -> Self {
        Self::invalid_request(format_args!("unknown session id {id}"))
    }

    /// -32600 for a process nobody knows, or that is forgotten.
    pub fn unknown_process(id: &str) -> Self {
        Self::invalid_request(format_args!("unknown process id {id}"))
    }

    /// The same error with `data`.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    fn new(code: i64, message: impl fmt::Display) -> Self {
        Self {
            code,
            data: None,
            message: message.to_string(),
        }
    }
}
