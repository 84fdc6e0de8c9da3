//! The client's end: any number of connections, all that they receive in one queue.

use std::collections::HashMap;

use anyhow::{Context, Result};
use mainstay_testkit::rpc_client::RpcClient;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use tokio::process::Child;
use tokio::sync::mpsc;

use crate::recording::Payload;
use crate::server::StdioServer;

/// What a connection received: a message, or its end.
pub(crate) struct Arrival {
    pub(crate) connection: u64,
    pub(crate) message: Option<Value>,
}

enum Order {
    Send(Payload),
    Abort,
    Close,
}

pub(crate) struct Wires {
    orders: HashMap<u64, mpsc::UnboundedSender<Order>>,
    sender: mpsc::UnboundedSender<Arrival>,
    pub(crate) arrivals: mpsc::UnboundedReceiver<Arrival>,
    /// The program behind a stdio connection.
    pub(crate) child: Option<Child>,
}

impl Wires {
    pub(crate) fn new() -> Self {
        let (sender, arrivals) = mpsc::unbounded_channel();
        Self {
            orders: HashMap::new(),
            sender,
            arrivals,
            child: None,
        }
    }

    pub(crate) async fn open(&mut self, connection: u64, url: &str) -> Result<()> {
        let client = RpcClient::connect(url).await?;
        let (order, orders) = mpsc::unbounded_channel();
        tokio::spawn(websocket(connection, client, orders, self.sender.clone()));
        self.orders.insert(connection, order);
        Ok(())
    }

    pub(crate) fn open_stdio(&mut self, connection: u64, server: StdioServer) {
        let StdioServer {
            child,
            stdin,
            stdout,
        } = server;
        self.child = Some(child);
        let (order, mut orders) = mpsc::unbounded_channel();
        self.orders.insert(connection, order);
        let sender = self.sender.clone();
        tokio::spawn(async move {
            let mut lines = stdout.lines();
            while let Ok(Some(line)) = lines.next_line().await {
                // The test harness around the program writes lines of its own.
                if line.starts_with('{') {
                    let _ = sender.send(Arrival {
                        connection,
                        message: serde_json::from_str(&line).ok(),
                    });
                }
            }
            let _ = sender.send(Arrival {
                connection,
                message: None,
            });
        });
        tokio::spawn(async move {
            let mut stdin = stdin;
            while let Some(Order::Send(payload)) = orders.recv().await {
                let line = match payload {
                    Payload::Message(message) => message.to_string(),
                    Payload::Raw(raw) => raw,
                    Payload::Binary(_) => continue,
                };
                let _ = stdin.write_all(format!("{line}\n").as_bytes()).await;
            }
        });
    }

    pub(crate) fn send(&self, connection: u64, payload: Payload) -> Result<()> {
        self.order(connection, Order::Send(payload))
    }

    pub(crate) fn abort(&self, connection: u64) -> Result<()> {
        self.order(connection, Order::Abort)
    }

    /// Ends a connection in the orderly way, if it has not ended yet.
    pub(crate) fn close(&self, connection: u64) {
        let _ = self.order(connection, Order::Close);
    }

    fn order(&self, connection: u64, order: Order) -> Result<()> {
        let orders = self.orders.get(&connection).context("no such connection")?;
        orders.send(order).ok().context("the connection has ended")
    }
}

async fn websocket(
    connection: u64,
    mut client: RpcClient,
    mut orders: mpsc::UnboundedReceiver<Order>,
    arrivals: mpsc::UnboundedSender<Arrival>,
) {
    loop {
        tokio::select! {
            biased;
            order = orders.recv() => {
                let sent = match order {
                    Some(Order::Send(Payload::Message(message))) => client.send_text(message.to_string()).await,
                    Some(Order::Send(Payload::Raw(text))) => client.send_text(text).await,
                    Some(Order::Send(Payload::Binary(bytes))) => client.send_binary(bytes).await,
                    Some(Order::Abort) => {
                        client.abort();
                        break;
                    }
                    Some(Order::Close) | None => {
                        let _ = client.close().await;
                        break;
                    }
                };
                if sent.is_err() {
                    break;
                }
            }
            message = client.next() => match message {
                Ok(message) => {
                    let _ = arrivals.send(Arrival { connection, message: Some(message) });
                }
                Err(_) => break,
            },
        }
    }
    let _ = arrivals.send(Arrival {
        connection,
        message: None,
    });
}
