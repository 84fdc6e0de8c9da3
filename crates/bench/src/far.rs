//! Our own far sides, in this process and this runtime.

use anyhow::Result;
use mainstay::Environment;
use mainstay_executor::{Config, Executor};

/// An executor with a listener, and a client of it.
pub(crate) async fn direct() -> Result<(Executor, Environment)> {
    let executor = Executor::start(Config::default()).await?;
    let url = executor.listen(([127, 0, 0, 1], 0).into()).await?;
    let environment = Environment::builder().url(url).spawn().await?;
    Ok((executor, environment))
}

/// The same through registry and relay.
pub(crate) async fn relayed() -> Result<(Executor, Environment)> {
    anyhow::bail!("not finished")
}
