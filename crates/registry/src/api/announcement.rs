//! The long poll for the next registration, from which a harness refreshes by itself.

use std::sync::Arc;

use axum::{
    extract::{Path, RawQuery, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use tokio::time::timeout;

use super::{Refusal, Shared, json};
use crate::tokens::Role;

#[derive(Serialize)]
struct Answer {
    executor_registration_id: String,
}

/// Answers as soon as another registration than `after` is current and connected, or 204 after a while: ask again.
pub(super) async fn announcement(
    State(shared): State<Arc<Shared>>,
    Path(environment): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let environment = shared.authorize(&headers, &environment, Role::Harness)?;
    // The registration the caller knows, an id of ours, so nothing in it is percent-encoded; absent asks for any.
    let after = query.as_deref().unwrap_or_default();
    let after = after
        .split('&')
        .find_map(|pair| pair.strip_prefix("after="))
        .unwrap_or_default();
    let _held = shared
        .announcements
        .try_acquire()
        .map_err(|_| Refusal::TooMany)?;
    let announced = shared.store.announced(&environment, after);
    tokio::select! {
        announced = timeout(shared.limits.announcement_hold, announced) => match announced {
            Ok(registration) => Ok(json(&Answer { executor_registration_id: registration? })),
            Err(_) => Ok(StatusCode::NO_CONTENT.into_response()),
        },
        () = shared.stopping.cancelled() => Err(Refusal::Draining),
    }
}
