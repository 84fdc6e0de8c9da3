//! Identities, handshakes, records and the ordered window of the end-to-end channel.
