//! Benchmarks: ratios to a peer in the same run.
