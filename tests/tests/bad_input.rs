//! What the library makes of input that no wire can carry, or no system start.

use anyhow::{Context, Result};
use mainstay::{Command, Delivery, Environment, Exit};
use mainstay_executor::{Config, Executor};

async fn far_side() -> Result<(Executor, Environment)> {
    let executor = Executor::start(Config::default()).await?;
    let url = executor.listen(([127, 0, 0, 1], 0).into()).await?;
    Ok((executor, Environment::builder().url(url).spawn().await?))
}

async fn still_works(environment: &Environment) -> Result<()> {
    let output = environment
        .exec(Command::new("true"))
        .await?
        .wait_with_output()
        .await?;
    anyhow::ensure!(
        matches!(output.exit, Exit::Exited(status) if status.code == 0),
        "{output:?}"
    );
    Ok(())
}

#[tokio::test]
async fn an_argument_of_twenty_megabytes_is_a_failed_start() -> Result<()> {
    let (executor, environment) = far_side().await?;
    let command = Command::new("true").arg("x".repeat(20_000_000));
    let error = environment
        .exec(command)
        .await
        .err()
        .context("it started")?;
    assert_eq!(
        (error.code(), error.delivery()),
        (Some(-32603), None),
        "{error}"
    );
    assert!(
        error.to_string().contains("Argument list too long"),
        "{error}"
    );
    still_works(&environment).await?;
    executor.shutdown(std::time::Duration::ZERO).await;
    Ok(())
}

#[tokio::test]
async fn a_variable_of_seventy_megabytes_is_refused_before_sending() -> Result<()> {
    let (executor, environment) = far_side().await?;
    still_works(&environment).await?;
    let session = environment.snapshot().await?.session_id;
    let command = Command::new("true").env("BIG", "x".repeat(70_000_000));
    let error = environment
        .exec(command)
        .await
        .err()
        .context("it started")?;
    assert_eq!(error.code(), None, "{error}");
    assert_ne!(error.delivery(), Some(Delivery::Unknown), "{error}");
    assert!(error.to_string().contains("64 MiB"), "{error}");
    still_works(&environment).await?;
    assert_eq!(
        environment.snapshot().await?.session_id,
        session,
        "the link did not notice"
    );
    executor.shutdown(std::time::Duration::ZERO).await;
    Ok(())
}
