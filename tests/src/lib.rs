//! Scenarios, conformance, interoperability, field cases.
