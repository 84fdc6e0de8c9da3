//! The table of `docs/cli.md`: what goes wrong outside, and what `run` makes of it. One test a row.

use std::{ffi::OsString, os::unix::ffi::OsStringExt, process::Stdio};

use anyhow::{Context, Result};

use mainstay_testkit::{
    place::Place,
    program::{Finished, HANG, finish, until_gone},
};

use crate::BIN;

/// Mainstay's own failure: 125, nothing on standard output, and one line that says why.
fn own_failure(done: &Finished, why: &str) {
    assert_eq!(done.code, Some(125), "{}", done.stderr);
    assert_eq!(done.stdout, b"");
    assert!(done.stderr.starts_with("mainstay: "), "{}", done.stderr);
    assert!(done.stderr.contains(why), "{}", done.stderr);
    assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
}

/// A port on which nobody listens.
async fn closed_port() -> Result<u16> {
    Ok(tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await?
        .local_addr()?
        .port())
}

#[tokio::test]
async fn unreachable_registry() -> Result<()> {
    let url = format!("http://127.0.0.1:{}", closed_port().await?);
    let mut run = BIN.command([
        "run",
        "--registry",
        &url,
        "--environment",
        "e",
        "--",
        "true",
    ]);
    own_failure(&finish(run.env("MAINSTAY_TOKEN", "t"), b"").await?, &url);
    Ok(())
}

#[tokio::test]
async fn unreachable_executor() -> Result<()> {
    let url = format!("ws://127.0.0.1:{}", closed_port().await?);
    own_failure(
        &finish(&mut BIN.command(["run", "--url", &url, "--", "true"]), b"").await?,
        "refused",
    );
    Ok(())
}

#[tokio::test]
async fn offline_environment() -> Result<()> {
    let mut place = Place::separate(BIN).await?;
    place.executor.take().context("its own")?.kill().await?;
    own_failure(
        &finish(&mut place.run(&["--", "true"]), b"").await?,
        "no executor is connected",
    );
    Ok(())
}

#[tokio::test]
async fn bad_token() -> Result<()> {
    let place = Place::separate(BIN).await?;
    let done = finish(
        place
            .run(&["--", "true"])
            .env("MAINSTAY_TOKEN", "wrong-token"),
        b"",
    )
    .await?;
    own_failure(&done, "401");
    assert!(
        !done.stderr.contains("wrong-token"),
        "a token is never printed"
    );
    Ok(())
}

#[tokio::test]
async fn wrong_environment_id() -> Result<()> {
    let place = Place::separate(BIN).await?;
    own_failure(
        &finish(
            &mut place.run(&["--environment", "other", "--", "true"]),
            b"",
        )
        .await?,
        "40",
    );
    own_failure(
        &finish(&mut place.run(&["--environment", "a/b", "--", "true"]), b"").await?,
        "not an environment id",
    );
    Ok(())
}

#[tokio::test]
async fn bad_url() -> Result<()> {
    for url in ["", "nonsense", "http://127.0.0.1:1", "ws://"] {
        let done = finish(&mut BIN.command(["run", "--url", url, "--", "true"]), b"").await?;
        assert_eq!(done.code, Some(125), "{url}: {}", done.stderr);
        assert!(done.stderr.contains("URL"), "{url}: {}", done.stderr);
    }
    Ok(())
}

#[tokio::test]
async fn unknown_command() -> Result<()> {
    let place = Place::direct(BIN).await?;
    for program in ["no-such-program-here", "/no/such/program", ""] {
        let done = finish(&mut place.run(&["--", program]), b"").await?;
        assert_eq!(done.code, Some(127), "{program:?}: {}", done.stderr);
        assert!(done.stderr.contains("no such program"), "{}", done.stderr);
    }
    Ok(())
}

#[tokio::test]
async fn not_executable() -> Result<()> {
    let place = Place::direct(BIN).await?;
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("plain");
    std::fs::write(&file, "text")?;
    for program in [file.as_path(), directory.path()] {
        let done = finish(
            &mut place.run(&["--", program.to_str().context("plain")?]),
            b"",
        )
        .await?;
        assert_eq!(done.code, Some(126), "{}", done.stderr);
    }
    Ok(())
}

#[tokio::test]
async fn missing_cwd() -> Result<()> {
    let place = Place::direct(BIN).await?;
    own_failure(
        &finish(
            &mut place.run(&["--cwd", "/no/such/directory", "--", "true"]),
            b"",
        )
        .await?,
        "/no/such/directory",
    );
    Ok(())
}

#[tokio::test]
async fn output_that_is_not_text() -> Result<()> {
    let place = Place::direct(BIN).await?;
    let done = finish(&mut place.run(&["--", "printf", r"\377\000\376\n"]), b"").await?;
    assert_eq!(
        (done.code, done.stdout.as_slice()),
        (Some(0), &[255, 0, 254, b'\n'][..])
    );
    Ok(())
}

#[tokio::test]
async fn an_argument_that_is_not_text() -> Result<()> {
    let args: Vec<OsString> = vec![
        "run".into(),
        "--".into(),
        "ls".into(),
        OsString::from_vec(b"\xff".to_vec()),
    ];
    own_failure(&finish(&mut BIN.command(args), b"").await?, "not UTF-8");
    Ok(())
}

#[tokio::test]
async fn no_command_at_all() -> Result<()> {
    for args in [
        &["run"][..],
        &["run", "--"],
        &["run", "--url", "ws://127.0.0.1:1"],
        &["run", "--no-such-flag", "--", "ls"],
    ] {
        let done = finish(&mut BIN.command(args), b"").await?;
        assert_eq!(
            (done.code, done.stdout.as_slice()),
            (Some(125), &b""[..]),
            "{args:?}"
        );
        assert!(done.stderr.contains("Usage"), "{}", done.stderr);
    }
    let done = finish(&mut BIN.command(["executor", "--no-such-flag"]), b"").await?;
    assert_eq!(done.code, Some(2), "others use 2");
    Ok(())
}

#[tokio::test]
async fn input_that_nobody_reads() -> Result<()> {
    let place = Place::direct(BIN).await?;
    let done = finish(&mut place.run(&["--", "true"]), &vec![b'x'; 10_000_000]).await?;
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    Ok(())
}

#[tokio::test]
async fn standard_input_closed_before_the_start() -> Result<()> {
    let place = Place::direct(BIN).await?;
    let run = place.run(&["--", "cat"]);
    let mut shell = tokio::process::Command::new("sh");
    shell
        .args(["-c", "exec \"$0\" \"$@\" <&-"])
        .arg(run.as_std().get_program())
        .args(run.as_std().get_args());
    let done = finish(shell.kill_on_drop(true), b"").await?;
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    Ok(())
}

#[tokio::test]
async fn standard_output_closed_early() -> Result<()> {
    let place = Place::direct(BIN).await?;
    let mark = "mainstay-endless-1";
    let mut child = place
        .run(&["--", "sh", "-c", &format!("while :; do echo {mark}; done")])
        .stdout(Stdio::piped())
        .spawn()?;
    drop(child.stdout.take());
    let status = tokio::time::timeout(HANG, child.wait())
        .await
        .context("hangs")??;
    assert_eq!(status.code(), Some(141), "as SIGPIPE would have it");
    until_gone(mark, HANG).await?;
    Ok(())
}

#[tokio::test]
async fn a_full_disk_behind_standard_output() -> Result<()> {
    let place = Place::direct(BIN).await?;
    let mark = "mainstay-endless-2";
    let mut run = place.run(&["--", "sh", "-c", &format!("while :; do echo {mark}; done")]);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
    let child = run.stdout(full).stderr(Stdio::piped()).spawn()?;
    let done = tokio::time::timeout(HANG, child.wait_with_output())
        .await
        .context("hangs")??;
    assert_eq!(done.status.code(), Some(125));
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(
        text.contains("standard output: No space left on device"),
        "{text}"
    );
    until_gone(mark, HANG).await?;
    Ok(())
}

#[tokio::test]
async fn a_registry_without_tokens_and_a_listener_for_strangers() -> Result<()> {
    let done = finish(&mut BIN.command(["registry"]), b"").await?;
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    let done = finish(
        &mut BIN.command(["registry", "--tokens", "/no/such/file"]),
        b"",
    )
    .await?;
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    let done = finish(
        &mut BIN.command(["executor", "--listen", "ws://0.0.0.0:0"]),
        b"",
    )
    .await?;
    assert!(matches!(done.code, Some(1 | 2)), "{}", done.stderr);
    assert!(done.stderr.contains("other machines"), "{}", done.stderr);
    Ok(())
}
