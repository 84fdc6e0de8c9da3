//! The far end: sessions that outlive links, processes, files, HTTP.
