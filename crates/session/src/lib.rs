//! Every decision of the client, as pure functions: no clock, no randomness, no runtime, no IO.
//!
//! [`Machine::step`] is the session state machine of one environment: it takes an [`Event`] and returns the [`Effect`]s that the
//! supervisor actor applies. Texts and objects stay in the supervisor, under the numbers of [`ids`].
//! [`sequence`] and [`replay`] put one process's events in order, over any number of links. [`classify`] says what an error means,
//! [`delay`] and [`lookup`] when to try again, [`admit`] which requests of an executor are taken.

mod acquire;
pub mod admit;
mod attempt;
pub mod cause;
mod child_gone;
pub mod classify;
pub mod config;
pub mod conn;
pub mod delay;
pub mod effect;
pub mod error;
pub mod event;
mod handoff;
pub mod ids;
pub mod lookup;
pub mod machine;
pub mod publish;
mod recovery;
pub mod refresh;
pub mod replay;
mod resume;
mod retire;
pub mod sequence;
mod siphash;
mod state;

pub use cause::{Cause, Class, Down, End, Failure, RecoveryPhase};
pub use config::{Config, Rules, Transport};
pub use conn::{AttemptPhase, ConnState, LinkSlot, Phase, Readiness, Snapshot};
pub use effect::{Answer, Effect, Note, Outcome, Route, Wait};
pub use error::{Delivery, Denial, DialFailure, Error, RequestFailure};
pub use event::{Bundle, Event, Fault, How, Mode, Provisioning, Stage};
pub use machine::{Kept, Machine};
pub use state::Observed;
