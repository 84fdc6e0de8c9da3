//! A TCP proxy on loopback that hurts the connections through it.
//!
//! ```text
//! client ──► FaultProxy ──► target
//!              │  budget in bytes, in time, or a command  ──►  cut: abort (RST), close (FIN) or silence (half-open)
//!              └─ counters, and a watch that fires at every change of them
//! ```
//!
//! A test waits with [`FaultProxy::until`], never for time.

mod connection;

use std::{net::SocketAddr, ops::RangeInclusive, sync::Arc, time::Duration};

use tokio::{
    net::TcpListener,
    sync::{broadcast, watch},
    task::JoinHandle,
};

use crate::seed::Seed;

/// How a connection ends when it is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// RST to both ends; bytes in flight are lost.
    Abort,
    /// FIN to both ends after what was forwarded.
    Close,
    /// Nothing is forwarded any more and nobody is told (half-open): what an unplugged cable looks like.
    Silence,
}

/// Which bytes count towards a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// From the client to the target.
    Up,
    /// From the target to the client.
    Down,
    /// Both ways together.
    Both,
}

/// What happens to a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// It is forwarded to the target.
    Open,
    /// It is reset at once.
    Refuse,
    /// It is accepted, and nothing is ever forwarded.
    Silent,
}

/// When and how connections are cut. The default never cuts.
#[derive(Clone, Debug)]
pub struct Plan {
    mode: Mode,
    bytes: Option<(Counted, RangeInclusive<u64>)>,
    time: Option<RangeInclusive<Duration>>,
    cuts: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            mode: Mode::Abort,
            bytes: None,
            time: None,
            cuts: u64::MAX,
        }
    }
}

impl Plan {
    /// Cuts every connection after a number of bytes drawn from `range`.
    pub fn cut_after_bytes(counted: Counted, range: RangeInclusive<u64>) -> Self {
        Self {
            bytes: Some((counted, range)),
            ..Self::default()
        }
    }

    /// Cuts every connection after a time drawn from `range`, counted from its acceptance.
    pub fn cut_after(range: RangeInclusive<Duration>) -> Self {
        Self {
            time: Some(range),
            ..Self::default()
        }
    }

    /// The same plan with another end of the connections.
    #[must_use]
    pub fn with_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// The same plan, with at most `cuts` cuts; later connections pass.
    #[must_use]
    pub fn at_most(self, cuts: u64) -> Self {
        Self { cuts, ..self }
    }
}

/// What the proxy has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections accepted, refused and silent ones included.
    pub accepted: u64,
    /// Connections being forwarded now.
    pub open: u64,
    /// Connections cut, by plan or by command.
    pub cut: u64,
    /// Those of them that were cut in silence.
    pub silenced: u64,
    /// Connections that one of the two ends closed.
    pub ended: u64,
    /// Connections whose target could not be reached.
    pub unreachable: u64,
    /// Bytes forwarded from clients to the target.
    pub up: u64,
    /// Bytes forwarded from the target to clients.
    pub down: u64,
}

#[derive(Clone, Debug)]
struct Orders {
    plan: Plan,
    door: Door,
    target: SocketAddr,
}

/// A running proxy; dropping it drops its listener and every connection.
#[derive(Debug)]
pub struct FaultProxy {
    addr: SocketAddr,
    orders: watch::Sender<Orders>,
    cut: broadcast::Sender<Mode>,
    counters: Arc<watch::Sender<Counters>>,
    acceptor: JoinHandle<()>,
}

impl FaultProxy {
    /// Listens on a free loopback port and forwards to `target`.
    ///
    /// # Errors
    /// When no port can be bound.
    pub async fn start(target: SocketAddr, plan: Plan, mut seed: Seed) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let addr = listener.local_addr()?;
        let (orders, _) = watch::channel(Orders {
            plan,
            door: Door::Open,
            target,
        });
        let (cut, _) = broadcast::channel(16);
        let counters = Arc::new(watch::Sender::new(Counters::default()));
        let acceptor = tokio::spawn({
            let (orders, cut, counters) = (orders.clone(), cut.clone(), counters.clone());
            async move {
                let mut connections = tokio::task::JoinSet::new();
                while let Ok((client, _)) = listener.accept().await {
                    while connections.try_join_next().is_some() {}
                    counters.send_modify(|c| c.accepted += 1);
                    let orders_now = orders.borrow().clone();
                    let allowed = counters.borrow().cut < orders_now.plan.cuts;
                    let budget = connection::Budget::draw(&orders_now.plan, allowed, &mut seed);
                    connections.spawn(connection::forward(
                        client,
                        orders_now,
                        budget,
                        cut.subscribe(),
                        counters.clone(),
                    ));
                }
            }
        });
        Ok(Self {
            addr,
            orders,
            cut,
            counters,
            acceptor,
        })
    }

    /// A proxy that forwards faithfully until it is told otherwise.
    ///
    /// # Errors
    /// When no port can be bound.
    pub async fn transparent(target: SocketAddr) -> std::io::Result<Self> {
        Self::start(target, Plan::default(), Seed::new(0)).await
    }

    /// Where clients connect.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `scheme://` and the proxy's address.
    pub fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}", self.addr)
    }

    /// The plan of connections accepted from now on.
    pub fn set_plan(&self, plan: Plan) {
        self.orders.send_modify(|orders| orders.plan = plan);
    }

    /// What happens to connections from now on.
    pub fn set_door(&self, door: Door) {
        self.orders.send_modify(|orders| orders.door = door);
    }

    /// Where connections from now on go.
    pub fn set_target(&self, target: SocketAddr) {
        self.orders.send_modify(|orders| orders.target = target);
    }

    /// Cuts every connection that is open now.
    pub fn cut(&self, mode: Mode) {
        let _ = self.cut.send(mode);
    }

    /// What has happened so far.
    pub fn counters(&self) -> Counters {
        *self.counters.borrow()
    }

    /// Waits until the counters satisfy `wanted`; returns them.
    pub async fn until(&self, wanted: impl FnMut(&Counters) -> bool) -> Counters {
        let mut seen = self.counters.subscribe();
        // The sender lives in `self`, so the wait cannot end with an error.
        seen.wait_for(wanted)
            .await
            .map_or_else(|_| self.counters(), |counters| *counters)
    }

    /// Cuts every open connection and waits until they are gone.
    pub async fn cut_and_wait(&self, mode: Mode) -> Counters {
        let before = self.counters();
        self.cut(mode);
        self.until(|now| now.cut + now.ended >= before.cut + before.ended + before.open)
            .await
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.acceptor.abort();
    }
}

#[cfg(test)]
mod tests;
