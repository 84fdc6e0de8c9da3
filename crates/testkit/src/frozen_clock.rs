//! A runtime whose time moves only by [`FrozenClock::advance`].
//!
//! A paused tokio runtime jumps to the next timer whenever it has nothing to do, also while a real peer still works. One
//! parked blocking task keeps it from doing so.

use std::{future::Future, time::Duration};

/// Turns of [`FrozenClock::settle`]. A lookup, the longest exchange that is waited for so, takes about ten.
const TURNS: usize = 200;

/// The hand on the clock of [`FrozenClock::run`].
#[derive(Debug)]
pub struct FrozenClock {
    _park: std::sync::mpsc::Sender<()>,
}

impl FrozenClock {
    /// Runs `body` to its end on a current-thread runtime whose clock stands still.
    ///
    /// # Panics
    /// When the runtime cannot be built, or `body` panics.
    pub fn run<F: Future>(body: impl FnOnce(FrozenClock) -> F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a current-thread runtime needs nothing that can be missing");
        let (park, parked) = std::sync::mpsc::channel::<()>();
        runtime.block_on(async move {
            // Ends when the sender is dropped, with the clock.
            tokio::task::spawn_blocking(move || parked.recv());
            body(FrozenClock { _park: park }).await
        })
    }

    /// Moves time by `by`; timers that fall due fire before this returns.
    pub async fn advance(&self, by: Duration) {
        tokio::time::advance(by).await;
    }

    /// Lets what is under way on this runtime's own sockets come to rest, at the time that it is. Loopback delivers at
    /// once, so each turn of the runtime is one hop further. Nothing in another thread or process is waited for.
    pub async fn settle(&self) {
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        time::Instant,
    };

    #[test]
    fn time_stands_still_while_sockets_work_and_moves_on_command() {
        FrozenClock::run(|clock| async move {
            let start = Instant::now();
            let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
                .await
                .unwrap();
            let addr = listener.local_addr().unwrap();
            let peer = std::thread::spawn(move || {
                let mut stream = std::net::TcpStream::connect(addr).unwrap();
                std::io::Write::write_all(&mut stream, b"x").unwrap();
                std::io::Read::read(&mut stream, &mut [0]).unwrap()
            });
            let timer = tokio::spawn(tokio::time::sleep(Duration::from_secs(60)));
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.read_u8().await.unwrap();
            stream.write_u8(1).await.unwrap();
            assert_eq!(peer.join().unwrap(), 1);
            assert_eq!(start.elapsed(), Duration::ZERO);
            assert!(!timer.is_finished());
            clock.advance(Duration::from_secs(61)).await;
            timer.await.unwrap();
        });
    }
}
