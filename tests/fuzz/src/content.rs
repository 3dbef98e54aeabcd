//! The contents of volumes.

use std::sync::Arc;

use diskfs::Content;
use diskfs_block::{BlockRead, Counting};

/// The maximum number of reads to identify a volume: more than any type needs.
const MAX_READS: u64 = 400;

/// The maximum number of bytes of these reads: two LUKS2 headers with their objects, of 4 MiB each,
/// and the reads of all other types together.
const MAX_READ_BYTES: u64 = 9 << 20;

/// Identifies the contents of a volume, with few reads.
pub(crate) fn probe(device: &Arc<dyn BlockRead>) {
    let counting = Counting::new(Arc::clone(device));
    if let Ok(Some(content)) = Content::probe(&counting) {
        let _ = (content.label(), content.is_readable());
    }
    let counts = counting.counts();
    assert!(
        counts.reads <= MAX_READS && counts.read_bytes <= MAX_READ_BYTES,
        "too many reads: {} bytes in {} reads",
        counts.read_bytes,
        counts.reads
    );
}
