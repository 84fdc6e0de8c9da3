//! Files on the executor: `fs/…` (`protocol.md` 9).

mod handle;
mod tree;

pub use handle::*;
pub use tree::*;
