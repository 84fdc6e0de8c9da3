//! Scale: many sessions, many commands, consumers who do not read. Small by default; `MAINSTAY_TEST_ALL=1` runs the full
//! size. Latencies are printed and never judged: the machine may be busy with something else.

#![allow(
    clippy::disallowed_types,
    reason = "the lock is between the test harness's threads, outside every runtime"
)]

mod gauge;
mod sessions;
mod short_commands;
mod slow_consumer;

use mainstay_testkit::program::Mainstay;

const BIN: Mainstay = Mainstay(env!("CARGO_BIN_EXE_mainstay"));
