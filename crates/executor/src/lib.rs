//! The far end: sessions that outlive links, processes, files, HTTP.

pub mod auth;
pub mod files;
pub mod http;
pub mod notify;
pub mod sandbox;
