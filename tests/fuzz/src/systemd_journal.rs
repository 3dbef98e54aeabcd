//! Journal files of systemd.

use std::sync::Arc;

use diskfs_block::{BlockRead, Memory};
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
    let header = journal.header();
    let _ = (header.compatible.bits(), header.compatible.is_sealed());
    let _ = (
        header.incompatible.bits(),
        header.incompatible.has_keyed_hash(),
    );
    let _ = (journal.boots(), journal.machine_id(), journal.state());
    for entry in journal.entries().take(MAX_ENTRIES).flatten() {
        let _ = entry.cursor();
        let _ = entry.fields(VALUE_BYTES).flatten().count();
    }
    let mut entries = journal.entries();
    entries.skip_before(header.head_realtime_us / 2 + header.tail_realtime_us / 2);
    entries.skip_after(header.tail_realtime_us);
    let _ = entries.remaining();
    let _ = entries.rev().take(MAX_ENTRIES).flatten().count();
}

/// Returns a journal of three boots with a value of zstd, and one with values of XZ and LZ4.
pub(crate) fn seeds() -> [(&'static str, Sparse); 2] {
    let three = include_bytes!("../../../files/journal/tests/fixtures/three-boots.journal.zst");
    let packed = include_bytes!("../../../files/journal/tests/fixtures/packed.journal.zst");
    let of = |bytes: &[u8]| {
        let bytes = zstd::stream::decode_all(bytes).expect("a fixture");
        Sparse::of(&Memory::new(bytes)).expect("memory can be read")
    };
    [("three boots", of(three)), ("XZ and LZ4", of(packed))]
}
