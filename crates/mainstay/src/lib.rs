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
mod command;
mod config;
mod environment;
mod error;
mod process;
mod stdin;
mod stream;

pub use builder::{Builder, RegistryConfig};
pub use command::{Command, EnvInherit, TtySize};
pub use config::{Config, OnGap};
pub use environment::{ConnState, Environment, Snapshot};
pub use error::{Delivery, Error, Missing};
pub use process::{Exit, ExitStatus, Output, Process, Signal};
pub use stdin::Stdin;
pub use stream::{Events, OutputStream, ProcessEvent, StreamKind};
