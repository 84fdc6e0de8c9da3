//! Logs on standard error: warnings by default, `-v` what happens, `-vv` how, `MAINSTAY_LOG` any filter.

use std::io::{self, Write};

use tracing_subscriber::EnvFilter;

use crate::run::terminal;

/// Starts logging. Called once.
pub(crate) fn start(verbose: u8) {
    let level = match verbose {
        0 => "warn",
        1 => "info",
        _ => "debug",
    };
    // Dependencies speak only when they have something to warn of.
    let default = format!(
        "warn,mainstay={level},mainstay_cli={level},mainstay_executor={level},mainstay_registry={level},mainstay_link={level}"
    );
    let filter = std::env::var("MAINSTAY_LOG")
        .ok()
        .filter(|text| !text.is_empty())
        .unwrap_or(default);
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(|| StandardError)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .finish();
    // Fails only when a subscriber is set already, which nobody does before.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// Standard error; while the terminal is raw, lines end as a raw terminal wants them.
#[derive(Debug)]
pub(crate) struct StandardError;

impl Write for StandardError {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if terminal::is_raw() {
            // One write, so that the line stays whole among the command's own output.
            io::stderr().write_all(&with_carriage_returns(text))?;
        } else {
            io::stderr().write_all(text)?;
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

fn with_carriage_returns(text: &[u8]) -> Vec<u8> {
    let mut raw = Vec::with_capacity(text.len() + 2);
    for &byte in text {
        if byte == b'\n' {
            raw.push(b'\r');
        }
        raw.push(byte);
    }
    raw
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_raw_terminal_gets_whole_line_ends() {
        assert_eq!(super::with_carriage_returns(b"a\nb\n"), b"a\r\nb\r\n");
    }
}
