//! Speed of the channel on one core: `cargo run --release -p mainstay-noise --example records`.

use std::time::{Duration, Instant};

use bytes::Bytes;
use mainstay_noise::{Channel, Identity, Initiator, Prologue, Responder, Suite};

const PASSES: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for suite in Suite::ALL {
        let mut handshakes: Vec<Duration> = Vec::new();
        for _ in 0..200 {
            let (executor, harness) = (Identity::generate()?, Identity::generate()?);
            let start = Instant::now();
            channels(suite, &executor, &harness)?;
            handshakes.push(start.elapsed());
        }
        handshakes.sort();
        println!(
            "{suite}: handshake, both sides, median {:?}",
            handshakes[100]
        );

        for size in [100, 1020, 61_436, 4 << 20] {
            let (mut seal, mut open) = (f64::MAX, f64::MAX);
            for _ in 0..PASSES {
                let (harness, executor) =
                    channels(suite, &Identity::generate()?, &Identity::generate()?)?;
                let (mut sealer, _) = harness.split();
                let (_, mut opener) = executor.split();
                let rounds = (256 << 20) / size.max(20_000);
                let message = Bytes::from(vec![b'x'; size]);
                let (mut sealing, mut opening) = (Duration::ZERO, Duration::ZERO);
                for _ in 0..rounds {
                    sealer.push(message.clone())?;
                    while let Some(next) = sealer.upcoming() {
                        let start = Instant::now();
                        let mut record = Vec::with_capacity(next.len + 64);
                        sealer.seal(&mut record)?;
                        sealing += start.elapsed();
                        let record = Bytes::from(record);
                        let start = Instant::now();
                        opener.accept(next.seq, record)?;
                        opening += start.elapsed();
                    }
                    let start = Instant::now();
                    assert_eq!(opener.message()?.map(|message| message.len()), Some(size));
                    opening += start.elapsed();
                }
                let bytes = (rounds * size) as f64 / 1e6;
                seal = seal.min(sealing.as_secs_f64() / bytes);
                open = open.min(opening.as_secs_f64() / bytes);
            }
            println!(
                "{suite}: {size} bytes: seal {:.0} MB/s, open {:.0} MB/s",
                1.0 / seal,
                1.0 / open
            );
        }
    }
    Ok(())
}

fn channels(
    suite: Suite,
    executor: &Identity,
    harness: &Identity,
) -> Result<(Channel, Channel), Box<dyn std::error::Error>> {
    let prologue = Prologue::new(suite, "environment", "registration", "stream");
    let (mut initiator, message_1) =
        Initiator::start(harness, &executor.public(suite), &prologue, "authorization")?;
    let (message_2, executor_side) = Responder::read(executor, &prologue, &message_1)?.accept()?;
    Ok((initiator.finish(&message_2)?, executor_side))
}
