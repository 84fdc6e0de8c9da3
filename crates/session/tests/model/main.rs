//! Exhaustive models of the real [`Machine::step`](mainstay_session::Machine::step) and the real sequencer (`session.md` 16).
//!
//! A child's outcome is chosen when it is delivered, because the supervisor sees nothing but deliveries. Whatever arrives with a tag
//! that is not live must change nothing: that is checked in every state instead of being explored (`stale`), and so are requests
//! that must change nothing (`monitor`). From every state a fair scheduler must reach rest with no waiter left (`rest`).

mod actions;
mod bounds;
mod callers;
mod calls;
mod explore;
mod monitor;
mod rest;
mod sequencer;
mod stale;
mod supervisor;
mod walk;
mod world;
