//! The pure functions, row by row of the specification's tables.

mod admit;
mod classify;
mod delay;
mod lookup;
mod order;
mod publish;
mod replay;
mod sequence;
mod streams;
