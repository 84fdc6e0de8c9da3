//! The specification's scenarios and tables, played against `step` without actors: what a scenario asserts of sockets is tested
//! where there are sockets, what it asserts of decisions is tested here.

mod acquire;
mod attempt;
mod child_gone;
mod document;
mod ending;
mod handoff;
mod recovery;
mod refresh;
mod rig;
