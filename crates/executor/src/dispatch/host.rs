//! What concerns the host and not the session: files, HTTP, configuration, capabilities. Each request is a task of its
//! connection, which ends with it.

use std::future::Future;

use mainstay_wire::capabilities::{DiscoverRootsV1, DiscoverV2};
use mainstay_wire::environment::ConfigRead;
use mainstay_wire::extension::CancelHttp;
use mainstay_wire::http::HttpRequest;
use mainstay_wire::{Call, RpcError, fs};
use serde::Serialize;

use super::{Asked, Desk};
use crate::config_read::ConfigFiles;
use crate::lane::{Answered, Lane};
use crate::outbox::Reply;
use crate::{capabilities, files};

impl Desk {
    pub(super) fn route_to_host(&mut self, asked: Asked<'_>) {
        match &*asked.request.method {
            <fs::ReadFile as Call>::METHOD => self.work::<fs::ReadFile, _>(asked, files::read_file),
            <fs::WriteFile as Call>::METHOD => {
                self.work::<fs::WriteFile, _>(asked, files::write_file)
            }
            <fs::CreateDirectory as Call>::METHOD => {
                self.work::<fs::CreateDirectory, _>(asked, files::create_directory);
            }
            <fs::GetMetadata as Call>::METHOD => {
                self.work::<fs::GetMetadata, _>(asked, files::get_metadata)
            }
            <fs::Canonicalize as Call>::METHOD => {
                self.work::<fs::Canonicalize, _>(asked, files::canonicalize)
            }
            <fs::ReadDirectory as Call>::METHOD => {
                self.work::<fs::ReadDirectory, _>(asked, files::read_directory)
            }
            <fs::Walk as Call>::METHOD => self.work::<fs::Walk, _>(asked, files::walk),
            <fs::Remove as Call>::METHOD => self.work::<fs::Remove, _>(asked, files::remove),
            <fs::Copy as Call>::METHOD => self.work::<fs::Copy, _>(asked, files::copy),
            <fs::Open as Call>::METHOD => {
                if let Some((params, reply)) = self.admit::<fs::Open>(asked) {
                    let work = self.handles.open(self.files.clone(), params);
                    self.tasks.spawn(run(work, reply));
                }
            }
            <fs::ReadBlock as Call>::METHOD => {
                if let Some((params, reply)) = self.admit::<fs::ReadBlock>(asked) {
                    let work = self.handles.read_block(self.files.clone(), params);
                    self.tasks.spawn(run(work, reply));
                }
            }
            <fs::WriteBlock as Call>::METHOD => {
                if let Some((params, reply)) = self.admit::<fs::WriteBlock>(asked) {
                    let work = self.handles.write_block(self.files.clone(), params);
                    self.tasks.spawn(run(work, reply));
                }
            }
            <fs::Close as Call>::METHOD => {
                if let Some((params, reply)) = self.admit::<fs::Close>(asked) {
                    let work = self.handles.close(params);
                    self.tasks.spawn(async move { reply.send(work.await) });
                }
            }
            <fs::WatchMissing as Call>::METHOD => self.watch_missing(asked),
            <HttpRequest as Call>::METHOD => self.http_request(asked),
            <CancelHttp as Call>::METHOD => {
                if let Some((params, reply)) = self.admit::<CancelHttp>(asked) {
                    reply.ok(self.exchanges.cancel(&params));
                }
            }
            <ConfigRead as Call>::METHOD => self
                .work::<ConfigRead, _>(asked, async |lane, params| {
                    ConfigFiles::from_environment()?.read(lane, params).await
                }),
            <DiscoverV2 as Call>::METHOD => {
                self.work::<DiscoverV2, _>(asked, async |lane, params| {
                    capabilities::discover(lane, ConfigFiles::from_environment()?, params).await
                })
            }
            <DiscoverRootsV1 as Call>::METHOD => {
                self.work::<DiscoverRootsV1, _>(asked, capabilities::discover_roots);
            }
            unknown => {
                let error = RpcError::method_not_found(unknown);
                asked.reply.err(error);
            }
        }
    }

    /// Runs work in the lane of this connection and answers with what it gives.
    fn work<C: Call, W>(&mut self, asked: Asked<'_>, begin: impl FnOnce(Lane, C::Params) -> W)
    where
        W: Future<Output = Result<Answered<C::Answer>, RpcError>> + Send + 'static,
    {
        if let Some((params, reply)) = self.admit::<C>(asked) {
            let work = begin(self.files.clone(), params);
            self.tasks.spawn(run(work, reply));
        }
    }

    fn watch_missing(&mut self, asked: Asked<'_>) {
        if let Some((params, reply)) = self.admit::<fs::WatchMissing>(asked) {
            let work = self.watch.watch(self.files.clone(), params);
            let outbox = self.outbox.clone();
            self.tasks.spawn(async move {
                match work.await {
                    Ok((answer, watch)) => {
                        reply.ok(answer);
                        if let Some(watch) = watch {
                            watch.run(outbox).await;
                        }
                    }
                    Err(error) => reply.err(error),
                }
            });
        }
    }

    fn http_request(&mut self, asked: Asked<'_>) {
        if let Some((params, reply)) = self.admit::<HttpRequest>(asked) {
            let work = self
                .exchanges
                .request(&self.shared.http, self.bodies.clone(), params);
            let outbox = self.outbox.clone();
            self.tasks.spawn(async move {
                match work.await {
                    Ok(exchange) => {
                        reply.send_in_room(Ok(exchange.answer)).await;
                        drop(exchange.held);
                        if let Some(body) = exchange.body {
                            body.run(outbox).await;
                        }
                    }
                    Err(error) => reply.err(error),
                }
            });
        }
    }
}

/// Answers with what work gives; it keeps its place in the lane until the answer is queued.
async fn run<A: Serialize>(
    work: impl Future<Output = Result<Answered<A>, RpcError>>,
    reply: Reply,
) {
    match work.await {
        Ok(Answered { answer, held }) => {
            reply.send_in_room(Ok(answer)).await;
            drop(held);
        }
        Err(error) => reply.err(error),
    }
}
