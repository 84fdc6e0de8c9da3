//! Scenarios of the specification against a scripted executor. A test's name carries the scenario's number.

mod bodies;
mod calls;
mod files;
mod policy;
mod processes;
mod retirement;
mod script;
mod sockets;
