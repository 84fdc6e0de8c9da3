//! Medians, because a busy machine's mean is a measure of its neighbours.

use std::time::Duration;

/// Samples of one quantity.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    /// Adds one, in the unit of the row.
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// Adds a duration in microseconds.
    pub(crate) fn push_micros(&mut self, duration: Duration) {
        self.push(duration.as_secs_f64() * 1e6);
    }

    /// Adds all of another's.
    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The value below which `share` of the samples are, 0 ≤ share ≤ 1; not a number without samples.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let place = (share * (sorted.len().saturating_sub(1)) as f64).round() as usize;
        sorted.get(place).copied().unwrap_or(f64::NAN)
    }

    /// The middle one.
    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_samples() {
        let mut samples = Samples::default();
        for value in [5.0, 1.0, 4.0, 2.0, 3.0] {
            samples.push(value);
        }
        assert_eq!(
            (
                samples.quantile(0.0),
                samples.median(),
                samples.quantile(1.0)
            ),
            (1.0, 3.0, 5.0)
        );
        assert!(Samples::default().median().is_nan());
    }
}
