//! The comparison rules of `tests/transcripts/README.md`.
//!
//! Answers are compared by id, in order where an id was used twice; the events of a process by what they say together;
//! body deltas likewise; every other notification in order.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_wire::base64;
use serde_json::{Value, json};

/// Members whose value is free: ids, times, versions.
const FREE: [&str; 6] = [
    "sessionId",
    "providerId",
    "executorVersion",
    "createdAtMs",
    "modifiedAtMs",
    "timestamp",
];

/// Beginnings of texts that a library makes: what follows is free.
const LIBRARY: [(&str, &str); 3] = [
    // serde_json tells numbers apart where the reference's build of it does not.
    ("invalid type: number", "invalid type: "),
    ("invalid number", "invalid "),
    // uuid changed its words.
    ("invalid character: ", "invalid character: "),
];

/// All that one connection said.
#[derive(Default)]
pub(crate) struct Said {
    /// By id.
    pub(crate) answers: BTreeMap<String, Vec<Value>>,
    /// By process id.
    pub(crate) processes: BTreeMap<String, Events>,
    /// By request id.
    pub(crate) bodies: BTreeMap<String, Events>,
    /// Everything else.
    pub(crate) others: Vec<Value>,
}

/// A numbered series of events, in the order of their numbers.
#[derive(Default)]
pub(crate) struct Events(BTreeMap<u64, Value>);

impl Said {
    pub(crate) fn hear(&mut self, message: &Value) {
        let params = &message["params"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let seq = params["seq"].as_u64().unwrap_or(0);
        match message["method"].as_str() {
            None => self
                .answers
                .entry(message["id"].to_string())
                .or_default()
                .push(free(message)),
            Some("process/output" | "process/exited" | "process/closed") => {
                self.processes
                    .entry(text(&params["processId"]))
                    .or_default()
                    .0
                    .insert(seq, message.clone());
            }
            Some("http/request/bodyDelta") => {
                self.bodies
                    .entry(text(&params["requestId"]))
                    .or_default()
                    .0
                    .insert(seq, message.clone());
            }
            Some(_) => self.others.push(free(message)),
        }
    }

    /// What is still missing of `expected`, if anything.
    pub(crate) fn missing(&self, expected: &Said) -> Option<String> {
        for (id, answers) in &expected.answers {
            if self.answers.get(id).map_or(0, Vec::len) < answers.len() {
                return Some(format!("answer {id}"));
            }
        }
        let series = [
            (&expected.processes, &self.processes),
            (&expected.bodies, &self.bodies),
        ];
        for (id, wanted, found) in series.iter().flat_map(|(wanted, found)| {
            wanted
                .iter()
                .map(|(id, wanted)| (id, wanted, found.get(id)))
        }) {
            let none = Events::default();
            let found = found.unwrap_or(&none);
            let arrived = found.bytes();
            for (stream, bytes) in wanted.bytes() {
                if arrived.get(&stream).map_or(0, Vec::len) < bytes.len() {
                    return Some(format!("{stream} of {id}"));
                }
            }
            for end in ["process/exited", "process/closed", "done"] {
                if wanted.end(end).is_some() && found.end(end).is_none() {
                    return Some(format!("{end} of {id}"));
                }
            }
        }
        (self.others.len() < expected.others.len()).then(|| "a notification".to_owned())
    }

    /// Ids of the processes that were started.
    pub(crate) fn started(&self) -> impl Iterator<Item = &str> {
        self.answers
            .values()
            .flatten()
            .filter_map(|answer| answer["result"]["processId"].as_str())
    }

    /// How this differs from `expected`: one line per difference. Processes that were `started` may say more than the
    /// recording waited for.
    pub(crate) fn differences(&self, expected: &Said, started: &BTreeSet<&str>) -> Vec<String> {
        let mut found = Vec::new();
        let ids: BTreeSet<_> = self.answers.keys().chain(expected.answers.keys()).collect();
        for id in ids {
            let none = Vec::new();
            let ours = self.answers.get(id).unwrap_or(&none);
            let recorded = expected.answers.get(id).unwrap_or(&none);
            for at in 0..ours.len().max(recorded.len()) {
                let same = match (recorded.get(at), ours.get(at)) {
                    (Some(recorded), Some(ours)) => self.same_answer(expected, recorded, ours),
                    (None, _) | (_, None) => false,
                };
                if !same {
                    found.push(difference(
                        &format!("answer {id}"),
                        recorded.get(at),
                        ours.get(at),
                    ));
                }
            }
        }
        for (name, recorded, ours) in [
            ("process", &expected.processes, &self.processes),
            ("body", &expected.bodies, &self.bodies),
        ] {
            let ids: BTreeSet<_> = ours.keys().chain(recorded.keys()).collect();
            for id in ids {
                let silent = started
                    .contains(id.as_str())
                    .then(|| Events::default().story());
                let recorded = recorded.get(id).map(|events| events.story()).or(silent);
                let ours = ours.get(id).map(|events| events.story());
                let same = match (&recorded, &ours) {
                    (Some(recorded), Some(ours)) => same_story(recorded, ours),
                    (None, _) | (_, None) => false,
                };
                if !same {
                    found.push(difference(
                        &format!("{name} {id}"),
                        recorded.as_ref(),
                        ours.as_ref(),
                    ));
                }
            }
        }
        if self.others != expected.others {
            found.push(difference(
                "notifications",
                Some(&json!(expected.others)),
                Some(&json!(self.others)),
            ));
        }
        found
    }

    fn same_answer(&self, expected: &Said, recorded: &Value, ours: &Value) -> bool {
        if recorded == ours {
            return true;
        }
        let (error, our_error) = (&recorded["error"], &ours["error"]);
        if let (Some(text), Some(our_text)) =
            (error["message"].as_str(), our_error["message"].as_str())
        {
            let stable = stable_beginning(text);
            return error["code"] == our_error["code"]
                && error["data"] == our_error["data"]
                && stable.is_some_and(|stable| our_text.starts_with(stable));
        }
        // Output cut elsewhere, or `exited` in another place: then an answer to process/read is measured by the events.
        let moved = |(id, events): (&String, &Events)| {
            self.processes
                .get(id)
                .is_some_and(|ours| ours.cuts() != events.cuts())
        };
        recorded["result"]["chunks"].is_array()
            && expected.processes.iter().any(moved)
            && flags(recorded) == flags(ours)
            && self.processes.values().any(|events| events.contain(ours))
    }
}

impl Events {
    /// What came out, by stream.
    fn bytes(&self) -> BTreeMap<String, Vec<u8>> {
        let mut streams: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for event in self.0.values() {
            let params = &event["params"];
            let encoded = params["chunk"].as_str().or(params["deltaBase64"].as_str());
            if let Some(encoded) = encoded {
                let stream = params["stream"].as_str().unwrap_or("body").to_owned();
                streams
                    .entry(stream)
                    .or_default()
                    .extend(base64::decode(encoded.as_bytes()).unwrap_or_default());
            }
        }
        streams
    }

    fn cuts(&self) -> Vec<(u64, usize)> {
        self.0
            .iter()
            .map(|(seq, event)| (*seq, event["params"]["chunk"].as_str().map_or(0, str::len)))
            .collect()
    }

    /// Whether every chunk of `answer`, one to process/read, is one of these events.
    fn contain(&self, answer: &Value) -> bool {
        answer["result"]["chunks"]
            .as_array()
            .into_iter()
            .flatten()
            .all(|chunk| {
                let event = chunk["seq"].as_u64().and_then(|seq| self.0.get(&seq));
                event.is_some_and(|event| {
                    event["params"]["chunk"] == chunk["chunk"]
                        && event["params"]["stream"] == chunk["stream"]
                })
            })
    }

    fn end(&self, kind: &str) -> Option<&Value> {
        self.0.values().find(|event| {
            event["method"] == kind || (kind == "done" && event["params"]["done"] == true)
        })
    }

    /// What the events say together, however output is cut and wherever `exited` stands.
    fn story(&self) -> Value {
        let numbers: Vec<u64> = self.0.keys().copied().collect();
        let closed = self.end("process/closed");
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        json!({
            "bytes": self.bytes().iter().map(|(stream, bytes)| (stream.clone(), Value::from(text(bytes)))).collect::<serde_json::Map<_, _>>(),
            "numbersWithoutHoles": numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]),
            "closedLast": closed.is_none_or(|closed| closed["params"]["seq"].as_u64() == numbers.last().copied()),
            "closed": closed.is_some(),
            "exit": self.end("process/exited").map(|event| [event["params"]["exitCode"].clone(), event["params"]["sandboxDenied"].clone()]),
            "done": self.end("done").map(|event| event["params"]["error"].clone()),
        })
    }
}

/// Equal; or, where the recording ended in the middle, one the beginning of the other.
fn same_story(recorded: &Value, ours: &Value) -> bool {
    if recorded == ours {
        return true;
    }
    let unfinished = |story: &Value| {
        story["closed"] == false && story["exit"].is_null() && story["done"].is_null()
    };
    let sound = |story: &Value| story["numbersWithoutHoles"] == true && story["closedLast"] == true;
    if !unfinished(recorded) || !sound(ours) {
        return false;
    }
    let (Some(recorded), Some(ours)) = (recorded["bytes"].as_object(), ours["bytes"].as_object())
    else {
        return false;
    };
    recorded.keys().chain(ours.keys()).all(|stream| {
        let text = |story: &serde_json::Map<String, Value>| {
            story
                .get(stream)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let (recorded, ours) = (text(recorded), text(ours));
        recorded.starts_with(&ours) || ours.starts_with(&recorded)
    })
}

/// An answer to process/read without what depends on numbers.
fn flags(answer: &Value) -> [&Value; 5] {
    ["exited", "exitCode", "closed", "failure", "sandboxDenied"].map(|flag| &answer["result"][flag])
}

/// What of an error text must be the same when the whole is not.
fn stable_beginning(text: &str) -> Option<&str> {
    for label in ["exec-server websocket 127.0.0.1:", "exec-server stdio: "] {
        if let Some(at) = text
            .find(label)
            .filter(|_| text.starts_with("failed to parse "))
        {
            return Some(&text[..at + label.len()]);
        }
    }
    LIBRARY
        .iter()
        .find(|(recorded, _)| text.starts_with(recorded))
        .map(|(_, stable)| *stable)
}

/// Without what is free everywhere.
fn free(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let directory = members.get("isDirectory") == Some(&Value::Bool(true));
            members
                .iter()
                .filter(|(key, _)| !(FREE.contains(&key.as_str()) || directory && *key == "size"))
                .map(|(key, value)| (key.clone(), free(value)))
                .collect()
        }
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(free).collect();
            // fs/readDirectory has no order.
            if items.iter().all(|item| item["fileName"].is_string()) {
                items.sort_by_key(|item| item["fileName"].as_str().map(str::to_owned));
            }
            Value::from(items)
        }
        other => other.clone(),
    }
}

fn difference(what: &str, recorded: Option<&Value>, ours: Option<&Value>) -> String {
    let show = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
    format!(
        "{what}\n    recorded {}\n    ours     {}",
        show(recorded),
        show(ours)
    )
}
