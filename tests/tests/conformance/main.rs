//! The recorded conversations with the reference's executor, replayed against ours: same requests, same answers.
//!
//! One test per file of `tests/transcripts`. Every executor is a program of its own on a loopback WebSocket (or on its
//! standard streams), in a directory furnished like the recording's; conversations that wait 80 seconds run inside this
//! process with a clock that only the test moves. `differences.rs` lists where we differ on purpose, and why.

mod compare;
mod differences;
mod http;
mod place;
mod recording;
mod replay;
mod server;
mod wire;

use std::time::Duration;

use anyhow::Result;
use mainstay_executor::{Config, Executor};
use mainstay_testkit::{frozen_clock::FrozenClock, rpc_client::RpcClient};

use crate::place::Place;
use crate::replay::{Replay, real_pauses};
use crate::server::Server;

/// Not a test: what the executors of the tests below run.
#[test]
fn executor_program() {
    server::run().unwrap();
}

/// Plays `files` one after another against one executor.
fn play(files: &[&str]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let played: Result<()> = runtime.block_on(async {
        let mut place = Place::new().await?;
        let server = Server::start(&place).await?;
        for file in files {
            if file.starts_with("33_") {
                place.write("fsroot/big.bin", &b"0123456789abcdef".repeat(8))?;
            }
            Replay::new(file, &mut place, &server.url, real_pauses())
                .run()
                .await?;
        }
        server.stop().await
    });
    if let Err(error) = played {
        panic!("{error:#}");
    }
}

/// Plays `file` with a clock that moves in its pauses only.
fn play_frozen(file: &str) {
    let played: Result<()> = FrozenClock::run(|clock| async move {
        let mut place = Place::new().await?;
        let executor = Executor::start(Config::default()).await?;
        let url = executor.listen("127.0.0.1:0".parse()?).await?;
        let pause: replay::Pause<'_> = Box::new(|time| {
            let (clock, url) = (&clock, &url);
            Box::pin(async move {
                // The clock must not move before the executor has seen what happened: many round trips that began later
                // have ended, on the one thread that all of this runs on. (Ten were too few once, on a busy machine.)
                if let Ok(mut witness) = RpcClient::connect(url).await
                    && witness.initialize(None).await.is_ok()
                {
                    for _ in 0..200 {
                        let _ = witness
                            .call("environment/status", serde_json::json!({}))
                            .await;
                    }
                }
                clock.advance(time).await;
            })
        });
        Replay::new(file, &mut place, &url, pause).run().await?;
        executor.shutdown(Duration::ZERO).await;
        Ok(())
    });
    if let Err(error) = played {
        panic!("{error:#}");
    }
}

macro_rules! replayed {
    ($($name:ident: $($file:literal),+;)*) => {
        $(#[test]
        fn $name() {
            play(&[$($file),+]);
        })*

        /// Files of the tests above.
        const REPLAYED: &[&str] = &[$($($file),+),*];
    };
}

replayed! {
    t01_handshake_errors: "01_handshake_errors.jsonl";
    t02_envelope: "02_envelope.jsonl";
    t03_close_ack_minus1: "03_close_ack_minus1.jsonl";
    t03_close_initialized_first: "03_close_initialized_first.jsonl";
    t03_close_null_id: "03_close_null_id.jsonl";
    t03_close_process_notification: "03_close_process_notification.jsonl";
    t03_close_stray_error: "03_close_stray_error.jsonl";
    t03_close_stray_response: "03_close_stray_response.jsonl";
    t03_close_unknown_notification: "03_close_unknown_notification.jsonl";
    t04_double_initialize: "04_double_initialize.jsonl";
    t05_pipelined_handshake: "05_pipelined_handshake.jsonl";
    t10_process_basic: "10_process_basic.jsonl";
    t11_process_start_errors: "11_process_start_errors.jsonl";
    t12_process_unknown: "12_process_unknown.jsonl";
    t13_process_stdin_pipe: "13_process_stdin_pipe.jsonl";
    t14_process_tty: "14_process_tty.jsonl";
    t15_process_exited_before_closed: "15_process_exited_before_closed.jsonl";
    t16_process_read_longpoll: "16_process_read_longpoll.jsonl";
    t20_resume_while_attached: "20_resume_while_attached.jsonl";
    t21_resume_output_while_detached: "21_resume_output_while_detached.jsonl";
    t22_resume_exit_while_detached: "22_resume_exit_while_detached.jsonl";
    t23_resume_notifications_before_initialized: "23_resume_notifications_before_initialized.jsonl";
    t24_resume_after_graceful_close: "24_resume_after_graceful_close.jsonl";
    t25_resume_during_inflight_longpoll: "25_resume_during_inflight_longpoll.jsonl";
    // One tree, changed from file to file.
    t30_to_t33_files: "30_fs_read_write.jsonl", "31_fs_mutations.jsonl", "32_fs_walk.jsonl", "33_fs_handles.jsonl";
    t34_fs_path_encoding: "34_fs_path_encoding.jsonl";
    t40_http_buffered: "40_http_buffered.jsonl";
    t41_http_stream: "41_http_stream.jsonl";
    t42_http_stream_lost_on_disconnect: "42_http_stream_lost_on_disconnect.jsonl";
    t50_environment: "50_environment.jsonl";
    t51_capabilities: "51_capabilities.jsonl";
    t52_watch_missing: "52_watch_missing.jsonl";
    t53_watch_missing_ids: "53_watch_missing_ids.jsonl";
    t70_stdio: "70_stdio.jsonl";
    t71_head_of_line_inline: "71_head_of_line_inline.jsonl";
    t72_concurrent_lanes: "72_concurrent_lanes.jsonl";
}

#[test]
fn t17_process_after_exit_retention() {
    play_frozen("17_process_after_exit_retention.jsonl");
}

#[test]
fn t26_resume_within_retention() {
    play_frozen("26_resume_within_retention.jsonl");
}

#[test]
fn t27_resume_after_retention() {
    play_frozen("27_resume_after_retention.jsonl");
}

#[test]
fn t80_http_endpoints_and_auth() {
    http::play("80_http_endpoints_and_auth.jsonl");
}

#[test]
fn every_recording_is_replayed_or_listed_as_pending() {
    for file in recording::files().unwrap() {
        let replayed = REPLAYED
            .iter()
            .chain(differences::INSIDE)
            .chain(&["80_http_endpoints_and_auth.jsonl"])
            .any(|replayed| *replayed == file);
        let pending = differences::PENDING
            .iter()
            .any(|(pending, _)| *pending == file);
        assert!(replayed != pending, "{file}");
    }
}
