//! Links over loopback sockets: what passes, what is refused, and what happens when the peer does nothing.

mod accepting;
mod dialling;
mod encrypted;
mod lines;
mod messages;
mod silence;
mod support;
