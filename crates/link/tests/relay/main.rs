//! Links through the rendezvous, over loopback sockets. The test is the router, and where it says so one of the ends.
//! Names carry the section of noise-relay.md.

mod between;
mod executor_bounds;
mod executor_flow;
mod executor_frames;
mod far;
mod harness;
