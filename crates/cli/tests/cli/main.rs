//! The `mainstay` command, end to end through the real binary.

mod bad_input;
mod carries;
mod ends;
mod listen_auth;
mod reference;
mod survives;
mod terminal;

use mainstay_testkit::program::Mainstay;

const BIN: Mainstay = Mainstay(env!("CARGO_BIN_EXE_mainstay"));
