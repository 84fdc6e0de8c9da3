//! The long poll for the next registration, from which a harness refreshes by itself.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    extract::{Path, RawQuery, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use mainstay_wire::registry::EnvironmentId;
use serde::Serialize;
use tokio::time::timeout;

use super::{Refusal, Shared, json};
use crate::tokens::Role;

#[derive(Serialize)]
struct Answer {
    executor_registration_id: String,
}

/// How many requests are held, per environment.
#[derive(Debug, Default)]
pub(crate) struct Announcements(Mutex<HashMap<EnvironmentId, Arc<()>>>);

impl Announcements {
    /// A place among those of `environment`, as long as it is kept.
    fn hold(&self, environment: &EnvironmentId, limit: u32) -> Option<Arc<()>> {
        // Nothing panics while it is held.
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // An environment nobody waits for needs no entry.
        held.retain(|_, places| Arc::strong_count(places) > 1);
        let places = held.entry(environment.clone()).or_default();
        (Arc::strong_count(places) <= limit as usize).then(|| places.clone())
    }
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
        .hold(&environment, shared.limits.announcements)
        .ok_or(Refusal::TooMany)?;
    let announced = shared.store.announced(&environment, after);
    tokio::select! {
        announced = timeout(shared.limits.announcement_hold, announced) => match announced {
            Ok(registration) => Ok(json(&Answer { executor_registration_id: registration? })),
            Err(_) => Ok(StatusCode::NO_CONTENT.into_response()),
        },
        () = shared.stopping.cancelled() => Err(Refusal::Draining),
    }
}
