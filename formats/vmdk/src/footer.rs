//! The footer of a stream: the last three sectors, with the header that has the places of the
//! tables.

use diskfs_block::bytes::{index, part};
use diskfs_block::{BlockRead, Error, Result, read_within};

use crate::marker::{MARKER_BYTES, Marker, MetadataType};
use crate::sectors::SECTOR_BYTES;
use crate::sparse_header::{HEADER_BYTES, SparseHeader};

/// The size of footer marker, footer and end-of-stream marker.
const FOOTER_BYTES: u64 = 3 * SECTOR_BYTES;

/// Reads the header in the footer.
///
/// # Errors
/// `Corrupt` if the file does not end with a footer: it is truncated.
pub(crate) fn read_footer(file: &dyn BlockRead) -> Result<SparseHeader> {
    let start = file.size_bytes().checked_sub(FOOTER_BYTES);
    let start = start.ok_or_else(|| missing(0))?;
    let bytes = read_within(file, start, index(FOOTER_BYTES))?.ok_or_else(|| missing(start))?;
    let marker = |at| part(&bytes, at, MARKER_BYTES).and_then(Marker::parse);
    let is_footer = matches!(
        marker(0),
        Some(Marker::Metadata {
            kind: MetadataType::Footer,
            ..
        })
    );
    let end = Marker::Metadata {
        kind: MetadataType::EndOfStream,
        sectors: 0,
    };
    if !is_footer || marker(MARKER_BYTES + HEADER_BYTES) != Some(end) {
        return Err(missing(start));
    }
    let header = part(&bytes, MARKER_BYTES, HEADER_BYTES).unwrap_or_default();
    SparseHeader::parse(header, start.saturating_add(SECTOR_BYTES))
}

fn missing(at: u64) -> Error {
    let reason = "missing footer of a stream-optimised VMDK: the file is truncated";
    Error::corrupt(reason).at(at)
}
