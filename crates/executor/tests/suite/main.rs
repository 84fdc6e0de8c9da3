//! The executor over loopback sockets, as any client sees it.

mod credit;
mod crowd;
mod handshake;
mod listener;
mod process;
mod registered;
mod session;
mod support;
