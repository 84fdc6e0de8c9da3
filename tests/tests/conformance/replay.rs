//! Plays a recording: sends what was sent, when everything recorded before it has arrived, and keeps the recording's own
//! pauses, because programs on the far side use them.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::compare::Said;
use crate::differences::{self, Ours};
use crate::place::{Place, recorded_port};
use crate::recording::{self, Event, Line, Payload};
use crate::server::StdioServer;
use crate::wire::{Arrival, Wires};

/// Shorter pauses of a recording are the time its messages took.
const PAUSE: u64 = 150;
/// For everything that must arrive, of real time: the clock of the executor may stand still.
const PATIENCE: Duration = Duration::from_secs(30);

/// How a recorded pause is spent.
pub(crate) type Pause<'a> = Box<dyn Fn(Duration) -> Pin<Box<dyn Future<Output = ()> + 'a>> + 'a>;

/// The pauses of the recording, in real time.
pub(crate) fn real_pauses<'a>() -> Pause<'a> {
    Box::new(|time| Box::pin(tokio::time::sleep(time)))
}

pub(crate) struct Replay<'a> {
    file: &'a str,
    place: &'a mut Place,
    url: &'a str,
    pause: Pause<'a>,
    wires: Wires,
    /// What was recorded up to here, by connection.
    recorded: BTreeMap<u64, Said>,
    /// What arrived up to here, by connection.
    arrived: BTreeMap<u64, Said>,
    ended: Vec<u64>,
    /// The recorded answers, by connection and id.
    answers: BTreeMap<(u64, String), Value>,
    http_port: Option<String>,
}

impl<'a> Replay<'a> {
    pub(crate) fn new(file: &'a str, place: &'a mut Place, url: &'a str, pause: Pause<'a>) -> Self {
        Self {
            file,
            place,
            url,
            pause,
            wires: Wires::new(),
            recorded: BTreeMap::new(),
            arrived: BTreeMap::new(),
            ended: Vec::new(),
            answers: BTreeMap::new(),
            http_port: None,
        }
    }

    /// Plays the whole file and reports every difference that is not on the list.
    pub(crate) async fn run(mut self) -> Result<()> {
        let lines = recording::read(self.file)?;
        for line in &lines {
            if let Event::Received(message) = &line.event {
                self.answers.insert(
                    (line.connection, message["id"].to_string()),
                    message.clone(),
                );
            }
        }
        let mut before = 0;
        for line in &lines {
            let paused = line.at_ms.saturating_sub(before);
            before = line.at_ms;
            if !matches!(line.event, Event::Received(_)) {
                self.settle(line.number).await?;
                if paused >= PAUSE {
                    (self.pause)(Duration::from_millis(paused)).await;
                }
            }
            self.play(line)
                .await
                .map_err(|error| anyhow!("{}:{}: {error:#}", self.file, line.number))?;
        }
        self.settle(lines.len() + 1).await?;
        self.judge()
    }

    async fn play(&mut self, line: &Line) -> Result<()> {
        let connection = line.connection;
        match &line.event {
            Event::Open => self.wires.open(connection, self.url).await?,
            Event::Sent(payload) => {
                if self.file.starts_with("70_") && line.number == 1 {
                    self.wires
                        .open_stdio(connection, StdioServer::start(self.place)?);
                }
                self.send(connection, payload)?;
            }
            Event::Received(message) => {
                let mut message = message.clone();
                differences::apply_everywhere(self.file, &mut message);
                if let Some(difference) = differences::of(self.file, connection, &message) {
                    match difference.ours {
                        Ours::Says(ours) => message = serde_json::from_str(ours)?,
                        Ours::MaySay(_) => {}
                    }
                }
                self.recorded.entry(connection).or_default().hear(&message);
            }
            Event::Abort => self.wires.abort(connection)?,
            Event::Close => {
                // A recording of a violation ends because the server ends it; the others end because they are over.
                if !differences::ends_by_itself(self.file) {
                    self.wires.close(connection);
                }
                self.until(
                    |replay| replay.ended.contains(&connection),
                    "the end of the connection",
                )
                .await?;
            }
            Event::Note(note) if note.starts_with("127 handles") => {
                self.open_handles(connection).await?
            }
            Event::Note(note) => self.place.act(note)?,
            Event::Exit(code) => {
                let child = self
                    .wires
                    .child
                    .as_mut()
                    .ok_or_else(|| anyhow!("no program"))?;
                let status = child.wait().await?;
                anyhow::ensure!(
                    status.code().map(i64::from) == Some(*code),
                    "exit status {status}"
                );
            }
        }
        Ok(())
    }

    fn send(&mut self, connection: u64, payload: &Payload) -> Result<()> {
        let payload = match payload {
            Payload::Message(message) => {
                let text = message.to_string();
                self.http_port = recorded_port(&text).or(self.http_port.take());
                let mut message: Value = serde_json::from_str(&self.place.outward(&text))?;
                restore_shortened(&mut message);
                Payload::Message(message)
            }
            Payload::Raw(text) => Payload::Raw(self.place.outward(text)),
            Payload::Binary(bytes) => Payload::Binary(bytes.clone()),
        };
        self.wires.send(connection, payload)
    }

    /// Fills the table of file handles; the recording left these requests out, but for the last, refused one.
    async fn open_handles(&mut self, connection: u64) -> Result<()> {
        for id in 33..=160 {
            let path = "file:///workspace/fsroot/big.bin";
            let open = json!({"id": id, "method": "fs/open", "params": {"handleId": format!("m{id}"), "path": path}});
            self.send(connection, &Payload::Message(open))?;
            // One after the other: requests that overlap have no order.
            if id < 160 {
                let opened = json!({"id": id, "result": {"handleId": format!("m{id}")}});
                self.recorded.entry(connection).or_default().hear(&opened);
                self.until(|replay| replay.missing().is_none(), "an answer to fs/open")
                    .await?;
            }
        }
        Ok(())
    }

    /// Waits until all that was recorded before line number `line` has arrived.
    async fn settle(&mut self, line: usize) -> Result<()> {
        let waited = self.until(|replay| replay.missing().is_none(), "").await;
        if waited.is_ok() {
            return Ok(());
        }
        let missing = self.missing().unwrap_or_default();
        let so_far = self
            .judge()
            .err()
            .map_or(String::new(), |error| format!("{error:#}"));
        bail!(
            "{}: before line {line} never came: {missing}\n{so_far}",
            self.file
        )
    }

    fn missing(&self) -> Option<String> {
        let none = Said::default();
        self.recorded.iter().find_map(|(connection, recorded)| {
            let arrived = self.arrived.get(connection).unwrap_or(&none);
            // What a dead connection has not said it never will: that is judged at the end.
            let missing = arrived
                .missing(recorded)
                .filter(|_| !self.ended.contains(connection))?;
            Some(format!("{missing} on connection {connection}"))
        })
    }

    async fn until(&mut self, done: impl Fn(&Self) -> bool, what: &str) -> Result<()> {
        let (ring, mut alarm) = oneshot::channel();
        std::thread::spawn(move || {
            std::thread::sleep(PATIENCE);
            let _: Result<(), ()> = ring.send(());
        });
        while !done(self) {
            tokio::select! {
                arrival = self.wires.arrivals.recv() => match arrival {
                    Some(arrival) => self.take(arrival),
                    None => bail!("no connection is left"),
                },
                _ = &mut alarm => bail!("{what} never came"),
            }
        }
        Ok(())
    }

    fn take(
        &mut self,
        Arrival {
            connection,
            message,
        }: Arrival,
    ) {
        let Some(message) = message else {
            self.ended.push(connection);
            return;
        };
        let recorded = self.answers.get(&(connection, message["id"].to_string()));
        if let (Some(ours), Some(recorded)) = (
            message["result"]["sessionId"].as_str(),
            recorded.and_then(|recorded| recorded["result"]["sessionId"].as_str()),
        ) {
            self.place.translate(recorded, ours);
        }
        let mut message = self.place.homeward(message, self.http_port.as_deref());
        if let Some(hostname) = message
            .pointer_mut("/result/hostname")
            .filter(|name| **name == self.place.hostname)
        {
            *hostname = Value::from("executor-host");
        }
        if let Some(recorded) =
            recorded.filter(|_| differences::may_say(self.file, connection, &message))
        {
            message = recorded.clone();
        }
        differences::apply_everywhere(self.file, &mut message);
        self.arrived.entry(connection).or_default().hear(&message);
    }

    fn judge(&self) -> Result<()> {
        let none = Said::default();
        let mut report = String::new();
        let started: BTreeSet<&str> = self.recorded.values().flat_map(Said::started).collect();
        let connections: BTreeSet<_> = self.recorded.keys().chain(self.arrived.keys()).collect();
        for connection in connections {
            let recorded = self.recorded.get(connection).unwrap_or(&none);
            let arrived = self.arrived.get(connection).unwrap_or(&none);
            for difference in arrived.differences(recorded, &started) {
                report.push_str(&format!("\n  connection {connection}, {difference}"));
            }
        }
        if report.is_empty() {
            Ok(())
        } else {
            bail!("{} differs:{report}", self.file)
        }
    }
}

/// Puts back what the recording shows shortened (T52).
fn restore_shortened(message: &mut Value) {
    let Some(paths) = message
        .pointer_mut("/params/missing")
        .and_then(Value::as_array_mut)
    else {
        return;
    };
    if paths.last().is_some_and(|last| last == "...5000 paths") {
        let first = paths[0]
            .as_str()
            .unwrap_or_default()
            .trim_end_matches('0')
            .to_owned();
        *paths = (0..5000)
            .map(|n| Value::from(format!("{first}{n}")))
            .collect();
    }
}
