//! A registry that does what the script says: a front before a real registry, for clients and for executors.
//!
//! Every call is forwarded to the current upstream, unless the script answers in its place or holds it back. A held `connect`
//! has its answer already and so returns the target of the moment it was asked; a held `validate` or `register` is forwarded
//! only when it is released. That is where a test stops a handshake.

use std::{
    collections::HashMap, collections::VecDeque, io, net::SocketAddr, sync::Arc, sync::Mutex,
};

use serde_json::{Value, json};
use tokio::{
    io::BufReader,
    net::{TcpListener, TcpStream},
    sync::{oneshot, watch},
    task::JoinHandle,
};

use crate::http_message::{Answer, Request, forward, read_request, write_answer};

/// The three calls of the registry's API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// An executor registers.
    Register,
    /// A client looks up.
    Connect,
    /// An executor asks whether a client may come in.
    Validate,
}

/// A call that was held back; dropping it makes the call fail with an answer that is none.
#[derive(Debug)]
pub struct Held {
    arrived: oneshot::Receiver<()>,
    release: oneshot::Sender<()>,
}

impl Held {
    /// Waits until the call has arrived and stands.
    ///
    /// # Panics
    /// When the front is gone.
    pub async fn arrived(&mut self) {
        (&mut self.arrived).await.expect("the front is gone");
    }

    /// Lets the call go on.
    pub fn release(self) {
        let _ = self.release.send(());
    }
}

#[derive(Debug)]
struct Hold {
    arrived: oneshot::Sender<()>,
    released: oneshot::Receiver<()>,
}

#[derive(Debug, Default)]
struct Script {
    upstream: Option<SocketAddr>,
    relay: Option<SocketAddr>,
    offline: bool,
    holds: HashMap<Call, VecDeque<Hold>>,
    answers: HashMap<Call, VecDeque<Answer>>,
    bodies: HashMap<Call, Vec<Value>>,
}

/// A running front; dropping it stops it.
#[derive(Debug)]
pub struct RegistryFront {
    addr: SocketAddr,
    script: Arc<Mutex<Script>>,
    calls: Arc<watch::Sender<HashMap<Call, u64>>>,
    acceptor: JoinHandle<()>,
}

impl RegistryFront {
    /// Listens on a free loopback port and forwards to the registry at `upstream`.
    ///
    /// # Errors
    /// When no port can be bound.
    pub async fn start(upstream: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let addr = listener.local_addr()?;
        let script = Arc::new(Mutex::new(Script {
            upstream: Some(upstream),
            ..Script::default()
        }));
        let calls = Arc::new(watch::Sender::new(HashMap::new()));
        let acceptor = tokio::spawn({
            let (script, calls) = (script.clone(), calls.clone());
            async move {
                let mut connections = tokio::task::JoinSet::new();
                while let Ok((stream, _)) = listener.accept().await {
                    while connections.try_join_next().is_some() {}
                    let (script, calls) = (script.clone(), calls.clone());
                    // A peer that goes away ends its connection, nothing else.
                    connections.spawn(async move { drop(serve(stream, &script, &calls).await) });
                }
            }
        });
        Ok(Self {
            addr,
            script,
            calls,
            acceptor,
        })
    }

    /// Its base URL, for clients and executors alike.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The registry that later calls reach: the current target.
    pub fn set_upstream(&self, upstream: SocketAddr) {
        self.script().upstream = Some(upstream);
    }

    /// Makes later answers name `relay` as the host of their WebSocket URL, for example a fault proxy.
    pub fn set_relay(&self, relay: Option<SocketAddr>) {
        self.script().relay = relay;
    }

    /// Whether lookups are answered with 409 `environment_offline`.
    pub fn set_offline(&self, offline: bool) {
        self.script().offline = offline;
    }

    /// Holds the next call of this kind that is not held yet.
    pub fn hold_next(&self, call: Call) -> Held {
        let (arrived_sender, arrived) = oneshot::channel();
        let (release, released) = oneshot::channel();
        self.script()
            .holds
            .entry(call)
            .or_default()
            .push_back(Hold {
                arrived: arrived_sender,
                released,
            });
        Held { arrived, release }
    }

    /// Answers the next `count` calls of this kind in the registry's place.
    pub fn answer_next(&self, call: Call, count: usize, answer: &Answer) {
        let answers = std::iter::repeat_n(answer.clone(), count);
        self.script()
            .answers
            .entry(call)
            .or_default()
            .extend(answers);
    }

    /// How many calls of this kind have arrived.
    pub fn calls(&self, call: Call) -> u64 {
        self.calls.borrow().get(&call).copied().unwrap_or(0)
    }

    /// Waits until `count` calls of this kind have arrived.
    pub async fn until_calls(&self, call: Call, count: u64) {
        let enough =
            |calls: &HashMap<Call, u64>| calls.get(&call).is_some_and(|seen| *seen >= count);
        // The sender lives in `self`, so the wait cannot end with an error.
        let _ = self.calls.subscribe().wait_for(enough).await;
    }

    /// What the calls of this kind have sent, in the order they arrived; `Null` where it was no JSON.
    pub fn bodies(&self, call: Call) -> Vec<Value> {
        self.script().bodies.get(&call).cloned().unwrap_or_default()
    }

    fn script(&self) -> std::sync::MutexGuard<'_, Script> {
        self.script.lock().expect("no holder of the script panics")
    }
}

impl Drop for RegistryFront {
    fn drop(&mut self) {
        self.acceptor.abort();
    }
}

/// An error answer as the registry gives it; `code` may be empty.
pub fn error(status: u16, code: &str) -> Answer {
    let error = if code.is_empty() {
        json!({"message": "scripted"})
    } else {
        json!({"code": code, "message": "scripted"})
    };
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    Answer {
        status,
        headers,
        body: json!({ "error": error }).to_string().into_bytes(),
    }
}

async fn serve(
    stream: TcpStream,
    script: &Mutex<Script>,
    calls: &watch::Sender<HashMap<Call, u64>>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    while let Some(request) = read_request(&mut stream).await? {
        let call = match request.target.rsplit('/').next() {
            Some("register") => Some(Call::Register),
            Some("connect") => Some(Call::Connect),
            Some("validate") => Some(Call::Validate),
            Some(_) | None => None,
        };
        if let Some(call) = call {
            let body = serde_json::from_slice(&request.body).unwrap_or_default();
            let mut script = script.lock().expect("no holder of the script panics");
            script.bodies.entry(call).or_default().push(body);
            drop(script);
            calls.send_modify(|calls| *calls.entry(call).or_default() += 1);
        }
        let answer = answer(call, &request, script)
            .await
            .unwrap_or_else(|| Answer {
                status: 200,
                body: b"released without an answer".to_vec(),
                ..Answer::default()
            });
        write_answer(stream.get_mut(), &answer).await?;
    }
    Ok(())
}

/// The answer to one call; `None` when it was held and dropped.
async fn answer(call: Option<Call>, request: &Request, script: &Mutex<Script>) -> Option<Answer> {
    let (upstream, relay, offline, hold, scripted) = {
        let mut script = script.lock().expect("no holder of the script panics");
        let hold = call.and_then(|call| script.holds.get_mut(&call)?.pop_front());
        let scripted = call.and_then(|call| script.answers.get_mut(&call)?.pop_front());
        (
            script.upstream?,
            script.relay,
            script.offline,
            hold,
            scripted,
        )
    };
    let fetch = async {
        match scripted {
            Some(answer) => answer,
            None if offline && call == Some(Call::Connect) => error(409, "environment_offline"),
            None => match forward(upstream, request).await {
                Ok(answer) => with_relay(answer, relay),
                Err(_) => error(502, "unreachable"),
            },
        }
    };
    match (hold, call) {
        (Some(hold), Some(Call::Connect)) => {
            let answer = fetch.await;
            wait(hold).await?;
            Some(answer)
        }
        (Some(hold), _) => {
            wait(hold).await?;
            Some(fetch.await)
        }
        (None, _) => Some(fetch.await),
    }
}

async fn wait(hold: Hold) -> Option<()> {
    let _ = hold.arrived.send(());
    hold.released.await.ok()
}

fn with_relay(mut answer: Answer, relay: Option<SocketAddr>) -> Answer {
    let Some(relay) = relay else { return answer };
    let Ok(mut body) = serde_json::from_slice::<Value>(&answer.body) else {
        return answer;
    };
    if let Some(url) = body.get("url").and_then(Value::as_str)
        && let Some((scheme, rest)) = url.split_once("://")
    {
        let path = rest.find('/').map_or("", |slash| &rest[slash..]);
        body["url"] = format!("{scheme}://{relay}{path}").into();
        answer.body = body.to_string().into_bytes();
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A registry that answers every call with its own name.
    async fn upstream(name: &'static str) -> SocketAddr {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let mut stream = BufReader::new(stream);
                let request = read_request(&mut stream).await.unwrap().unwrap();
                let body =
                    json!({"name": name, "url": "ws://1.2.3.4:5/r?x=1", "target": request.target});
                let answer = Answer {
                    status: 200,
                    body: body.to_string().into_bytes(),
                    ..Answer::default()
                };
                write_answer(stream.get_mut(), &answer).await.unwrap();
            }
        });
        addr
    }

    async fn ask(front: &RegistryFront, call: &str) -> (u16, Value) {
        let target = format!("/cloud/environment/e/{call}");
        let request = Request {
            method: "POST".into(),
            target,
            ..Request::default()
        };
        let answer = forward(front.addr, &request).await.unwrap();
        (
            answer.status,
            serde_json::from_slice(&answer.body).unwrap_or_default(),
        )
    }

    #[tokio::test]
    async fn forwards_scripts_and_counts() {
        let front = RegistryFront::start(upstream("old").await).await.unwrap();
        assert_eq!(
            ask(&front, "connect").await.1["url"],
            "ws://1.2.3.4:5/r?x=1"
        );
        front.set_relay(Some("127.0.0.1:9".parse().unwrap()));
        assert_eq!(
            ask(&front, "connect").await.1["url"],
            "ws://127.0.0.1:9/r?x=1"
        );
        front.set_offline(true);
        assert_eq!(
            ask(&front, "connect").await,
            (
                409,
                json!({"error": {"code": "environment_offline", "message": "scripted"}})
            )
        );
        assert_eq!(
            ask(&front, "validate").await.0,
            200,
            "offline is for lookups"
        );
        front.set_offline(false);
        front.answer_next(Call::Connect, 1, &error(500, ""));
        assert_eq!(ask(&front, "connect").await.0, 500);
        assert_eq!(ask(&front, "connect").await.0, 200);
        assert_eq!(
            (front.calls(Call::Connect), front.calls(Call::Validate)),
            (5, 1)
        );
    }

    #[tokio::test]
    async fn a_held_lookup_returns_the_old_target_and_a_dropped_one_fails() {
        let front = Arc::new(RegistryFront::start(upstream("old").await).await.unwrap());
        let mut held = front.hold_next(Call::Connect);
        let asking = tokio::spawn({
            let front = front.clone();
            async move { ask(&front, "connect").await }
        });
        held.arrived().await;
        front.set_upstream(upstream("new").await);
        assert_eq!(
            ask(&front, "connect").await.1["name"],
            "new",
            "only one call is held"
        );
        held.release();
        assert_eq!(asking.await.unwrap().1["name"], "old");

        let dropped = front.hold_next(Call::Validate);
        drop(dropped);
        assert_eq!(ask(&front, "validate").await, (200, Value::Null));
    }
}
