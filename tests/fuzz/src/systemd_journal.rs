//! Journal files of systemd.

use std::sync::Arc;

use diskfs_block::BlockRead;
use diskfs_journal::Journal;

use crate::Sparse;

/// The maximum number of entries to read from an input. Further ones exercise nothing new.
const MAX_ENTRIES: usize = 2000;

/// The maximum number of bytes to decompress of a value.
const VALUE_BYTES: u64 = 64 << 10;

/// Reads all boots, entries from both ends, and fields.
pub(crate) fn all(device: &Arc<dyn BlockRead>) {
    let Ok(journal) = Journal::open(Arc::clone(device)) else {
        return;
    };
    let _ = journal.boots();
    for entry in journal.entries().take(MAX_ENTRIES).flatten() {
        let _ = entry.cursor();
        let _ = entry.fields(VALUE_BYTES).flatten().count();
    }
    let mut entries = journal.entries();
    entries
        .skip_before(journal.header().head_realtime_us / 2 + journal.header().tail_realtime_us / 2);
    entries.skip_after(journal.header().tail_realtime_us);
    let _ = entries.rev().take(MAX_ENTRIES).flatten().count();
}

/// Returns a journal of three boots with a compressed value.
pub(crate) fn seed() -> Sparse {
    const PACKED: &[u8] =
        include_bytes!("../../../files/journal/tests/fixtures/three-boots.journal.zst");
    let bytes = zstd::stream::decode_all(PACKED).expect("a fixture");
    let mut image = Sparse::zeroes(bytes.len() as u64);
    for (offset, block) in (0..).step_by(4096).zip(bytes.chunks(4096)) {
        if block.iter().any(|byte| *byte != 0) {
            image.write(offset, block);
        }
    }
    image
}
