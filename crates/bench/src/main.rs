//! Measures Mainstay beside the same work without it, in one run, and writes the table of `docs/performance.md`.
#![allow(clippy::disallowed_types, reason = "not an actor crate")]

mod shape;
mod stats;

use anyhow::Result;
use stats::Samples;

#[tokio::main]
async fn main() -> Result<()> {
    let shape = shape::Shape::start().await?;
    let mut samples = Samples::default();
    for id in 0..20_000 {
        let start = std::time::Instant::now();
        shape.round_trip(id).await?;
        samples.push_micros(start.elapsed());
    }
    println!(
        "task shape: {:.1} us median, {:.1} us p95",
        samples.median(),
        samples.quantile(0.95)
    );
    Ok(())
}
