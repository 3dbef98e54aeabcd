//! UDF (ECMA-167; OSTA, UDF 2.60): the volume recognition sequence from 32 KiB on, the anchor at
//! block 256, and the descriptors that it points to.

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

use super::osta;

/// The start of the volume recognition sequence. Its structures have 2 KiB, or the size of a larger
/// sector.
const RECOGNITION: u64 = 32 << 10;
/// The limit on descriptors that the anchor points to; real discs have about a dozen.
const MAX_DESCRIPTORS: u32 = 64;
/// Descriptor tags (ECMA-167, 3/7.2.1).
const PRIMARY: u16 = 1;
const ANCHOR: u16 = 2;
const LOGICAL_VOLUME: u16 = 6;
const TERMINATOR: u16 = 8;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    // Structures of the sequence have 2 KiB, or the size of a larger sector.
    let mut is_recognised = false;
    let mut anchored = None;
    for (structure_bytes, block_sizes) in [(2048, &[512, 1024, 2048][..]), (4096, &[4096])] {
        if has_nsr(view, structure_bytes) {
            is_recognised = true;
            let mut sizes = block_sizes.iter().copied();
            anchored = anchored.or_else(|| sizes.find(|bytes| is_anchor(view, 256 * bytes)));
        }
    }
    is_recognised.then(|| {
        let (label, uuid) = anchored
            .map(|bytes| identity(view, bytes))
            .unwrap_or_default();
        filesystem("udf", label, uuid)
    })
}

/// Returns true if `NSR02` or `NSR03` is in the sequence.
fn has_nsr(view: &View<'_>, structure_bytes: u64) -> bool {
    let structures = (0..16).map(|n| RECOGNITION + n * structure_bytes);
    let known = |at: &u64| {
        [
            b"BEA01", b"BOOT2", b"CD001", b"CDW02", b"TEA01", b"NSR02", b"NSR03",
        ]
        .iter()
        .any(|id| view.has(at + 1, *id))
    };
    structures
        .take_while(known)
        .any(|at| view.has(at + 1, b"NSR0"))
}

/// Returns true for an anchor that records block 256 as its position: on an image with anchors for
/// several block sizes, only one anchor has the right position.
fn is_anchor(view: &View<'_>, at: u64) -> bool {
    tag(view, at) == ANCHOR && view.le32(at + 12) == 256
}

fn tag(view: &View<'_>, at: u64) -> u16 {
    view.le16(at)
}

/// Returns the label and UUID from the volume descriptors.
fn identity(view: &View<'_>, block_bytes: u64) -> (Vec<u8>, Option<String>) {
    let anchor = 256 * block_bytes;
    let (len, first) = (view.le32(anchor + 16), view.le32(anchor + 20));
    let count = u64::from(len) / block_bytes;
    let (mut label, mut uuid) = (Vec::new(), None);
    for n in 0..count.min(u64::from(MAX_DESCRIPTORS)) {
        let at = (u64::from(first) + n) * block_bytes;
        match tag(view, at) {
            PRIMARY => uuid = uuid.or_else(|| osta::uuid(&view.array(at + 72))), // VolumeSetIdentifier
            LOGICAL_VOLUME => label = osta::text(&view.array::<128>(at + 84)), // LogicalVolumeIdentifier
            TERMINATOR => break,
            _ => {}
        }
    }
    (label, uuid)
}
