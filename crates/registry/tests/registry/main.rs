//! The registry and its rendezvous over real sockets.

mod announcement;
mod api;
mod replacement;
mod routing;
mod shutdown;
mod slow;
mod support;
mod tokens;
mod upgrades;
