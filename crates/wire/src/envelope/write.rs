//! Messages to text.

use serde::Serialize;

use super::{RequestId, Trace};
use crate::RpcError;

/// A request; `trace` only where one is active.
pub fn request<P: Serialize>(
    id: &RequestId,
    method: &str,
    params: &P,
    trace: Option<&Trace>,
) -> String {
    #[derive(Serialize)]
    struct Out<'a, P> {
        id: &'a RequestId,
        method: &'a str,
        params: &'a P,
        #[serde(skip_serializing_if = "Option::is_none")]
        trace: Option<&'a Trace>,
    }
    write(&Out {
        id,
        method,
        params,
        trace,
    })
}

/// A notification.
pub fn notification<P: Serialize>(method: &str, params: &P) -> String {
    #[derive(Serialize)]
    struct Out<'a, P> {
        method: &'a str,
        params: &'a P,
    }
    write(&Out { method, params })
}

/// An answer.
pub fn success<A: Serialize>(id: &RequestId, result: &A) -> String {
    #[derive(Serialize)]
    struct Out<'a, A> {
        id: &'a RequestId,
        result: &'a A,
    }
    write(&Out { id, result })
}

/// A refusal; `error` stands before `id`.
pub fn failure(id: &RequestId, error: &RpcError) -> String {
    #[derive(Serialize)]
    struct Out<'a> {
        error: &'a RpcError,
        id: &'a RequestId,
    }
    write(&Out { error, id })
}

/// Every type of this crate has string keys and no failing serialiser, so that writing JSON to memory cannot fail;
/// a foreign type that does becomes `null`, which no peer takes for a message.
fn write<T: Serialize>(message: &T) -> String {
    serde_json::to_string(message).unwrap_or_else(|_| "null".to_owned())
}
