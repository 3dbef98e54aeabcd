//! The messages of the service: requests of clients, answers of workers.

use std::sync::Arc;

use diskfs_block::{BlockRead, read_within};
use diskfs_service::testing;

use crate::Sparse;

/// The maximum length of an input. No seed is longer.
const MAX_BYTES: u64 = 4 << 10;

/// Decodes an input as each message.
pub(crate) fn messages(device: &Arc<dyn BlockRead>) {
    let len = usize::try_from(device.size_bytes().min(MAX_BYTES)).unwrap_or(0);
    if let Ok(Some(bytes)) = read_within(&**device, 0, len) {
        testing::decode(&bytes);
    }
}

pub(crate) fn seeds() -> [(&'static str, Sparse); 2] {
    testing::seeds().map(|(name, bytes)| {
        let mut sparse = Sparse::zeroes(bytes.len() as u64);
        sparse.write(0, &bytes);
        (name, sparse)
    })
}
