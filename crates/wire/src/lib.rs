//! Bytes to types and back: the JSON-RPC dialect, every method, registry bodies, relay frames, limits.
//!
//! Nothing here does IO, keeps a clock or knows a session. A message comes in as bytes and leaves as a type, or the
//! other way round:
//!
//! ```
//! use mainstay_wire::envelope::{self, Message};
//! use mainstay_wire::process;
//!
//! let frame = br#"{"id":7,"method":"process/terminate","params":{"processId":"p1"}}"#;
//! let Message::Request(request) = envelope::parse(frame).unwrap() else { panic!() };
//! let params = request.params::<process::Terminate>().unwrap();
//! assert_eq!(params.process_id, "p1");
//! let answer = envelope::success(&request.id, &process::TerminateAnswer { running: false });
//! assert_eq!(answer, r#"{"id":7,"result":{"running":false}}"#);
//! ```
//!
//! * [`envelope`]: requests, notifications, answers; [`RpcError`]; [`Call`] and [`Notice`] tie a method's name to its types
//! * methods by family: [`initialize`], [`environment`], [`process`], [`fs`], [`http`], [`network`], [`capabilities`],
//!   [`extension`] (what Mainstay adds)
//! * [`path`]: path URIs; [`base64`]: byte strings; [`sandbox`]: the sandbox object that many methods take
//! * [`registry`]: HTTP bodies of the environment registry; [`relay`]: frames of the rendezvous
//! * [`limits`]: every number that bounds something, with its source
// Not an actor crate: nothing here is shared, so the locks lint has nothing to guard.
#![allow(clippy::disallowed_types)]

pub mod base64;
mod call;
pub mod capabilities;
pub mod envelope;
pub mod environment;
mod error;
pub mod extension;
pub mod fs;
pub mod http;
pub mod initialize;
pub mod limits;
pub mod network;
mod nullable;
pub mod path;
pub mod process;
pub mod registry;
pub mod relay;
pub mod sandbox;
pub mod scan;
mod text;

pub use call::{Call, Empty, Family, NoParams, Notice};
pub use error::RpcError;
pub use path::PathUri;
