//! Bytes to types and back: the JSON-RPC dialect, every method, registry bodies, relay frames, limits.
