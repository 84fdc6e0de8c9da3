//! HTTP from the executor's place (`session.md` 11).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use mainstay_wire::base64::Base64;
use mainstay_wire::http::{HttpAnswer, HttpRequest as Call, HttpRequestHeader, HttpRequestParams};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::{mpsc, oneshot};

pub use mainstay_wire::http::RedirectPolicy;

use crate::body_table::{Opened, Part, ToBodies};
use crate::call;
use crate::error::{Delivery, Error};
use crate::line::Line;
use crate::link::Lane;
use crate::session::Session;

/// An HTTP request that the executor makes. It is sent once, whatever happens.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    params: HttpRequestParams,
}

impl HttpRequest {
    /// A request without headers, body or time limit that follows redirects.
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            params: HttpRequestParams {
                method: method.into(),
                url: url.into(),
                headers: Vec::new(),
                body_base64: None,
                timeout_ms: None,
                redirect_policy: RedirectPolicy::Follow,
                request_id: String::new(),
                stream_response: false,
            },
        }
    }

    /// Adds a header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.params.headers.push(HttpRequestHeader {
            name: name.into(),
            value: value.into(),
            value_env_var: None,
        });
        self
    }

    /// Adds a header whose value is `prefix` and then a variable of the executor's environment.
    pub fn header_from_env(
        mut self,
        name: impl Into<String>,
        prefix: impl Into<String>,
        variable: impl Into<String>,
    ) -> Self {
        self.params.headers.push(HttpRequestHeader {
            name: name.into(),
            value: prefix.into(),
            value_env_var: Some(variable.into()),
        });
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.params.body_base64 = Some(Base64(body.into()));
        self
    }

    /// Limits the whole exchange at the executor, body included.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.params.timeout_ms = Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// What to do with redirects.
    pub fn redirect(mut self, policy: RedirectPolicy) -> Self {
        self.params.redirect_policy = policy;
        self
    }
}

/// An answer with its whole body. HTTP error statuses are answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    /// Status.
    pub status: u16,
    /// Names in lower case; order and repeats kept.
    pub headers: Vec<(String, String)>,
    /// Body.
    pub body: Bytes,
}

/// An answer whose body follows.
#[derive(Debug)]
pub struct HttpStream {
    /// Status.
    pub status: u16,
    /// Names in lower case; order and repeats kept.
    pub headers: Vec<(String, String)>,
    /// Body.
    pub body: BodyStream,
}

/// A body as it arrives. It ends with its link: a lost link is an error, after everything that had arrived.
#[derive(Debug)]
pub struct BodyStream {
    parts: mpsc::UnboundedReceiver<Part>,
    rest: Bytes,
    end: Option<Result<(), Error>>,
    line: Line,
    route: Route,
}

/// Removes the route when the request or its reader is dropped.
#[derive(Debug)]
struct Route {
    request_id: String,
    bodies: mpsc::UnboundedSender<ToBodies>,
    /// The request was sent and its body is not complete.
    running: bool,
}

impl Drop for Route {
    fn drop(&mut self) {
        let request_id = std::mem::take(&mut self.request_id);
        let _ = self.bodies.send(ToBodies::Close {
            request_id,
            cancel: self.running,
        });
    }
}

pub(crate) async fn buffered(
    session: &Session,
    request: HttpRequest,
) -> Result<HttpResponse, Error> {
    let mut params = request.params;
    params.stream_response = false;
    params.request_id = uuid::Uuid::new_v4().to_string();
    let answer = session.line().call::<Call>(session.mode(), &params).await?;
    let (status, headers, body) = split(answer);
    Ok(HttpResponse {
        status,
        headers,
        body,
    })
}

pub(crate) async fn streaming(
    session: &Session,
    request: HttpRequest,
) -> Result<HttpStream, Error> {
    let gone = || {
        session
            .failure()
            .unwrap_or_else(|| Error::disconnected("the body table is gone", Delivery::NotSent))
    };
    let link = session.line().link(session.mode()).await?;
    let (reply, opened) = oneshot::channel();
    let open = ToBodies::Open {
        epoch: link.epoch(),
        reply,
    };
    session.bodies().send(open).map_err(|_| gone())?;
    let Opened { request_id, parts } = opened.await.map_err(|_| gone())?;
    let mut route = Route {
        request_id: request_id.clone(),
        bodies: session.bodies().clone(),
        running: true,
    };
    let mut params = request.params;
    params.stream_response = true;
    params.request_id = request_id;
    let answer = session
        .line()
        .call_on::<Call>(&link, Lane::Regular, &params)
        .await;
    route.running = answer.is_ok();
    let (status, headers, _) = split(answer?);
    let body = BodyStream {
        parts,
        rest: Bytes::new(),
        end: None,
        line: session.line().clone(),
        route,
    };
    Ok(HttpStream {
        status,
        headers,
        body,
    })
}

fn split(answer: HttpAnswer) -> (u16, Vec<(String, String)>, Bytes) {
    let headers = answer
        .headers
        .into_iter()
        .map(|header| (header.name, header.value));
    (answer.status, headers.collect(), answer.body_base64.0)
}

impl BodyStream {
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        if let Some(ended) = self.line.gate().ended() {
            let failure = self.line.failure();
            let error = failure.unwrap_or_else(|| call::replaced(ended, Delivery::Unknown));
            return Poll::Ready(Some(Err(error)));
        }
        if !self.rest.is_empty() {
            return Poll::Ready(Some(Ok(std::mem::take(&mut self.rest))));
        }
        match &self.end {
            Some(Ok(())) => return Poll::Ready(None),
            Some(Err(error)) => return Poll::Ready(Some(Err(error.clone()))),
            None => {}
        }
        match ready!(self.parts.poll_recv(cx)) {
            Some(Part::Data { bytes, .. }) => return Poll::Ready(Some(Ok(bytes))),
            Some(Part::End) => self.end = Some(Ok(())),
            Some(Part::Failed(error)) => self.end = Some(Err(error)),
            None => {
                self.end = Some(Err(Error::disconnected(
                    "the body table is gone",
                    Delivery::Unknown,
                )))
            }
        }
        self.route.running = false;
        self.poll_bytes(cx)
    }
}

impl Stream for BodyStream {
    type Item = Result<Bytes, Error>;

    /// Yields an error once; after it, and after the end, nothing.
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = ready!(self.poll_bytes(cx));
        if let Some(Err(_)) = &item {
            self.end = Some(Ok(()));
        }
        Poll::Ready(item)
    }
}

impl AsyncRead for BodyStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(bytes) = ready!(self.poll_bytes(cx)) {
            let mut bytes = bytes?;
            let head = bytes.split_to(bytes.len().min(buf.remaining()));
            buf.put_slice(&head);
            self.rest = bytes;
        }
        Poll::Ready(Ok(()))
    }
}
