//! The reference's own programs with ours, on either side. One test, because its result is one table.
//!
//! `just interop` writes the table into `docs/compatibility.md`; elsewhere the run fails when the document says otherwise.

mod agent;
mod matrix;

use anyhow::Result;
use mainstay_testkit::{fault_proxy::FaultProxy, reference::Reference};

use matrix::{Cell, Matrix};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_matrix_holds() -> Result<()> {
    let Some(reference) = Reference::find() else {
        return Ok(());
    };
    let version = reference.version().await?;
    let mut matrix = Matrix::default();

    let executor = reference.executor().await?;
    let addr = executor.url.trim_start_matches("ws://").parse()?;
    let proxy = std::sync::Arc::new(FaultProxy::transparent(addr).await?);
    let destination = vec![("CODEX_EXEC_SERVER_URL", proxy.url("ws"))];
    let cell = Cell::ControlDirect;
    matrix
        .run(
            "status and info",
            cell,
            agent::status_and_info(reference.clone(), destination.clone()),
        )
        .await;
    matrix
        .run("reconnects after three cuts", cell, {
            let (reference, destination, proxy) =
                (reference.clone(), destination.clone(), proxy.clone());
            async move { agent::reconnects(reference, destination, &proxy).await }
        })
        .await;
    matrix
        .run(
            "a turn with a command that fails",
            cell,
            agent::command(reference.clone(), destination.clone()),
        )
        .await;
    matrix
        .run(
            "a turn whose command is continued",
            cell,
            agent::continued(reference.clone(), destination.clone()),
        )
        .await;
    matrix
        .run("a turn while the link is cut", cell, {
            let (reference, destination, proxy) =
                (reference.clone(), destination.clone(), proxy.clone());
            async move { agent::cut(reference, destination, &proxy).await }
        })
        .await;
    matrix
        .run(
            "a turn that edits files",
            cell,
            agent::patch(reference.clone(), destination.clone()),
        )
        .await;

    let next = reference.executor().await?;
    matrix
        .run("two turns, the executor replaced between them", cell, {
            let (reference, destination, proxy) =
                (reference.clone(), destination.clone(), proxy.clone());
            async move {
                let addr = next.url.trim_start_matches("ws://").parse()?;
                let replace = async {
                    proxy.set_target(addr);
                    executor.kill().await;
                    anyhow::Ok(())
                };
                let outcome = agent::two_turns(reference, destination, replace).await;
                next.kill().await;
                outcome
            }
        })
        .await;

    println!("{}", matrix.markdown(&version));
    assert_eq!(matrix.failures(), Vec::<String>::new());
    Ok(())
}
