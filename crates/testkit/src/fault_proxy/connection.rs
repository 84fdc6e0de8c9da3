//! One connection through the proxy: two directions, one budget, one end.

use std::{future::pending, io, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, tcp::OwnedReadHalf, tcp::OwnedWriteHalf},
    sync::{broadcast, watch},
    time::sleep,
};

use super::{Counted, Counters, Door, Mode, Orders, Plan};
use crate::seed::Seed;

/// What one connection may use before it is cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    bytes: Option<(Counted, u64)>,
    time: Option<Duration>,
}

impl Budget {
    /// Draws a budget; without `allowed` an unlimited one, but the same numbers are drawn, so that the history stays the seed's.
    pub(super) fn draw(plan: &Plan, allowed: bool, seed: &mut Seed) -> Self {
        let bytes = plan
            .bytes
            .as_ref()
            .map(|(counted, range)| (*counted, seed.within(range)));
        let time = plan.time.as_ref().map(|range| {
            let micros = |d: &Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
            Duration::from_micros(seed.within(&(micros(range.start())..=micros(range.end()))))
        });
        if allowed {
            Self { bytes, time }
        } else {
            Self {
                bytes: None,
                time: None,
            }
        }
    }

    /// How many of `wanted` bytes in one direction may still pass, and whether that spends the budget.
    fn spend(&mut self, direction: Counted, wanted: usize) -> (usize, bool) {
        match &mut self.bytes {
            Some((counted, left)) if *counted == Counted::Both || *counted == direction => {
                let pass = usize::try_from(*left).unwrap_or(usize::MAX).min(wanted);
                *left -= pass as u64;
                (pass, *left == 0)
            }
            Some(_) | None => (wanted, false),
        }
    }
}

enum End {
    Cut(Mode),
    Ended,
}

pub(super) async fn forward(
    client: TcpStream,
    orders: Orders,
    budget: Budget,
    mut cut: broadcast::Receiver<Mode>,
    counters: Arc<watch::Sender<Counters>>,
) {
    match orders.door {
        Door::Open => {}
        Door::Refuse => {
            let _ = client.set_zero_linger();
            return;
        }
        Door::Silent => {
            silence(client, None, cut).await;
            return;
        }
    }
    let Ok(target) = TcpStream::connect(orders.target).await else {
        let _ = client.set_zero_linger();
        counters.send_modify(|c| c.unreachable += 1);
        return;
    };
    let _ = (client.set_nodelay(true), target.set_nodelay(true));
    counters.send_modify(|c| c.open += 1);

    let (mut client_read, mut client_write) = client.into_split();
    let (mut target_read, mut target_write) = target.into_split();
    let end = tokio::select! {
        biased;
        mode = cut.recv() => End::Cut(mode.unwrap_or(Mode::Abort)),
        () = elapse(budget.time) => End::Cut(orders.plan.mode),
        end = pump_both(&mut client_read, &mut client_write, &mut target_read, &mut target_write, budget, orders.plan.mode, &counters) => end,
    };
    // The halves came from the same stream, so they fit together again.
    let (Ok(client), Ok(target)) = (
        client_read.reunite(client_write),
        target_read.reunite(target_write),
    ) else {
        return;
    };
    match end {
        End::Ended => counters.send_modify(|c| {
            c.open -= 1;
            c.ended += 1;
        }),
        End::Cut(mode) => {
            if mode == Mode::Abort {
                let _ = (client.set_zero_linger(), target.set_zero_linger());
            }
            let held = (mode == Mode::Silence).then_some((client, target));
            counters.send_modify(|c| {
                c.open -= 1;
                c.cut += 1;
                c.silenced += u64::from(mode == Mode::Silence);
            });
            if let Some((client, target)) = held {
                silence(client, Some(target), cut).await;
            }
        }
    }
}

async fn elapse(time: Option<Duration>) {
    match time {
        Some(time) => sleep(time).await,
        None => pending().await,
    }
}

/// Holds sockets open without reading them, until the next command that is not silence.
async fn silence(client: TcpStream, target: Option<TcpStream>, mut cut: broadcast::Receiver<Mode>) {
    while let Ok(Mode::Silence) = cut.recv().await {}
    let _ = client.set_zero_linger();
    if let Some(target) = target {
        let _ = target.set_zero_linger();
    }
}

async fn pump_both(
    client_read: &mut OwnedReadHalf,
    client_write: &mut OwnedWriteHalf,
    target_read: &mut OwnedReadHalf,
    target_write: &mut OwnedWriteHalf,
    budget: Budget,
    mode: Mode,
    counters: &watch::Sender<Counters>,
) -> End {
    let budget = std::sync::Mutex::new(budget);
    let up = pump(client_read, target_write, Counted::Up, &budget, counters);
    let down = pump(target_read, client_write, Counted::Down, &budget, counters);
    tokio::pin!(up, down);
    let (mut up_done, mut down_done) = (false, false);
    // A connection has ended when both directions have: a half-closed one goes on.
    while !(up_done && down_done) {
        let result = tokio::select! {
            result = &mut up, if !up_done => { up_done = true; result }
            result = &mut down, if !down_done => { down_done = true; result }
        };
        match result {
            Ok(Pumped::Spent) => return End::Cut(mode),
            Ok(Pumped::Eof) => {}
            Err(_) => return End::Ended,
        }
    }
    End::Ended
}

enum Pumped {
    Eof,
    Spent,
}

async fn pump(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    direction: Counted,
    budget: &std::sync::Mutex<Budget>,
    counters: &watch::Sender<Counters>,
) -> io::Result<Pumped> {
    let mut buffer = vec![0; 32 * 1024];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            to.shutdown().await?;
            return Ok(Pumped::Eof);
        }
        let (pass, spent) = budget
            .lock()
            .expect("no holder of the budget panics")
            .spend(direction, read);
        to.write_all(&buffer[..pass]).await?;
        counters.send_modify(|c| match direction {
            Counted::Up => c.up += pass as u64,
            Counted::Down => c.down += pass as u64,
            Counted::Both => {}
        });
        if spent {
            return Ok(Pumped::Spent);
        }
    }
}
