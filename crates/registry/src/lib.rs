//! Environment registry and rendezvous relay.
