//! Keeps a session with a remote executor standing.
