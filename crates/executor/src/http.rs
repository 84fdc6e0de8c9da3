//! HTTP from this host: `http/request`, its body stream, and the extension that cancels it (protocol.md 10).
//!
//! The connection owns the [`Exchanges`] under way and asks it synchronously, in the order of the requests; what it gets
//! back is the work. An exchange ends with its connection: dropping [`Exchanges`] ends those that still run.

mod body;
mod client;

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use mainstay_wire::base64::Base64;
use mainstay_wire::extension::CancelHttpParams;
use mainstay_wire::http::{HttpAnswer, HttpHeader, HttpRequestParams};
use mainstay_wire::{Empty, RpcError, limits};
use reqwest::Response;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::lane::{Held, Lane, SMALL};

use client::Prepared;

pub use body::Body;
pub use client::HttpClient;

/// What a request that was cancelled fails with, and what a body that was cancelled ends with.
const CANCELLED: &str = "http/request was cancelled";

/// The HTTP exchanges of one connection.
#[derive(Debug, Default)]
pub struct Exchanges {
    /// Cancelled when the connection is gone.
    connection: Option<DropGuard>,
    running: HashMap<String, Vec<Running>>,
}

/// One exchange; several buffered ones may share a request id.
#[derive(Debug)]
struct Running {
    streamed: bool,
    cancel: CancellationToken,
    /// Dangling once the exchange is over.
    alive: Weak<Alive>,
}

/// Held by the work of an exchange.
#[derive(Debug)]
struct Alive;

/// What an exchange gives.
#[derive(Debug)]
pub struct Exchange {
    /// What to answer.
    pub answer: HttpAnswer,
    /// The place of a body in the answer, to be dropped when the answer is queued.
    pub held: Option<Held>,
    /// The streamed body, to be run when the answer is queued.
    pub body: Option<Body>,
}

/// What the work of an exchange holds: its place in the table and its end.
#[derive(Debug)]
struct Ticket {
    _alive: Arc<Alive>,
    cancel: CancellationToken,
}

impl Exchanges {
    /// `http/request`. A body that is not streamed is gathered in the lane `bodies`.
    pub fn request(
        &mut self,
        client: &HttpClient,
        bodies: Lane,
        params: HttpRequestParams,
    ) -> impl Future<Output = Result<Exchange, RpcError>> + Send + use<> {
        let client = client.clone();
        let prepared =
            Prepared::new(&params).and_then(|request| Ok((request, self.admit(&params)?)));
        async move {
            let (request, ticket) = prepared?;
            let cancel = ticket.cancel.clone();
            let exchange = async {
                if params.timeout_ms == Some(0) {
                    return Err(RpcError::internal(
                        "http/request failed: route-aware request timed out",
                    ));
                }
                let request = client.request(request).await?;
                let request = match params.timeout_ms {
                    Some(milliseconds) => request.timeout(Duration::from_millis(milliseconds)),
                    None => request,
                };
                let response = request.send().await.map_err(|error| {
                    RpcError::internal(format_args!("http/request failed: {error}"))
                })?;
                let mut answer = head(&response);
                if params.stream_response {
                    let body = Body::new(params.request_id, response, ticket);
                    return Ok(Exchange {
                        answer,
                        held: None,
                        body: Some(body),
                    });
                }
                let mut held = bodies.enter().await?;
                answer.body_base64 = Base64::from(whole_body(response, &bodies, &mut held).await?);
                Ok(Exchange {
                    answer,
                    held: Some(held),
                    body: None,
                })
            };
            tokio::select! {
                biased;
                () = cancel.cancelled() => Err(RpcError::internal(CANCELLED)),
                outcome = exchange => outcome,
            }
        }
    }

    /// `mainstay/cancelHttp`: ends every exchange with that request id. One that is over is fine.
    pub fn cancel(&mut self, params: &CancelHttpParams) -> Empty {
        for running in self
            .running
            .remove(&params.request_id)
            .into_iter()
            .flatten()
        {
            running.cancel.cancel();
        }
        Empty {}
    }

    fn admit(&mut self, params: &HttpRequestParams) -> Result<Ticket, RpcError> {
        self.running.retain(|_, same| {
            same.retain(|running| running.alive.strong_count() > 0);
            !same.is_empty()
        });
        let id = &params.request_id;
        if params.stream_response {
            let streams = || {
                self.running
                    .values()
                    .flatten()
                    .filter(|running| running.streamed)
            };
            if self
                .running
                .get(id)
                .is_some_and(|same| same.iter().any(|running| running.streamed))
            {
                return Err(RpcError::invalid_params(format_args!(
                    "http/request streamResponse requestId `{id}` is already active"
                )));
            }
            if streams().count() >= limits::HTTP_STREAMS {
                return Err(RpcError::internal(format_args!(
                    "at most {} http/request streams may be active per connection",
                    limits::HTTP_STREAMS
                )));
            }
        }
        let connection = self
            .connection
            .get_or_insert_with(|| CancellationToken::new().drop_guard());
        let cancel = connection.token().child_token();
        let alive = Arc::new(Alive);
        let running = Running {
            streamed: params.stream_response,
            cancel: cancel.clone(),
            alive: Arc::downgrade(&alive),
        };
        self.running.entry(id.clone()).or_default().push(running);
        Ok(Ticket {
            _alive: alive,
            cancel,
        })
    }
}

/// Status and headers of an answer; header values that are not text are left out.
fn head(response: &Response) -> HttpAnswer {
    let headers = response.headers().iter().filter_map(|(name, value)| {
        Some(HttpHeader {
            name: name.as_str().to_owned(),
            value: value.to_str().ok()?.to_owned(),
        })
    });
    HttpAnswer {
        status: response.status().as_u16(),
        headers: headers.collect(),
        body_base64: Base64::default(),
    }
}

/// Reads a body into memory, as far as it fits one answer.
async fn whole_body(
    mut response: Response,
    bodies: &Lane,
    held: &mut Held,
) -> Result<Vec<u8>, RpcError> {
    let failed = |detail: &dyn std::fmt::Display| {
        RpcError::internal(format_args!(
            "failed to read http/request response body: {detail}"
        ))
    };
    let mut body = Vec::new();
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|error| failed(&error.without_url()))?
    {
        let size = body.len() + chunk.len();
        if size > limits::HTTP_BODY {
            let limit = limits::HTTP_BODY;
            return Err(failed(&format_args!(
                "it has more than {limit} bytes, ask for it with streamResponse"
            )));
        }
        if size > SMALL {
            bodies.grow(held).await?;
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
