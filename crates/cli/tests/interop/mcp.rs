//! HTTP by the reference's client: its agent reaches a tool server from the executor's place when its configuration says
//! that the server is there.

use anyhow::{Result, ensure};
use mainstay_testkit::{
    http_message::{Answer, Request, read_request, write_answer},
    reference::{FAR, Reference},
    responses_api::ResponsesApi,
};
use serde_json::{Value, json};
use tokio::{
    io::BufReader,
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use crate::{
    agent::{Destination, pairs},
    matrix::Outcome,
};

/// What the server says about its one tool.
const TOOL: &str = "tells where it is asked from";

/// A turn whose tool server answers only requests that carry a variable of the executor's environment: the model hears of
/// the tool.
pub(crate) async fn tool_server(reference: Reference, destination: Destination) -> Result<Outcome> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    let mut server = JoinSet::new();
    server.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            // A client that goes away ends its connection, nothing else.
            connections.spawn(async move { drop(serve(stream).await) });
        }
    });
    let model = ResponsesApi::play(Vec::new()).await?;
    let config = format!(
        "{}\n[mcp_servers.far]\nurl = \"{url}\"\nenvironment_id = \"remote\"\nbearer_token_env_var = \"{FAR}\"\n",
        model.config()
    );
    reference.turn(&pairs(&destination), &config).await?;
    let told = Value::from(model.requests()).to_string();
    ensure!(told.contains(TOOL), "the model did not hear of the tool");
    Ok(Outcome::Pass)
}

async fn serve(stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    while let Some(request) = read_request(&mut stream).await? {
        write_answer(stream.get_mut(), &answer(&request)?).await?;
    }
    Ok(())
}

fn answer(request: &Request) -> Result<Answer> {
    let status = |status| Answer {
        status,
        ..Answer::default()
    };
    let far = ("authorization".to_owned(), "Bearer far".to_owned());
    if !request.headers.contains(&far) {
        return Ok(status(401));
    }
    if request.method != "POST" {
        return Ok(status(405));
    }
    let asked: Value = serde_json::from_slice(&request.body)?;
    let result = match asked["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": asked["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "far", "version": "1"},
        }),
        Some("tools/list") => json!({"tools": [
            {"name": "where", "description": TOOL, "inputSchema": {"type": "object", "properties": {}}},
        ]}),
        Some(_) | None => return Ok(status(202)),
    };
    Ok(Answer {
        status: 200,
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: json!({"jsonrpc": "2.0", "id": asked["id"], "result": result})
            .to_string()
            .into_bytes(),
    })
}
