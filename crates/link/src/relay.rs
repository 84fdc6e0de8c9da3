//! JSON-RPC through the rendezvous, end to end encrypted (noise-relay.md 3 to 7).
//!
//! A harness opens one socket per link ([`dial`], then [`harness()`]); an executor keeps one socket open and gets a
//! link for each harness that calls ([`executor()`]). Either way the result is a [`Link`](crate::Link) like any other.
//!
//! ```text
//! harness    Sink ─ seal ─► socket ═══ rendezvous ═══ socket ─► table ─ open ─► Source   executor
//!            Source ◄ open ─ socket ═══ (sees none ═══ socket ◄ writer ◄─ seal ─ Sink     (one socket,
//!                                        of it)                                            ≤ 128 links)
//! ```

mod budget;
mod bundle;
mod error;
mod examine;
mod executor;
mod harness;
mod records;
mod stream;
mod table;
mod writer;

pub use bundle::Bundle;
pub use error::{BadBundle, HandshakeFault, RelayError};
pub use examine::{Claim, Station, Verdict};
pub use executor::{Accepted, executor};
pub use harness::{dial, harness};

pub(crate) use harness::{HarnessSink, HarnessSource};
pub(crate) use stream::{StreamSink, StreamSource};
