//! Scenarios, conformance, interoperability, field cases.

pub mod rig;
