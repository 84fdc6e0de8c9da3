//! A recorded conversation, line by line (`tests/transcripts/README.md`).

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// One line.
pub(crate) struct Line {
    /// From 1.
    pub(crate) number: usize,
    /// Since the start of the recording, in ms.
    pub(crate) at_ms: u64,
    /// Which connection; notes are about the first.
    pub(crate) connection: u64,
    /// What happened.
    pub(crate) event: Event,
}

/// What happened.
pub(crate) enum Event {
    /// The client connected.
    Open,
    /// The client sent.
    Sent(Payload),
    /// The client received.
    Received(Value),
    /// The client dropped the connection without a Close frame.
    Abort,
    /// The client saw the end.
    Close,
    /// Something outside the protocol.
    Note(String),
    /// The program ended.
    Exit(i64),
}

/// What the client sent.
#[derive(Clone)]
pub(crate) enum Payload {
    /// JSON, as a text message.
    Message(Value),
    /// Exactly this text.
    Raw(String),
    /// A binary message.
    Binary(Vec<u8>),
}

/// The lines of `file`.
pub(crate) fn read(file: &str) -> Result<Vec<Line>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("transcripts")
        .join(file);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    text.lines()
        .enumerate()
        .map(|(at, line)| parse(at + 1, line).with_context(|| format!("{file}:{}", at + 1)))
        .collect()
}

/// Every file there is.
pub(crate) fn files() -> Result<Vec<String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".jsonl") {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn parse(number: usize, line: &str) -> Result<Line> {
    let mut line: Value = serde_json::from_str(line)?;
    let direction = line["dir"].as_str().context("no direction")?.to_owned();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let event = match direction.as_str() {
        "open" => Event::Open,
        "c2s" => Event::Sent(match (text(&line["raw"]), text(&line["binary"])) {
            (Some(raw), _) => Payload::Raw(raw),
            // The recording shows bytes that are no UTF-8 as U+FFFD; these were FF FE 00 `bad`.
            (_, Some(binary)) if binary.starts_with('\u{FFFD}') => {
                Payload::Binary(b"\xFF\xFE\0bad".to_vec())
            }
            (_, Some(binary)) => Payload::Binary(binary.into_bytes()),
            (None, None) => Payload::Message(line["msg"].take()),
        }),
        "s2c" => Event::Received(line["msg"].take()),
        "abort" => Event::Abort,
        "close" => Event::Close,
        "note" => Event::Note(text(&line["text"]).context("an empty note")?),
        "exit" => Event::Exit(line["code"].as_i64().context("no exit code")?),
        other => bail!("unknown direction {other}"),
    };
    Ok(Line {
        number,
        at_ms: line["t_ms"].as_u64().unwrap_or(0),
        connection: line["conn"].as_u64().unwrap_or(1),
        event,
    })
}
