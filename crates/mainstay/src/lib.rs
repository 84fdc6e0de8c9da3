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

mod builder;
mod call;
mod chance;
mod command;
mod config;
mod dialling;
mod environment;
mod error;
mod exec;
mod features;
mod feed;
mod handshake;
mod inbound;
mod lifecycle;
mod line;
mod link;
mod lookup;
mod marks;
mod outbound;
mod outlet;
mod ports;
mod probe;
mod process;
mod process_table;
mod reader;
mod registry;
mod replay;
mod session;
mod setup;
mod start;
mod stdin;
mod stream;
mod supervisor;
mod writer;

pub use builder::Builder;
pub use command::{Command, EnvInherit, TtySize};
pub use config::Config;
pub use environment::{ConnState, Environment, Readiness, Snapshot};
pub use error::{Delivery, Denial, DialFailure, Error, ErrorKind, Missing, RequestFailure};
pub use mainstay_session::config::{Delays, OnGap};
pub use outbound::{Outbound, OutboundPolicy};
pub use process::{Exit, ExitStatus, Output, Process, Signal};
pub use registry::RegistryConfig;
pub use session::Session;
pub use setup::{Attempted, Observer};
pub use stdin::Stdin;
pub use stream::{Events, OutputStream, ProcessEvent, StreamKind};
