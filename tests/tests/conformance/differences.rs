//! Where our executor says something else on purpose, and why; and what is not built yet.

use serde_json::Value;

use crate::place::map_bytes;

/// A line of a recording that our executor does not say like that.
pub(crate) struct Difference {
    file: &'static str,
    connection: u64,
    /// `id` of the answer, as JSON; or method and process of an event.
    id: &'static str,
    /// What it says instead.
    pub(crate) ours: Ours,
    /// Why.
    #[allow(dead_code)]
    why: &'static str,
}

#[derive(Clone, Copy)]
pub(crate) enum Ours {
    /// This message.
    Says(&'static str),
    /// This message, or the recorded one.
    MaySay(&'static str),
}

const MISSING: &str =
    "a failed start says whether the program or the working directory is missing (mainstayMissing)";
const INTERRUPTED: &str = "a program ended by signal n reports 128 + n in a terminal too; the reference reports 1 there, which looks like an ordinary failure";

/// Every deliberate difference in a message.
pub(crate) const DIFFERENCES: &[Difference] = &[
    Difference {
        file: "11_process_start_errors.jsonl",
        connection: 1,
        id: "3",
        ours: Ours::Says(
            r#"{"error":{"code":-32603,"data":{"kind":"spawnNotFound","mainstayMissing":"program"},"message":"No such file or directory (os error 2)"},"id":3}"#,
        ),
        why: MISSING,
    },
    Difference {
        file: "11_process_start_errors.jsonl",
        connection: 1,
        id: "4",
        ours: Ours::Says(
            r#"{"error":{"code":-32603,"data":{"kind":"spawnNotFound","mainstayMissing":"program"},"message":"No such file or directory (os error 2)"},"id":4}"#,
        ),
        why: MISSING,
    },
    Difference {
        file: "11_process_start_errors.jsonl",
        connection: 1,
        id: "8",
        ours: Ours::Says(
            r#"{"error":{"code":-32603,"data":{"kind":"spawnNotFound","mainstayMissing":"cwd"},"message":"No such file or directory (os error 2)"},"id":8}"#,
        ),
        why: MISSING,
    },
    Difference {
        file: "14_process_tty.jsonl",
        connection: 1,
        id: "process/exited tty",
        ours: Ours::Says(
            r#"{"method":"process/exited","params":{"processId":"tty","seq":4,"exitCode":130,"sandboxDenied":false}}"#,
        ),
        why: INTERRUPTED,
    },
    Difference {
        file: "14_process_tty.jsonl",
        connection: 1,
        id: "5",
        ours: Ours::Says(
            r#"{"id":5,"result":{"chunks":[{"seq":1,"stream":"pty","chunk":"MjQgODANCg=="},{"seq":2,"stream":"pty","chunk":"aGkNCg=="},{"seq":3,"stream":"pty","chunk":"aGVsbG8NCmdvdDpoZWxsbw0K"}],"nextSeq":6,"exited":true,"exitCode":130,"closed":true,"failure":null,"sandboxDenied":false}}"#,
        ),
        why: INTERRUPTED,
    },
    Difference {
        file: "14_process_tty.jsonl",
        connection: 1,
        id: "10",
        ours: Ours::MaySay(r#"{"id":10,"result":{"running":true}}"#),
        why: "a second terminate may come before the end is noticed (protocol.md 6)",
    },
    Difference {
        file: "15_process_exited_before_closed.jsonl",
        connection: 1,
        id: "5",
        ours: Ours::MaySay(
            r#"{"id":5,"result":{"chunks":[{"seq":3,"stream":"stdout","chunk":"bGF0ZQo="}],"nextSeq":4,"exited":true,"exitCode":0,"closed":false,"failure":null,"sandboxDenied":false}}"#,
        ),
        why: "a long poll is answered with the chunk, which comes before the end of the stream is seen; the reference does the same with N = 8",
    },
    Difference {
        file: "16_process_read_longpoll.jsonl",
        connection: 1,
        id: "6",
        ours: Ours::MaySay(
            r#"{"id":6,"result":{"chunks":[],"nextSeq":4,"exited":true,"exitCode":0,"closed":false,"failure":null,"sandboxDenied":false}}"#,
        ),
        why: "a long poll is answered with the exit, which may be seen before the ends of the streams; the reference does the same with N = 8",
    },
];

/// Whether `message` is what our executor may say in place of the recorded answer.
pub(crate) fn may_say(file: &str, connection: u64, message: &Value) -> bool {
    let Some(Difference {
        ours: Ours::MaySay(ours),
        ..
    }) = of(file, connection, message)
    else {
        return false;
    };
    serde_json::from_str::<Value>(ours).is_ok_and(|ours| ours == *message)
}

/// Files that wait for a part of the executor, with that part.
pub(crate) const PENDING: &[(&str, &str)] = &[
    ("60_network_policy.jsonl", "the process network proxy"),
    (
        "61_network_policy_timeout.jsonl",
        "the process network proxy",
    ),
    ("62_sandbox.jsonl", "the sandbox"),
];

/// Files that are played against an executor inside the test's own program, whose environment is not the recording's.
pub(crate) const INSIDE: &[&str] = &[
    "17_process_after_exit_retention.jsonl",
    "26_resume_within_retention.jsonl",
    "27_resume_after_retention.jsonl",
];

/// The difference at `message`, a recorded line of `file`.
pub(crate) fn of(file: &str, connection: u64, message: &Value) -> Option<&'static Difference> {
    let id = match message["method"].as_str() {
        Some(method) => format!(
            "{method} {}",
            message["params"]["processId"].as_str().unwrap_or_default()
        ),
        None => message["id"].to_string(),
    };
    let found = DIFFERENCES.iter().find(|difference| {
        difference.file == file && difference.connection == connection && difference.id == id
    });
    // The reference differs only where it may.
    let reference = std::env::var_os(crate::server::AGAINST).is_some();
    found.filter(|difference| !reference || matches!(difference.ours, Ours::MaySay(_)))
}

/// Whether the server ends the last connection of `file`, because of what the client sent.
pub(crate) fn ends_by_itself(file: &str) -> bool {
    file.starts_with("03_close_") && file != "03_close_null_id.jsonl"
}

/// Differences that show in many answers, taken out of both sides:
///
/// * `capabilities`: we announce our additions, and only what we can do;
/// * `prependPathDirs`, and the same directory before `PATH`: the reference ships tools of its own there, we have none.
pub(crate) fn apply_everywhere(file: &str, message: &mut Value) {
    if INSIDE.contains(&file)
        && let Some(answer) = message
            .pointer_mut("/result")
            .and_then(Value::as_object_mut)
    {
        answer.remove("environmentInfo");
    }
    for info in ["/result/environmentInfo", "/result"] {
        if let Some(info) = message.pointer_mut(info).and_then(Value::as_object_mut)
            && info.contains_key("executorVersion")
        {
            info.remove("capabilities");
            info.remove("prependPathDirs");
        }
    }
    if message["method"] == "process/output" {
        let without = |bytes: &[u8]| {
            std::str::from_utf8(bytes)
                .map_or(bytes.to_vec(), |text| without_tools(text).into_bytes())
        };
        *message = map_bytes(message.take(), &without, &str::to_owned);
    }
}

/// `text` without a first directory of `PATH` that is called `codex-path`.
fn without_tools(text: &str) -> String {
    let lines = text.split_inclusive('\n').map(|line| {
        let rest = line
            .strip_prefix("PATH=")
            .and_then(|path| path.split_once("/codex-path:"));
        rest.map_or(line.to_owned(), |(_, rest)| format!("PATH={rest}"))
    });
    lines.collect()
}
