//! What volumes hold.

use std::sync::Arc;

use diskfs::Content;
use diskfs_block::{BlockRead, Counting};

/// Reads that telling a volume takes at most: more than any kind needs.
const MAX_READS: u64 = 400;

/// Bytes that they ask for at most: two headers of LUKS2 with their objects, of 4 MiB each, and what
/// all other kinds look at together.
const MAX_READ_BYTES: u64 = 9 << 20;

/// What the volume is told to hold, by few reads.
pub(crate) fn probe(device: &Arc<dyn BlockRead>) {
    let counting = Counting::new(Arc::clone(device));
    if let Ok(Some(content)) = Content::probe(&counting) {
        let _ = (content.label(), content.is_readable());
    }
    let counts = counting.counts();
    assert!(
        counts.reads <= MAX_READS && counts.read_bytes <= MAX_READ_BYTES,
        "{} bytes are read, in {} reads",
        counts.read_bytes,
        counts.reads
    );
}
