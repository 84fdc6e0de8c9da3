//! What clients of a listener have to show.

use std::path::Path;

use anyhow::Result;
use mainstay_link::{DialError, DialOptions, dial};
use mainstay_testkit::program::{Server, finish};

use crate::BIN;

const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// Signed with it; issuer `me`, audience `you`, good for some thousand years.
const SIGNED: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.\
    eyJpc3MiOiJtZSIsImF1ZCI6InlvdSIsImV4cCI6OTk5OTk5OTk5OTl9.rYQmf-4Aha8vgIDn0kJ84WwzaIiivvu8QqVHty1pHug";

fn executor(file: &Path, flags: &[&str]) -> tokio::process::Command {
    let mut command = BIN.command(["executor", "--listen", "ws://127.0.0.1:0"]);
    for flag in flags {
        command.arg(if *flag == "FILE" {
            file.as_os_str()
        } else {
            flag.as_ref()
        });
    }
    command
}

/// The HTTP status of an upgrade with this header.
async fn status(executor: &Server, authorization: Option<&str>) -> Result<u16> {
    let mut options = DialOptions::default();
    if let Some(authorization) = authorization {
        options
            .headers
            .insert("authorization", authorization.parse()?);
    }
    match dial(&executor.first_line, &options).await {
        Ok(_) => Ok(101),
        Err(DialError::Refused(refusal)) => Ok(refusal.status),
        Err(error) => Err(error.into()),
    }
}

#[tokio::test]
async fn a_listener_demands_what_it_was_told_to() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("secret");
    std::fs::write(&file, format!("{SECRET}\n"))?;
    let signed = format!("Bearer {SIGNED}");
    let token = format!("Bearer {SECRET}");

    let open = Server::start(&mut executor(&file, &[])).await?;
    let by_token = Server::start(&mut executor(&file, &["--listen-token-file", "FILE"])).await?;
    let by_signature =
        Server::start(&mut executor(&file, &["--listen-secret-file", "FILE"])).await?;
    let for_others = Server::start(&mut executor(
        &file,
        &[
            "--listen-secret-file",
            "FILE",
            "--listen-issuer",
            "me",
            "--listen-audience",
            "they",
        ],
    ))
    .await?;
    for (executor, nothing, with_token, with_signature) in [
        (&open, 101, 101, 101),
        (&by_token, 401, 101, 401),
        (&by_signature, 401, 401, 101),
        (&for_others, 401, 401, 401),
    ] {
        assert_eq!(status(executor, None).await?, nothing);
        assert_eq!(status(executor, Some(&token)).await?, with_token);
        assert_eq!(status(executor, Some(&signed)).await?, with_signature);
    }
    Ok(())
}

#[tokio::test]
async fn unusable_secrets_are_wrong_usage() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let short = folder.path().join("short");
    std::fs::write(&short, "too short")?;
    let done = finish(
        &mut executor(&short, &["--listen-secret-file", "FILE"]),
        b"",
    )
    .await?;
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    assert!(done.stderr.contains("at least 32 bytes"), "{}", done.stderr);
    let missing = folder.path().join("missing");
    let done = finish(
        &mut executor(&missing, &["--listen-token-file", "FILE"]),
        b"",
    )
    .await?;
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    let both = [
        "--listen-token-file",
        "FILE",
        "--listen-secret-file",
        "FILE",
    ];
    let done = finish(&mut executor(&short, &both), b"").await?;
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    Ok(())
}
