//! The HTTP API of noise-relay.md 2, and what we add to it.
//!
//! | request | token | answer |
//! |---|---|---|
//! | `POST /cloud/environment/{id}/register` | executor | registration and URL; 409 `registration_superseded` |
//! | `POST /cloud/environment/{id}/connect` | harness | bundle; 409 `environment_offline` |
//! | `POST /cloud/environment/{id}/validate` | executor | `{"valid": bool}` |
//! | `GET /mainstay/environment/{id}/registration?after=REG` | harness | the next registration, or 204 after a while |
//! | `GET /rendezvous?…` | signed URL | WebSocket |
//! | `GET /readyz` | – | 200; 503 while shutting down |

mod announcement;
mod connect;
mod refusal;
mod register;
mod validate;

use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicBool, Ordering},
};

use axum::{
    Router as Routes,
    body::Bytes,
    extract::{DefaultBodyLimit, State, rejection::BytesRejection},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use mainstay_wire::registry::EnvironmentId;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

pub(crate) use announcement::Announcements;
pub(crate) use refusal::Refusal;

use crate::{
    Limits, Signer, Store, address, rendezvous,
    router::Router,
    tokens::{Access, Role, Tokens, environment_id},
};

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) tokens: RwLock<Arc<Tokens>>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) signer: Arc<dyn Signer>,
    pub(crate) router: Arc<Router>,
    pub(crate) limits: Limits,
    /// `ws://…` or `wss://…` of the public URL, without a trailing slash.
    pub(crate) websocket_base: String,
    pub(crate) announcements: Announcements,
    /// Set when the registry begins to shut down.
    pub(crate) stopping: CancellationToken,
    pub(crate) draining: AtomicBool,
}

pub(crate) fn routes(shared: Arc<Shared>) -> Routes {
    let body = DefaultBodyLimit::max(shared.limits.body);
    Routes::new()
        .route("/cloud/environment/{id}/register", post(register::register))
        .route("/cloud/environment/{id}/connect", post(connect::connect))
        .route("/cloud/environment/{id}/validate", post(validate::validate))
        .route(
            "/mainstay/environment/{id}/registration",
            get(announcement::announcement),
        )
        .route(address::PATH, get(rendezvous::rendezvous))
        .route("/readyz", get(ready))
        .fallback(async || Refusal::NotFound)
        .method_not_allowed_fallback(async || Refusal::Method)
        .layer(body)
        .with_state(shared)
}

async fn ready(State(shared): State<Arc<Shared>>) -> StatusCode {
    if shared.is_draining() {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::OK
    }
}

impl Shared {
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// The environment of the path, if the request's token is good for it in `role`.
    fn authorize(
        &self,
        headers: &HeaderMap,
        environment: &str,
        role: Role,
    ) -> Result<EnvironmentId, Refusal> {
        if self.is_draining() {
            return Err(Refusal::Draining);
        }
        let token = bearer(headers).ok_or(Refusal::NoToken)?;
        let tokens = self
            .tokens
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        match tokens.access(token, environment, role) {
            Access::Granted => environment_id(environment).map_err(|_| Refusal::NoEnvironment),
            Access::Unknown => Err(Refusal::UnknownToken),
            Access::Forbidden => Err(Refusal::Forbidden(role)),
            Access::NoEnvironment => Err(Refusal::NoEnvironment),
        }
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn read_body<T: DeserializeOwned>(body: Result<Bytes, BytesRejection>) -> Result<T, Refusal> {
    let bytes = body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Refusal::TooLarge,
        _ => Refusal::Body("body was not received".into()),
    })?;
    // The parser's text names places and types, and no value but an unknown member's name.
    serde_json::from_slice(&bytes).map_err(|error| Refusal::Body(error.to_string()))
}

fn json(answer: &impl serde::Serialize) -> Response {
    axum::Json(answer).into_response()
}
