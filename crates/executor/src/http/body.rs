//! A response body as `http/request/bodyDelta` notifications.

use bytes::Bytes;
use mainstay_wire::base64::Base64;
use mainstay_wire::http::{BodyDelta, BodyDeltaParams};
use mainstay_wire::{Notice, envelope, limits};
use reqwest::Response;

use super::{CANCELLED, Ticket};
use crate::notice_sink::NoticeSink;

/// A streamed body; nothing of it is read before it runs.
#[derive(Debug)]
#[must_use = "the peer waits for the body"]
pub struct Body {
    request_id: String,
    response: Response,
    ticket: Ticket,
}

impl Body {
    pub(super) fn new(request_id: String, response: Response, ticket: Ticket) -> Self {
        Self {
            request_id,
            response,
            ticket,
        }
    }

    /// Sends the body, as fast as `sink` takes it and no faster, then its end. To be started after the answer to the
    /// request has been queued. Ends early when the connection is gone.
    pub async fn run(mut self, sink: impl NoticeSink) {
        let mut seq = 1;
        let error = loop {
            let chunk = tokio::select! {
                biased;
                () = self.ticket.cancel.cancelled() => break Some(CANCELLED.to_owned()),
                chunk = self.response.chunk() => chunk,
            };
            let mut rest = match chunk {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break None,
                Err(error) => break Some(error.without_url().to_string()),
            };
            while !rest.is_empty() {
                let delta = rest.split_to(rest.len().min(limits::HTTP_DELTA));
                if !sink
                    .send_notice(frame(&self.request_id, seq, delta, false, None))
                    .await
                {
                    return;
                }
                seq += 1;
            }
        };
        // The id is free for the next stream when the peer hears of the end, not later.
        let Self {
            request_id,
            response,
            ticket,
        } = self;
        drop((response, ticket));
        sink.send_notice(frame(&request_id, seq, Bytes::new(), true, error))
            .await;
    }
}

fn frame(request_id: &str, seq: u64, delta: Bytes, done: bool, error: Option<String>) -> String {
    let params = BodyDeltaParams {
        request_id: request_id.to_owned(),
        seq,
        delta_base64: Base64(delta),
        done,
        error,
    };
    envelope::notification(BodyDelta::METHOD, &params)
}
