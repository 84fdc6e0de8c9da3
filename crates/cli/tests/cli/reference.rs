//! The command towards the reference's executor.

use anyhow::Result;
use mainstay_testkit::{place::Place, program::finish, reference::Reference};

use crate::BIN;

#[tokio::test]
async fn runs_on_the_references_executor() -> Result<()> {
    let Some(reference) = Reference::find() else {
        return Ok(());
    };
    let executor = reference.executor().await?;
    let place = Place::at(BIN, &executor.url);
    let script = "head -c 300000 /dev/zero; echo err >&2; exit 7";
    let done = finish(&mut place.run(&["--", "sh", "-c", script]), b"").await?;
    assert_eq!((done.code, done.stderr.as_str()), (Some(7), "err\n"));
    assert_eq!(done.stdout, vec![0; 300_000]);
    Ok(())
}

#[tokio::test]
async fn says_that_the_reference_cannot_close_standard_input() -> Result<()> {
    let Some(reference) = Reference::find() else {
        return Ok(());
    };
    let executor = reference.executor().await?;
    let place = Place::at(BIN, &executor.url);
    let done = finish(
        &mut place.run(&["--", "head", "-n", "2"]),
        b"one\ntwo\nthree\n",
    )
    .await?;
    assert_eq!(
        (done.code, done.stdout.as_slice()),
        (Some(0), &b"one\ntwo\n"[..])
    );
    // Said when the end of input comes before the end of the command, which is a race here.
    assert!(
        done.stderr.is_empty() || done.stderr.contains("cannot close standard input"),
        "{}",
        done.stderr
    );

    let script = "read line; sleep 0.3; echo $line";
    let done = finish(&mut place.run(&["--", "sh", "-c", script]), b"one\n").await?;
    assert_eq!(done.stdout, b"one\n");
    assert!(
        done.stderr.contains("cannot close standard input"),
        "{}",
        done.stderr
    );
    Ok(())
}

#[tokio::test]
async fn tells_a_missing_program_from_a_missing_directory_at_the_reference() -> Result<()> {
    let Some(reference) = Reference::find() else {
        return Ok(());
    };
    let executor = reference.executor().await?;
    let place = Place::at(BIN, &executor.url);
    for flags in [&[][..], &["--cwd", "/"]] {
        let done = finish(
            &mut place.run(&[flags, &["--", "no-such-program-here"]].concat()),
            b"",
        )
        .await?;
        assert_eq!(done.code, Some(127), "{}", done.stderr);
    }
    for program in ["true", "no-such-program-here"] {
        let done = finish(
            &mut place.run(&["--cwd", "/no/such/directory", "--", program]),
            b"",
        )
        .await?;
        assert_eq!(done.code, Some(125), "{}", done.stderr);
        assert!(
            done.stderr.contains("/no/such/directory"),
            "{}",
            done.stderr
        );
    }
    Ok(())
}
