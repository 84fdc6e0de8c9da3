//! What goes through: bytes, streams, codes, variables.

use anyhow::Result;

use mainstay_testkit::{place::Place, program::finish};

use crate::BIN;

/// Bytes of every value, in no order that a line or a chunk would favour.
fn odd_bytes(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    })
    .take(length)
    .collect()
}

#[tokio::test]
async fn input_output_error_and_code_pass_through_everywhere() -> Result<()> {
    let input = odd_bytes(10_000_000);
    for place in Place::all(BIN).await? {
        let done = finish(
            &mut place.run(&["--", "sh", "-c", "cat; echo err >&2; exit 7"]),
            &input,
        )
        .await?;
        assert_eq!(done.code, Some(7), "{}: {}", place.name, done.stderr);
        assert_eq!(done.stderr, "err\n", "{}", place.name);
        assert!(
            done.stdout == input,
            "{}: {} bytes came back",
            place.name,
            done.stdout.len()
        );
    }
    Ok(())
}

#[tokio::test]
async fn exit_codes_and_signals_are_the_commands_own() -> Result<()> {
    let place = Place::direct(BIN).await?;
    for (script, code) in [
        ("true", 0),
        ("exit 1", 1),
        ("exit 255", 255),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
    ] {
        let done = finish(&mut place.run(&["--", "sh", "-c", script]), b"").await?;
        assert_eq!(
            (done.code, done.stderr.as_str()),
            (Some(code), ""),
            "{script}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn the_environment_is_the_executors_plus_what_is_given() -> Result<()> {
    let place = Place::direct(BIN).await?;
    let script = "echo $A-$MAINSTAY_TEST_SECRET_TOKEN-$LOCAL_ONLY-$TERM; pwd";
    let mut run = place.run(&[
        "--env", "A=b c", "--env", "TERM=", "--cwd", "/", "--", "sh", "-c", script,
    ]);
    let done = finish(run.env("LOCAL_ONLY", "x"), b"").await?;
    assert_eq!(String::from_utf8(done.stdout)?, "b c---\n/\n");
    Ok(())
}

#[tokio::test]
async fn a_relative_directory_is_below_the_executors() -> Result<()> {
    let place = Place::direct(BIN).await?;
    let done = finish(&mut place.run(&["--cwd", "src", "--", "pwd"]), b"").await?;
    // The executor of this test runs where the test runs: in the crate's directory.
    assert_eq!(
        String::from_utf8(done.stdout)?,
        concat!(env!("CARGO_MANIFEST_DIR"), "/src\n")
    );
    Ok(())
}

#[tokio::test]
async fn without_standard_input_the_command_sees_its_end_at_once() -> Result<()> {
    let place = Place::direct(BIN).await?;
    // The null device, and -n with something to read.
    assert_eq!(
        finish(&mut place.run(&["--", "cat"]), b"").await?.stdout,
        b""
    );
    assert_eq!(
        finish(&mut place.run(&["-n", "--", "cat"]), b"not read")
            .await?
            .stdout,
        b""
    );
    Ok(())
}

#[tokio::test]
async fn help_teaches_and_goes_to_standard_output() -> Result<()> {
    for (args, taught) in [
        (&["--help"][..], "mainstay run -- make test"),
        (&["run", "--help"], "125 if Mainstay itself failed"),
        (&["executor", "--help"], "MAINSTAY_TOKEN_FILE"),
        (
            &["registry", "--help"],
            "SIGHUP reads the tokens file again",
        ),
        (&["registry", "token", "--help"], "--role"),
        (&["--version"], env!("CARGO_PKG_VERSION")),
    ] {
        let done = finish(&mut BIN.command(args), b"").await?;
        assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{args:?}");
        assert!(
            String::from_utf8_lossy(&done.stdout).contains(taught),
            "{args:?}"
        );
    }
    Ok(())
}
