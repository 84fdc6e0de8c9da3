//! The executor over loopback sockets, as any client sees it.

mod bounds;
mod credit;
mod crowd;
mod far;
mod handshake;
mod lanes;
mod listener;
mod reads;
mod registered;
mod session;
mod signals;
mod starts;
mod stdin;
mod support;
mod terminals;
