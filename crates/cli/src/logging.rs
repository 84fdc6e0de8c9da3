//! Logs on standard error: warnings by default, `-v` what happens, `-vv` how, `MAINSTAY_LOG` any filter.

use tracing_subscriber::EnvFilter;

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
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .finish();
    // Fails only when a subscriber is set already, which nobody does before.
    let _ = tracing::subscriber::set_global_default(subscriber);
}
