//! Every decision of the client as pure functions.
