//! The upgrade to a rendezvous socket: every rule of design.md 5 about who is let in, and how the others are told.
//!
//! | | executor | harness |
//! |---|---|---|
//! | query not understood | 400 | 400 |
//! | signature wrong | 410: perhaps of a registry that has restarted | 401 |
//! | expired | – | 401 |
//! | registration not the current one | 410 | 401 |
//! | executor's socket absent | – | 503, `Retry-After` |
//! | no room | 503, `Retry-After` | 429, `Retry-After` |
//! | store or registry in trouble | 503, `Retry-After` | 503, `Retry-After` |

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use mainstay_link::{Limits as LinkLimits, RawSocket, accept};
use mainstay_wire::registry::REJECTION_HEADER;
use tokio::time::timeout;

use crate::{
    address::Visitor,
    api::Shared,
    clock::unix_now,
    router::{Hub, Place},
    tokens::Role,
};

struct Rejected {
    status: StatusCode,
    reason: &'static str,
}

enum Welcome {
    Executor(Place),
    Harness(Place, Arc<Hub>),
}

pub(crate) async fn rendezvous(
    State(shared): State<Arc<Shared>>,
    mut request: Request,
) -> Response {
    let (visitor, welcome) = match admit(&shared, request.uri().query().unwrap_or("")).await {
        Ok(admitted) => admitted,
        Err(rejected) => return rejected.into_response(),
    };
    let (answer, upgrading) = match accept::upgrade(&mut request, LinkLimits::rendezvous()) {
        Ok(upgraded) => upgraded,
        Err(refusal) => return refusal.map(Body::new),
    };
    let within = shared.limits.upgrade_within;
    let router = shared.router.clone();
    shared.router.spawn(async move {
        let Ok(Ok(socket)) = timeout(within, upgrading).await else {
            return;
        };
        serve(router, visitor, welcome, socket).await;
    });
    answer.map(Body::new)
}

async fn serve(
    router: Arc<crate::router::Router>,
    visitor: Visitor,
    welcome: Welcome,
    socket: RawSocket,
) {
    match welcome {
        Welcome::Executor(_place) => {
            router
                .serve_executor(visitor.environment, visitor.registration, socket)
                .await;
        }
        Welcome::Harness(_place, hub) => router.serve_harness(hub, socket).await,
    }
}

async fn admit(shared: &Shared, query: &str) -> Result<(Visitor, Welcome), Rejected> {
    use StatusCode as S;
    let reject = |status, reason| Err(Rejected { status, reason });
    if shared.is_draining() {
        return reject(S::SERVICE_UNAVAILABLE, "pod_draining");
    }
    let visitor = match Visitor::read(query, &*shared.signer) {
        Ok(visitor) => visitor,
        Err((Some(Role::Executor), reason @ "invalid_signature")) => {
            return reject(S::GONE, reason);
        }
        Err((Some(Role::Harness), reason @ "invalid_signature")) => {
            return reject(S::UNAUTHORIZED, reason);
        }
        Err((_, reason)) => return reject(S::BAD_REQUEST, reason),
    };
    if visitor.expires.is_some_and(|expires| expires <= unix_now()) {
        return reject(S::UNAUTHORIZED, "expired");
    }
    let current = match shared.store.current(&visitor.environment).await {
        Ok(current) => current,
        Err(error) => {
            tracing::warn!(%error, "upgrade refused: the store does not answer");
            return reject(S::SERVICE_UNAVAILABLE, "route_unavailable");
        }
    };
    let is_current = current.is_some_and(|current| current.registration == visitor.registration);
    match visitor.role {
        Role::Executor if !is_current => reject(S::GONE, "unknown_route"),
        Role::Executor => match shared.router.place() {
            Some(place) => Ok((visitor, Welcome::Executor(place))),
            None => reject(S::SERVICE_UNAVAILABLE, "route_unavailable"),
        },
        Role::Harness if !is_current => {
            reject(S::UNAUTHORIZED, "unexpected_executor_registration_id")
        }
        Role::Harness => {
            let hub = shared
                .router
                .hub(&visitor.environment, &visitor.registration);
            let Some(hub) = hub else {
                return reject(S::SERVICE_UNAVAILABLE, "route_unavailable");
            };
            match shared.router.place_at(&hub) {
                Some(place) => Ok((visitor, Welcome::Harness(place, hub))),
                None => reject(S::TOO_MANY_REQUESTS, "route_unavailable"),
            }
        }
    }
}

impl Rejected {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(REJECTION_HEADER, HeaderValue::from_static(self.reason));
        if matches!(
            self.status,
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS
        ) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
