//! The scenarios of the specification over real sockets: registry, relay, Noise, executors. A test's name carries the
//! scenario's number; `docs/testing.md` has the table of all of them.

mod attachment;
mod attempts;
mod callers;
mod document;
mod far;
mod lookups;
mod provisioned;
mod refresh;
mod renewal;
mod stdio;
mod suites;
mod superseded;
