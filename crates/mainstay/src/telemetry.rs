//! What an environment tells `tracing`: the one place that names spans and metrics (`session.md` 13).
//!
//! Names are the reference's where it has one, so that its dashboards work; the crate's documentation says how a host
//! reads them. Never in any of them: ids of sessions and processes, commands, paths, host names, payloads, secrets.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mainstay_session::ids::Op;
use mainstay_wire::Call;
pub use mainstay_wire::envelope::Trace;
use mainstay_wire::network::PolicyRequest;
use tracing::field::Empty;
use tracing::{Level, Span};

/// Target of the events that are metrics: `monotonic_counter.NAME` adds, `histogram.NAME` records.
const METRICS: &str = "mainstay::metrics";

/// Asked once per outgoing request and registry lookup, inside its span: the trace context to send along, if one is
/// active. Must not block.
pub type TraceSource = Arc<dyn Fn() -> Option<Trace> + Send + Sync>;

/// The host's source of trace contexts, if it has one.
#[derive(Clone, Default)]
pub(crate) struct Tracing(pub(crate) Option<TraceSource>);

impl Tracing {
    /// The context of the current span.
    pub(crate) fn current(&self) -> Option<Trace> {
        self.0.as_ref().and_then(|source| source())
    }
}

impl fmt::Debug for Tracing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tracing").field(&self.0.is_some()).finish()
    }
}

/// An attempt, a recovery or a refresh, from its first step to its last.
pub(crate) fn operation(op: Op) -> Span {
    match op {
        Op::Attempt(id) => {
            tracing::info_span!(parent: None, "mainstay.attempt", attempt = id.0, outcome = Empty)
        }
        Op::Recovery(id) => {
            tracing::info_span!(parent: None, "mainstay.recovery", recovery = id.0, outcome = Empty)
        }
        Op::Refresh(id) => {
            tracing::info_span!(parent: None, "mainstay.refresh", refresh = id.0, outcome = Empty)
        }
    }
}

/// One request to the registry.
pub(crate) fn registry_connect() -> Span {
    tracing::debug_span!(
        "codex.exec_server.remote.environment_registry.connect",
        otel.kind = "client"
    )
}

/// Making one link, from the dial to the answer of `initialize`.
pub(crate) fn connect() -> Span {
    tracing::debug_span!("codex.exec_server.remote.connect", otel.kind = "client")
}

/// Its part that is particular to a relay: the rendezvous socket and the Noise handshake.
pub(crate) fn noise_connect() -> Span {
    tracing::debug_span!(
        "codex.exec_server.remote.noise.connect",
        otel.kind = "client"
    )
}

/// Opening the rendezvous socket.
pub(crate) fn websocket_connect(environment_id: &str, registration_id: &str) -> Span {
    tracing::debug_span!(
        "codex.exec_server.remote.noise.websocket_connect",
        otel.kind = "client",
        environment_id,
        executor_registration_id = registration_id
    )
}

/// The Noise handshake.
pub(crate) fn noise_handshake() -> Span {
    tracing::debug_span!(
        "codex.exec_server.remote.noise.handshake",
        otel.kind = "client"
    )
}

/// One call, from admission to its answer. Over a relay the one of `initialize` covers the Noise handshake as well.
pub(crate) fn request(method: &'static str) -> Span {
    tracing::debug_span!(
        "codex.exec_server.request",
        otel.name = method,
        otel.kind = "client",
        method
    )
}

/// `initialize` alone, over a relay.
pub(crate) fn initialize_rpc() -> Span {
    tracing::debug_span!(
        "codex.exec_server.remote.initialize_rpc",
        otel.kind = "client"
    )
}

/// Starting a process, from its registration to the caller's receipt.
pub(crate) fn process_start() -> Span {
    tracing::debug_span!(
        "codex.exec_server.process_start",
        otel.kind = "client",
        process_id = "[redacted]"
    )
}

/// One request of the executor, from its arrival to its answer. Its result is recorded when this is dropped.
#[derive(Debug)]
pub(crate) struct Served {
    span: Span,
    result: &'static str,
}

impl Served {
    pub(crate) fn begin(method: &str) -> Self {
        let span = tracing::debug_span!(
            parent: None,
            "codex.exec_server.inbound_request",
            otel.name = Empty,
            otel.kind = "server",
            result = Empty
        );
        // Only this name is ours; others are the peer's own text.
        if method == PolicyRequest::METHOD {
            span.record("otel.name", PolicyRequest::METHOD);
        }
        Self {
            span,
            result: "disconnected",
        }
    }

    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// It was answered with a result.
    pub(crate) fn success(&mut self) {
        self.result = "success";
    }

    /// The answer could not be sent after all.
    pub(crate) fn unanswered(mut self) {
        self.result = "disconnected";
    }

    /// It was answered with an error.
    pub(crate) fn error(&mut self) {
        self.result = "error";
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.span.record("result", self.result);
    }
}

/// A call is attempted; counted before admission.
pub(crate) fn count_request(method: &'static str) {
    tracing::event!(
        target: METRICS,
        Level::TRACE,
        monotonic_counter.exec_server_client_requests_total = 1_u64,
        method,
    );
}

/// A report of an earlier time was dropped.
pub(crate) fn count_stale() {
    tracing::event!(
        target: METRICS,
        Level::TRACE,
        monotonic_counter.mainstay_stale_reports_total = 1_u64,
    );
}

/// An operation ended.
pub(crate) fn count_operation(op: Op, outcome: &'static str, took: Duration) {
    let kind = match op {
        Op::Attempt(_) => "attempt",
        Op::Recovery(_) => "recovery",
        Op::Refresh(_) => "refresh",
    };
    tracing::event!(
        target: METRICS,
        Level::TRACE,
        monotonic_counter.mainstay_operations_total = 1_u64,
        histogram.mainstay_operation_seconds = took.as_secs_f64(),
        kind,
        outcome,
    );
}

/// A recovery ran out of time, most of it in this phase.
pub(crate) fn count_recovery_timeout(phase: &'static str) {
    tracing::event!(
        target: METRICS,
        Level::TRACE,
        monotonic_counter.mainstay_recovery_timeouts_total = 1_u64,
        phase,
    );
}

/// A call was queued for the Writer.
pub(crate) fn request_enqueued() {
    tracing::trace!("request enqueued");
}

/// A call's answer is in its caller's hands; `read` is when the Reader had it.
pub(crate) fn response_received(outcome: &'static str, read: Instant) {
    let nanos = u64::try_from(read.elapsed().as_nanos()).unwrap_or(u64::MAX);
    tracing::trace!(outcome, reader_to_caller_ns = nanos, "response received");
}
