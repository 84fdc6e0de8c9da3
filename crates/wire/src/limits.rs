//! Every number that bounds something on the wire, with its source. Bytes unless the name says otherwise.
//!
//! Sources: P = `protocol.md`, S = `session.md`, N = `noise-relay.md`, D = `design.md`; the number is the section.

use std::time::Duration;

/// 1 KiB.
pub const KIB: usize = 1024;
/// 1 MiB.
pub const MIB: usize = 1024 * KIB;

// --- messages ---

/// One WebSocket frame an executor takes (P 1.1).
pub const INBOUND_FRAME: usize = 16 * MIB;
/// One WebSocket message over several frames, in either direction (P 1.1).
pub const MESSAGE: usize = 64 * MIB;
/// One line over stdio (P 1.3).
pub const STDIO_LINE: usize = 64 * MIB;
/// A message above this is sent in continuation frames (D 7).
pub const SPLIT_ABOVE: usize = 8 * MIB;
/// JSON values in one message, containers, scalars and the root counted, keys not (P 2).
pub const JSON_VALUES: usize = 262_144;
/// Nesting of one message (P 2).
pub const JSON_DEPTH: usize = 127;
/// A request an executor sends to a client (S 1).
pub const CLIENT_INBOUND_REQUEST: usize = 8 * KIB;
/// A notification of process output, exit, close or an HTTP body delta, at the client (S 1).
pub const CLIENT_INBOUND_BULK_NOTICE: usize = 2 * MIB;
/// Any other notification, and anything unparsable, at the client (S 1).
pub const CLIENT_INBOUND_OTHER: usize = 8 * KIB;

// --- queues and counts ---

/// Messages in a transport queue, each way (P 15, S 1).
pub const TRANSPORT_QUEUE: usize = 128;
/// Requests an executor has open at a client (P 11, S 1).
pub const POLICY_REQUESTS_IN_FLIGHT: usize = 256;
/// Calls a client has open per link (S 1).
pub const CALLS_IN_FLIGHT: usize = 1024;
/// Calls kept for clean-up beyond those (S 1).
pub const CLEANUP_CALLS: usize = 1;
/// Calls of a relay link that are on the wire at once (S 1): the executor resets a stream with more than 128
/// undelivered messages (N 6.2).
pub const RELAY_CALLS_ON_WIRE: usize = 96;
/// Wire slots of a relay link kept for terminate, fs/close and status (S 1).
pub const RELAY_RESERVED_ON_WIRE: usize = 4;

// --- sessions and processes ---

/// How long a detached session lives (P 4).
pub const SESSION_RETENTION: Duration = Duration::from_secs(80);
/// How long a closed process is remembered (P 6).
pub const PROCESS_RETENTION: Duration = Duration::from_secs(80);
/// Output kept per process by the reference (P 7).
pub const REFERENCE_LOG: usize = MIB;
/// Output kept per process by Mainstay's executor (D 7).
pub const LOG: usize = 4 * MIB;
/// Chunks kept per process (P 7).
pub const LOG_CHUNKS: usize = 50_000;
/// One chunk of output in the reference (P 7).
pub const OUTPUT_CHUNK: usize = 8192;
/// Chunks queued for a program that does not read (P 6).
pub const STDIN_QUEUE: usize = 128;
/// Write ids remembered per process (P 6).
pub const WRITE_IDS: usize = 4096;
/// Decoded output bytes that may be sent before the first `mainstay/credit` of a process (D 7).
pub const CREDIT_INITIAL_WINDOW: usize = MIB;
/// Lines of a terminal nobody gave a size (P 6).
pub const TTY_ROWS: u16 = 24;
/// Columns of a terminal nobody gave a size (P 6).
pub const TTY_COLS: u16 = 80;

// --- files ---

/// Open file handles per connection (P 9.2).
pub const FILE_HANDLES: usize = 128;
/// One block read or written (P 9.2).
pub const FILE_BLOCK: usize = MIB;
/// A file read whole (P 9.1).
pub const READ_FILE: u64 = 536_870_912;
/// What of it fits one message, base64 and the rest of the answer counted (D 7).
pub const READ_FILE_ANSWER: u64 = ((MESSAGE - 64 * KIB) / 4 * 3) as u64;
/// Estimated payload of a directory's listing, so that it fits one message whatever has to be escaped (D 7).
pub const READ_DIRECTORY_ANSWER: usize = 8 * MIB;
/// Depth of a walk (P 9.1).
pub const WALK_DEPTH: u64 = 64;
/// Directories of a walk (P 9.1).
pub const WALK_DIRECTORIES: u64 = 10_000;
/// Entries of a walk (P 9.1).
pub const WALK_ENTRIES: u64 = 50_000;
/// Estimated payload of a walk's answer (P 9.1).
pub const WALK_ANSWER: usize = 4 * MIB;
/// Paths of a watch (P 9.4).
pub const WATCH_PATHS: usize = 64;

// --- HTTP ---

/// One decoded body delta (P 10, S 1).
pub const HTTP_DELTA: usize = MIB;
/// Base64 characters of one body delta, checked before decoding (S 1).
pub const HTTP_DELTA_BASE64: usize = crate::base64::encoded_len(HTTP_DELTA);

/// A response body in one answer: what fits one message, base64 and up to 1 MiB of headers counted (D 7).
pub const HTTP_BODY: usize = (MESSAGE - MIB) / 4 * 3;
/// Streamed bodies per connection.
pub const HTTP_STREAMS: usize = 256;

// --- configuration and capabilities ---

/// One configuration file (P 12: the 1 MiB of older sources, for their whole answer).
pub const CONFIG_FILE: u64 = MIB as u64;

/// Roots of one discovery (`environment.md` 5.1).
pub const CAPABILITY_ROOTS: usize = 128;
/// Depth of the scan of a root (`environment.md` 5.1).
pub const CAPABILITY_DEPTH: u64 = 6;
/// Directories of the scan of a root (`environment.md` 5.1).
pub const CAPABILITY_DIRECTORIES: u64 = 2000;
/// Entries of the scan of a root (`environment.md` 5.1).
pub const CAPABILITY_ENTRIES: u64 = 20_000;
/// One file that belongs to a capability (`environment.md` 5.1).
pub const CAPABILITY_FILE: u64 = MIB as u64;
/// Contents told of one root (`environment.md` 5.1).
pub const CAPABILITY_BUNDLE: usize = 16 * MIB;
/// Contents told in one answer, so that it fits one message (D 7).
pub const CAPABILITY_ANSWER: usize = 32 * MIB;
/// Warnings told of one root, or in one answer about the built-in roots (`environment.md` 5.3).
pub const CAPABILITY_WARNINGS: usize = 64;
/// Plugins and skills of the built-in roots (`environment.md` 5.3).
pub const CAPABILITIES: usize = 2048;

// --- network policy ---

/// Host of a policy request (P 11).
pub const POLICY_HOST_BYTES: usize = 253;
/// Process id of a policy request (P 11).
pub const POLICY_PROCESS_ID_BYTES: usize = 256;
/// Reason of a decision (P 11).
pub const POLICY_REASON_BYTES: usize = 1024;
/// HTTP method of an audit record (P 11).
pub const POLICY_METHOD_BYTES: usize = 32;
/// Client address of an audit record (P 11).
pub const POLICY_CLIENT_BYTES: usize = 256;
/// Time stamp of an audit record (P 11).
pub const POLICY_TIMESTAMP_BYTES: usize = 64;
/// What an executor waits beyond the asked time-out of a decision (P 11).
pub const POLICY_GRACE: Duration = Duration::from_secs(5);

// --- keepalive ---

/// Between two pings, also before the first (P 1.1, N 3).
pub const PING_INTERVAL: Duration = Duration::from_secs(30);
/// For the pong of a ping (N 3).
pub const PONG_TIMEOUT: Duration = Duration::from_secs(60);

// --- registry ---

/// Whole registry exchange, body included (N 2, S 1).
pub const REGISTRY_TIMEOUT: Duration = Duration::from_secs(10);
/// Characters kept of an error body that is not the documented object (N 2.4).
pub const REGISTRY_ERROR_TEXT_CHARS: usize = 4096;
/// An environment id: `[A-Za-z0-9_-]` so often (N 2).
pub const ENVIRONMENT_ID: usize = 256;

// --- relay ---

/// One WebSocket message of a rendezvous socket (N 3).
pub const RELAY_MESSAGE: usize = 262_144;
/// A stream id we accept (N 4.2).
pub const RELAY_STREAM_ID: usize = 128;
/// A reset reason we send (N 4.2).
pub const RELAY_RESET_REASON: usize = 256;
/// Streams of one executor socket (N 6.2).
pub const RELAY_STREAMS: usize = 128;
/// Validations in flight of one executor socket (N 6.2).
pub const RELAY_VALIDATIONS: usize = 32;
/// Undelivered messages of one stream (N 6.2).
pub const RELAY_INBOUND: usize = 128;
/// Bytes of the undelivered messages of one stream, beside the message that arrives: two of the longest (ours).
pub const RELAY_INBOUND_BYTES: usize = 128 * MIB;
/// Frames of one stream that wait for the executor's socket: four records, so that no stream waits long for another
/// (ours).
pub const RELAY_OUTBOUND_BYTES: usize = 256 * KIB;
/// Resets and handshake answers that wait for the executor's socket; what does not fit is dropped (N 6.2).
pub const RELAY_CONTROL_FRAMES: usize = 128;
/// For the registry's word on a harness (N 6.2).
pub const RELAY_VALIDATION: Duration = Duration::from_secs(10);
/// Failed handshakes before every new one is refused (N 6.3).
pub const RELAY_FAILURES: usize = 8;
/// For how long (N 6.3).
pub const RELAY_FAILURE_PAUSE: Duration = Duration::from_secs(10);
/// Authorization in Noise message 1 (N 5.4).
pub const AUTHORIZATION: usize = 4096;
/// Plaintext of one record (N 5.5).
pub const RECORD: usize = 61_440;
/// One framed JSON-RPC message (N 5.5).
pub const RELAY_JSON: usize = 64 * MIB;
/// How far ahead of the next one a record may come, and how many are held (N 5.6).
pub const WINDOW_RECORDS: usize = 64;
/// Ciphertext of held records (N 5.6).
pub const WINDOW_BYTES: usize = 1_048_576;

/// Whether `text` has `min` to `max` bytes and neither white space nor control characters.
pub(crate) fn is_plain(text: &str, min: usize, max: usize) -> bool {
    (min..=max).contains(&text.len()) && !text.chars().any(|c| c.is_control() || c.is_whitespace())
}
