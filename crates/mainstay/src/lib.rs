//! Keeps a session with a remote executor standing.
//!
//! [`Environment`] is the face: a cheap handle of one place where commands run. Behind it a supervisor actor
//! keeps one session alive through dropped connections and planned replacements of the executor.
//!
//! ```no_run
//! # async fn example() -> Result<(), mainstay::Error> {
//! use mainstay::{Command, Environment, Exit};
//!
//! let environment = Environment::builder().url("ws://127.0.0.1:39731").spawn().await?;
//! let process = environment.exec(Command::new("uname").arg("-a")).await?;
//! let output = process.wait_with_output().await?;
//! assert!(matches!(output.exit, Exit::Exited(status) if status.code == 0));
//! # Ok(())
//! # }
//! ```
//!
//! # Telemetry
//!
//! An environment tells `tracing` what it does: a span per attempt, recovery, refresh, link and call, and metrics as events with
//! target `mainstay::metrics`, whose field `monotonic_counter.NAME` adds to a counter and `histogram.NAME` records a
//! value. `docs/telemetry.md` of the repository lists them all. No secret, id, command, path or payload is in any of them.

mod announcements;
mod body_table;
mod builder;
mod call;
mod chance;
mod claim;
mod command;
mod config;
mod dialling;
mod discovery;
mod environment;
mod error;
mod exec;
mod features;
mod feed;
mod files;
mod handshake;
mod http;
mod inbound;
mod lifecycle;
mod line;
mod link;
mod lookup;
mod marks;
mod network;
mod outbound;
mod outlet;
mod paths;
mod policy;
mod ports;
mod probe;
mod process;
mod process_table;
mod program;
mod reader;
mod registry;
mod replay;
mod session;
mod setup;
mod start;
mod stdin;
mod stream;
mod supervisor;
mod telemetry;
mod worker;
mod writer;

pub use builder::Builder;
pub use claim::ReplacementClaim;
pub use command::{Command, EnvInherit, Sandbox, TtySize};
pub use config::{Config, OnSlow};
pub use discovery::{
    CapabilityRoot, ConfigQuery, ConfigReadAnswer, Inventory, Plugin, RootAnswer, Skill,
};
pub use environment::{ConnState, Environment, Provisioning, Readiness, Snapshot};
pub use error::{Delivery, Denial, DialFailure, Error, ErrorKind, Missing, RequestFailure};
pub use files::{
    DirectoryEntry, FileMetadata, FileReader, FileWriter, Files, MissingWatch, WalkAnswer,
    WalkEntry, WalkError, WalkKind, WalkOptions, WatchEnd,
};
pub use http::{BodyStream, HttpRequest, HttpResponse, HttpStream, RedirectPolicy};
pub use mainstay_link::Link;
pub use mainstay_noise::Suite;
pub use mainstay_session::config::{Delays, OnGap};
pub use mainstay_session::event::Mode;
pub use network::{
    CancelCause, Cancelled, Decider, Deciding, Decision, Network, PolicyProtocol, PolicyTarget,
    ProxyMode, ProxyRules,
};
pub use outbound::{Outbound, OutboundPolicy};
pub use process::{Chunk, Exit, ExitStatus, Output, Process, ReadAnswer, SandboxType, Signal};
pub use program::Program;
pub use registry::RegistryConfig;
pub use session::{ProcessEntry, Session};
pub use setup::{Attempted, Observer};
pub use stdin::Stdin;
pub use stream::{Events, OutputStream, ProcessEvent, StreamKind};
pub use supervisor::SupervisorRequest;
pub use telemetry::{Trace, TraceSource};
