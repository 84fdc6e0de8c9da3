//! A stand-in for a model's Responses API, so that the reference's agent runs commands without a model.
//!
//! Every request is answered by the next step of a script. A step may look at the request before it decides: the output of the
//! last command stands in there.

use std::{io, net::SocketAddr, sync::Arc, sync::Mutex};

use serde_json::{Value, json};
use tokio::{
    io::BufReader,
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use crate::http_message::{Answer, read_request, write_answer};

/// What the "model" says.
#[derive(Clone, Debug)]
pub enum Step {
    /// It wants a tool called.
    Call {
        /// The tool, for example `exec_command`.
        tool: String,
        /// Its arguments.
        arguments: Value,
    },
    /// It is done.
    Say(String),
}

impl Step {
    /// Runs a shell command.
    pub fn exec(command: &str) -> Self {
        Self::call("exec_command", json!({"cmd": command}))
    }

    /// Calls a tool.
    pub fn call(tool: &str, arguments: Value) -> Self {
        Self::Call {
            tool: tool.to_owned(),
            arguments,
        }
    }
}

type Script = Box<dyn FnMut(&Value) -> Step + Send>;

struct Stage {
    script: Script,
    requests: Vec<Value>,
}

/// A running stand-in; dropping it stops it.
pub struct ResponsesApi {
    addr: SocketAddr,
    stage: Arc<Mutex<Stage>>,
    acceptor: JoinHandle<()>,
}

impl std::fmt::Debug for ResponsesApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResponsesApi")
            .field("addr", &self.addr)
            .finish_non_exhaustive()
    }
}

impl ResponsesApi {
    /// Listens on a free loopback port and answers with what `script` makes of each request.
    ///
    /// # Errors
    /// When no port can be bound.
    pub async fn start(script: impl FnMut(&Value) -> Step + Send + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let addr = listener.local_addr()?;
        let stage = Arc::new(Mutex::new(Stage {
            script: Box::new(script),
            requests: Vec::new(),
        }));
        let acceptor = tokio::spawn({
            let stage = stage.clone();
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let stage = stage.clone();
                    // A client that goes away ends its connection, nothing else.
                    tokio::spawn(async move { drop(serve(stream, &stage).await) });
                }
            }
        });
        Ok(Self {
            addr,
            stage,
            acceptor,
        })
    }

    /// Answers with these steps in order; afterwards it is done.
    ///
    /// # Errors
    /// When no port can be bound.
    pub async fn play(steps: Vec<Step>) -> io::Result<Self> {
        let mut steps = steps.into_iter();
        Self::start(move |_| steps.next().unwrap_or_else(|| Step::Say("done".to_owned()))).await
    }

    /// The `config.toml` of an agent that uses this model.
    pub fn config(&self) -> String {
        format!(
            "model = \"mock\"\nmodel_provider = \"mock\"\n\n[model_providers.mock]\nname = \"mock\"\n\
             base_url = \"http://{}/v1\"\nwire_api = \"responses\"\n",
            self.addr
        )
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Value> {
        self.stage
            .lock()
            .expect("no script panics")
            .requests
            .clone()
    }

    /// What the tools answered so far, in order.
    pub fn outputs(&self) -> Vec<String> {
        self.requests().last().map(outputs).unwrap_or_default()
    }
}

impl Drop for ResponsesApi {
    fn drop(&mut self) {
        self.acceptor.abort();
    }
}

/// What the tools answered, in order, as a request reports it.
pub fn outputs(request: &Value) -> Vec<String> {
    let items = request["input"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let answers = items.iter().filter(|item| {
        item["type"]
            .as_str()
            .is_some_and(|kind| kind.ends_with("_call_output"))
    });
    answers
        .map(|item| {
            item["output"]
                .as_str()
                .map_or_else(|| item["output"].to_string(), str::to_owned)
        })
        .collect()
}

async fn serve(stream: TcpStream, stage: &Mutex<Stage>) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read_request(&mut stream).await? {
        let answer = match serde_json::from_slice::<Value>(&request.body) {
            Ok(body) if request.target == "/v1/responses" => {
                let mut stage = stage.lock().expect("no script panics");
                let step = (stage.script)(&body);
                stage.requests.push(body);
                let number = stage.requests.len();
                events(number, step)
            }
            Ok(_) | Err(_) => Answer {
                status: 404,
                ..Answer::default()
            },
        };
        write_answer(stream.get_mut(), &answer).await?;
    }
    Ok(())
}

fn events(number: usize, step: Step) -> Answer {
    let item = match step {
        Step::Call { tool, arguments } => json!({
            "type": "function_call", "call_id": format!("call{number}"), "name": tool, "arguments": arguments.to_string(),
        }),
        Step::Say(text) => json!({
            "type": "message", "role": "assistant", "id": format!("message{number}"),
            "content": [{"type": "output_text", "text": text}],
        }),
    };
    let id = format!("response{number}");
    let usage = json!({
        "input_tokens": 1, "input_tokens_details": null, "output_tokens": 1, "output_tokens_details": null, "total_tokens": 2,
    });
    let body: String = [
        json!({"type": "response.created", "response": {"id": id}}),
        json!({"type": "response.output_item.done", "item": item}),
        json!({"type": "response.completed", "response": {"id": id, "usage": usage}}),
    ]
    .iter()
    .map(|event| {
        format!(
            "event: {}\ndata: {event}\n\n",
            event["type"].as_str().unwrap_or_default()
        )
    })
    .collect();
    let headers = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
    Answer {
        status: 200,
        headers,
        body: body.into_bytes(),
    }
}
