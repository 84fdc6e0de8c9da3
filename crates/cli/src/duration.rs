//! Durations as people write them: `500ms`, `30s`, `2m`, `1h`.

use std::time::Duration;

/// Reads a number with a unit of `ms`, `s`, `m` or `h`.
///
/// # Errors
/// Anything else, with a text that says what is accepted.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| expected(text))?;
    let millis = match unit {
        "ms" => Some(number),
        "s" => number.checked_mul(1000),
        "m" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        _ => return Err(expected(text)),
    };
    millis
        .map(Duration::from_millis)
        .ok_or_else(|| expected(text))
}

fn expected(text: &str) -> String {
    format!("`{text}` is not a duration: write 500ms, 30s, 2m or 1h")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_a_unit_are_durations_and_nothing_else_is() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("3s"), Ok(Duration::from_secs(3)));
        assert_eq!(parse("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse("1h"), Ok(Duration::from_secs(3600)));
        for wrong in [
            "",
            "3",
            "s",
            "-1s",
            "1.5s",
            "3 s",
            "99999999999999999999h",
            "9999999999999999999h",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
