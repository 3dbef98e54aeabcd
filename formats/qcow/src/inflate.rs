//! Decompression of one cluster: deflate without a header, in a window of 4 KiB.

use std::sync::Arc;

use diskfs_block::{Error, Result};
use flate2::{Decompress, FlushDecompress};

/// The window that QEMU uses.
const WINDOW_BITS: u8 = 12;

/// Decompresses `input` to a cluster of `len` bytes.
pub(crate) fn inflate(input: &[u8], len: usize) -> Result<Arc<[u8]>> {
    let mut cluster = vec![0; len];
    let mut codec = Decompress::new_with_window_bits(false, WINDOW_BITS);
    codec
        .decompress(input, &mut cluster, FlushDecompress::Finish)
        .map_err(|e| Error::corrupt("invalid deflate data in a cluster").with_source(e))?;
    let made = codec.total_out();
    if usize::try_from(made) != Ok(len) {
        let reason = format!("compressed cluster has {made} bytes, not {len}");
        return Err(Error::corrupt(reason));
    }
    Ok(cluster.into())
}
