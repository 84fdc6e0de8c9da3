//! The enemy: what the tests put around the product to hurt it, on loopback only.
//!
//! * [`fault_proxy`]: a TCP proxy that cuts connections by bytes, by time or on command, with an abort or in silence.
//! * [`frozen_clock`]: a runtime whose time moves only when a test says so, while real sockets work.
//! * [`rpc_client`]: a minimal JSON-RPC client that can also send what no client should.
//! * [`registry_front`]: a registry that does what the script says, before a real one.
//! * [`mod@reference`]: the reference's own programs, as real processes.
//! * [`responses_api`]: a stand-in for a model's API, so that the reference's agent runs commands without a model.
//! * [`http_server`]: the small HTTP server of the recorded conversations.
//! * [`capture`](mod@capture): what a program told `tracing`, as data.
//!
//! Nothing here is shipped. Locks are allowed: these are not actors, and a test wants to look from outside.
#![allow(
    clippy::disallowed_types,
    reason = "test rig: a test looks at shared counters from outside"
)]

pub mod capture;
pub mod fault_proxy;
pub mod frozen_clock;
pub mod http_message;
pub mod http_server;
pub mod place;
pub mod program;
pub mod reference;
pub mod registry_front;
pub mod responses_api;
pub mod rpc_client;
pub mod seed;
