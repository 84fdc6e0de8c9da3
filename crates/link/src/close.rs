//! Why a connection was closed, as one end tells the other.

use std::time::Duration;

use tokio_tungstenite::tungstenite::protocol::{CloseFrame, frame::coding::CloseCode};

/// Window of an announced restart whose reason names none.
const DEFAULT_WINDOW: Duration = Duration::from_millis(5000);

/// A control frame carries 125 bytes, two of them the code (RFC 6455 section 5.5).
const MAX_REASON: usize = 123;

/// A WebSocket close code with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Close {
    /// The code of RFC 6455 section 7.4; 1005 if the peer sent none.
    pub code: u16,
    /// The reason, at most 123 bytes. A received one is the peer's text: never show it as ours.
    pub reason: String,
}

impl Close {
    /// A code with a reason; the reason is cut at 123 bytes, the most a close frame carries.
    pub fn new(code: u16, reason: impl Into<String>) -> Self {
        let mut reason = reason.into();
        let cut = (0..=reason.len().min(MAX_REASON))
            .rev()
            .find(|at| reason.is_char_boundary(*at));
        reason.truncate(cut.unwrap_or(0));
        Self { code, reason }
    }

    /// 1000: the work is done.
    pub fn normal() -> Self {
        Self::new(1000, "")
    }

    /// 1001: this end goes away and does not come back.
    pub fn going_away() -> Self {
        Self::new(1001, "")
    }

    /// 1012: this end restarts; peers should spread their return over `window`.
    pub fn restart(window: Duration) -> Self {
        Self::new(1012, format!("window-ms={}", window.as_millis()))
    }

    /// The window over which to come back, if this close announces a restart: code 1012, or 1013 (try again
    /// later). 5 s if the reason names none; the caller bounds what a peer may ask.
    pub fn restart_window(&self) -> Option<Duration> {
        match self.code {
            1012 | 1013 => Some(
                self.reason
                    .strip_prefix("window-ms=")
                    .and_then(|ms| ms.parse().ok())
                    .map_or(DEFAULT_WINDOW, Duration::from_millis),
            ),
            _ => None,
        }
    }

    pub(crate) fn from_frame(frame: Option<CloseFrame>) -> Self {
        match frame {
            Some(frame) => Self {
                code: frame.code.into(),
                reason: frame.reason.to_string(),
            },
            None => Self::new(1005, ""),
        }
    }

    pub(crate) fn into_frame(self) -> Option<CloseFrame> {
        // 1005 must not appear on the wire: it means "no code".
        (self.code != 1005).then(|| CloseFrame {
            code: CloseCode::from(self.code),
            reason: self.reason.into(),
        })
    }
}
