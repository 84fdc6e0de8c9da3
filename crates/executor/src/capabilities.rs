//! Plugins and skills on this host's disk: `capabilities/discoverV2` and `capabilityRoots/discoverV1` (protocol.md 13).
//!
//! Both look at directory trees for files with certain names, within the limits of `wire::limits`. The first interprets
//! what it finds in the built-in places, the second hands over the files of places that the peer names.

mod built_in;
mod manifest;
mod roots;
mod scan;
mod skill;

use mainstay_wire::capabilities::{
    DiscoverAnswer, DiscoverParams, DiscoverRootsAnswer, DiscoverRootsParams,
};
use mainstay_wire::{RpcError, limits};

use crate::config_read::ConfigFiles;
use crate::lane::{Answered, Lane};
use crate::sandbox::{Touch, permit_files};

/// `capabilities/discoverV2`: what is installed for this executor's user. The working directory is not looked at.
pub async fn discover(
    lane: Lane,
    files: ConfigFiles,
    params: DiscoverParams,
) -> Result<Answered<DiscoverAnswer>, RpcError> {
    permit_files(params.sandbox.as_ref(), Touch::Read)?;
    lane.run_large(move || built_in::discover(&files)).await
}

/// `capabilityRoots/discoverV1`: the files of the places that are asked for, in that order.
pub async fn discover_roots(
    lane: Lane,
    params: DiscoverRootsParams,
) -> Result<Answered<DiscoverRootsAnswer>, RpcError> {
    if params.roots.len() > limits::CAPABILITY_ROOTS {
        return Err(RpcError::invalid_request(format_args!(
            "capability root discovery accepts at most {} roots",
            limits::CAPABILITY_ROOTS
        )));
    }
    // A policy that is wrong in itself fails the request; one that cannot be kept fails its root.
    for root in &params.roots {
        match permit_files(root.sandbox.as_ref(), Touch::Read) {
            Err(error) if error.code != RpcError::INTERNAL => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    lane.run_large(move || roots::discover(params.roots)).await
}
