//! Scenarios of the specification against a scripted executor. A test's name carries the scenario's number.

mod audit;
mod bodies;
mod calls;
mod cancelling;
mod credit;
mod deciding;
mod discovery;
mod files;
mod hosts;
mod once;
mod policy;
mod processes;
mod replays;
mod retirement;
mod script;
mod sockets;
