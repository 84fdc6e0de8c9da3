//! The reference's own programs with ours, on either side, and what they say that the specification does not. One test,
//! because its result is one document.
//!
//! `just interop` writes it into `docs/compatibility.md`; elsewhere the run fails when the document says otherwise.

mod agent;
mod client;
mod differences;
mod discovery;
mod document;
mod matrix;
mod mcp;
mod observed;
mod site;
mod stopping;

use std::sync::Arc;

use anyhow::{Context, Result};
use mainstay_testkit::{program::Mainstay, reference::Reference};

use differences::CASES;
use matrix::{Cell, Matrix};
use observed::Observed;
use site::Site;

const BIN: Mainstay = Mainstay(env!("CARGO_BIN_EXE_mainstay"));

/// Rows of one side with a body per scenario. Each scenario gets a far side of its own: what one breaks, the next does not meet.
macro_rules! row {
    ($matrix:expr, $reference:expr, $cells:expr, $name:literal, |$site:ident, $executor:ident, $theirs:ident| $body:block) => {
        for cell in $cells {
            let $theirs: Reference = $reference.clone();
            $matrix
                .run($name, cell, async move {
                    let ($site, $executor) = Site::start(cell, &$theirs).await?;
                    let $site = Arc::new($site);
                    $body
                })
                .await;
        }
    };
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_matrix_holds() -> Result<()> {
    let Some(reference) = Reference::find() else {
        return Ok(());
    };
    let version = reference.version().await?;
    let mut matrix = Matrix::default();
    our_client(&mut matrix, &reference).await;
    their_client(&mut matrix, &reference).await;
    their_client_at_the_registry(&mut matrix, &reference).await;

    let table = matrix.markdown(&version);
    println!("{table}");
    assert_eq!(matrix.failures(), Vec::<String>::new());
    let observed = Observed::start(&reference).await?;
    document::update(&table, &observed.markdown(CASES).await?)
}

async fn our_client(matrix: &mut Matrix, reference: &Reference) {
    let both = [Cell::OursDirect, Cell::OursRelayed];
    let relayed = [Cell::OursRelayed];
    row!(
        matrix,
        reference,
        both,
        "connect, status, info",
        |site, _executor, _reference| { client::status_and_info(site.environment().await?).await }
    );
    row!(
        matrix,
        reference,
        both,
        "files, tree, handles",
        |site, _executor, _reference| { client::files(site.environment().await?).await }
    );
    row!(
        matrix,
        reference,
        both,
        "HTTP, buffered and streamed",
        |site, _executor, _reference| { client::http(site.environment().await?).await }
    );
    row!(
        matrix,
        reference,
        both,
        "a network policy request",
        |site, _executor, _reference| { client::policy(site.environment().await?).await }
    );
    row!(
        matrix,
        reference,
        both,
        "discovery, configuration, missing paths",
        |site, _executor, _reference| { discovery::ours(site.environment().await?).await }
    );
    row!(
        matrix,
        reference,
        both,
        "process: output, errors, code",
        |site, _executor, _reference| { client::process(site.environment().await?).await }
    );
    row!(
        matrix,
        reference,
        both,
        "process: standard input",
        |site, _executor, _reference| { client::stdin(site.environment().await?).await }
    );
    row!(
        matrix,
        reference,
        both,
        "process: the end of standard input",
        |site, _executor, _reference| { client::stdin_end(site.environment().await?).await }
    );
    row!(
        matrix,
        reference,
        both,
        "process: terminal",
        |site, _executor, _reference| { client::terminal(site.environment().await?).await }
    );
    row!(
        matrix,
        reference,
        both,
        "process: interrupt, terminate",
        |site, _executor, _reference| { client::signals(site.environment().await?).await }
    );
    row!(
        matrix,
        reference,
        both,
        "output is exact over three cuts",
        |site, _executor, _reference| {
            client::cuts(site.environment().await?, &site.proxy).await
        }
    );
    row!(
        matrix,
        reference,
        both,
        "the state watch over a cut",
        |site, _executor, _reference| {
            client::watch(site.environment().await?, &site.proxy).await
        }
    );
    row!(
        matrix,
        reference,
        relayed,
        "the executor is replaced, refresh",
        |site, executor, _reference| {
            let mut next = None;
            let replace = async {
                next = Some(site.replace().await?);
                executor.kill().await;
                anyhow::Ok(())
            };
            let outcome = client::replaced(site.environment().await?, replace).await?;
            if let Some(next) = next {
                next.kill().await;
            }
            Ok(outcome)
        }
    );
    row!(
        matrix,
        reference,
        relayed,
        "offline, then online",
        |site, _executor, _reference| {
            client::comes_online(site.environment().await?, site.front().context("no front")?).await
        }
    );
    row!(
        matrix,
        reference,
        relayed,
        "a burst of 429 and 500 from the registry",
        |site, _executor, _reference| {
            client::registry_trouble(site.environment().await?, site.front().context("no front")?)
                .await
        }
    );
    row!(
        matrix,
        reference,
        relayed,
        "a token the registry refuses",
        |site, _executor, _reference| {
            client::refused_token(site.environment().await?, site.front().context("no front")?)
                .await
        }
    );
    row!(
        matrix,
        reference,
        relayed,
        "a client key the registry refuses",
        |site, _executor, _reference| {
            client::refused_key(site.environment().await?, site.front().context("no front")?).await
        }
    );
}

async fn their_client(matrix: &mut Matrix, reference: &Reference) {
    let all = [
        Cell::TheirsDirect,
        Cell::TheirsRelayed,
        Cell::ControlDirect,
        Cell::ControlRelayed,
    ];
    row!(
        matrix,
        reference,
        all,
        "client: status and info",
        |site, _executor, theirs| { agent::status_and_info(theirs, site.destination()).await }
    );
    row!(
        matrix,
        reference,
        all,
        "client: reconnects after three cuts",
        |site, _executor, theirs| {
            agent::reconnects(theirs, site.destination(), &site.proxy).await
        }
    );
    row!(
        matrix,
        reference,
        all,
        "agent: a command with output and a code",
        |site, _executor, theirs| { agent::command(theirs, site.destination()).await }
    );
    row!(
        matrix,
        reference,
        all,
        "agent: a running command is continued",
        |site, _executor, theirs| { agent::continued(theirs, site.destination()).await }
    );
    row!(
        matrix,
        reference,
        all,
        "agent: commands are interrupted, terminated",
        |site, _executor, theirs| { stopping::stopped(theirs, site.destination()).await }
    );
    row!(
        matrix,
        reference,
        all,
        "agent: the link is cut during a command",
        |site, _executor, theirs| { agent::cut(theirs, site.destination(), &site.proxy).await }
    );
    row!(
        matrix,
        reference,
        all,
        "agent: edits files",
        |site, _executor, theirs| { agent::patch(theirs, site.destination()).await }
    );
    for cell in [Cell::TheirsDirect, Cell::TheirsRelayed] {
        let why = "our executor has no network proxy for its processes yet, and says so";
        matrix
            .run("a network policy request", cell, async move {
                Ok(matrix::Outcome::NotDrivable(why))
            })
            .await;
    }
    row!(
        matrix,
        reference,
        all,
        "agent: HTTP to a tool server",
        |site, _executor, theirs| { mcp::tool_server(theirs, site.destination()).await }
    );
    row!(
        matrix,
        reference,
        all,
        "agent: skills of a given directory",
        |site, _executor, theirs| { discovery::theirs_given(theirs, site.destination()).await }
    );
    row!(
        matrix,
        reference,
        all,
        "agent: skills of the executor's own",
        |site, _executor, theirs| { discovery::theirs_own(theirs, site.destination()).await }
    );
    row!(
        matrix,
        reference,
        all,
        "agent: two turns, the executor replaced between",
        |site, executor, theirs| {
            let mut next = None;
            let replace = async {
                next = Some(site.replace().await?);
                site.kill_and_be_noticed(executor).await;
                anyhow::Ok(())
            };
            let outcome = agent::two_turns(theirs, site.destination(), replace).await?;
            if let Some(next) = next {
                next.kill().await;
            }
            Ok(outcome)
        }
    );
}

/// What a registry can do to the reference's client.
async fn their_client_at_the_registry(matrix: &mut Matrix, reference: &Reference) {
    let relayed = [Cell::TheirsRelayed, Cell::ControlRelayed];
    row!(
        matrix,
        reference,
        relayed,
        "client: offline, then online",
        |site, _executor, theirs| {
            agent::comes_online(
                theirs,
                site.destination(),
                site.front().context("no front")?,
            )
            .await
        }
    );
    row!(
        matrix,
        reference,
        relayed,
        "client: a burst of 429 and 500 from the registry",
        |site, _executor, theirs| {
            agent::registry_trouble(
                theirs,
                site.destination(),
                site.front().context("no front")?,
            )
            .await
        }
    );
    row!(
        matrix,
        reference,
        relayed,
        "client: a token the registry refuses",
        |site, _executor, theirs| {
            agent::refused_token(
                theirs,
                site.destination(),
                site.front().context("no front")?,
            )
            .await
        }
    );
    row!(
        matrix,
        reference,
        relayed,
        "client: a key the registry refuses",
        |site, _executor, theirs| {
            agent::refused_key(
                theirs,
                site.destination(),
                site.front().context("no front")?,
            )
            .await
        }
    );
}
