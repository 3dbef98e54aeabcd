//! Members of a ZFS pool (Sun, "ZFS On-Disk Specification", chapter 1): four labels, each with an
//! array of uberblocks and a list of names and values.

use super::found::container;
use super::view::View;
use crate::stack::content::Content;

use super::xdr::{self, Value};

const LABEL_BYTES: u64 = 256 << 10;
const UBERBLOCKS: u64 = 128 << 10;
const UBERBLOCKS_LEN: usize = 128 << 10;
const UBERBLOCK_MAGIC: u64 = 0x00ba_b10c;
const NVLIST: u64 = 16 << 10;
const NVLIST_LEN: usize = 112 << 10;
/// The start of the list: XDR encoding, either byte order of the writing machine, version 0.
const NVLIST_STARTS: [&[u8]; 2] = [b"\x01\0\0\0\0\0\0\0", b"\x01\x01\0\0\0\0\0\0"];
/// The number of valid uberblocks required: a few may be left over from an older pool, where other
/// content is now.
const WANTED: usize = 4;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    let end = view.size_bytes() / LABEL_BYTES * LABEL_BYTES;
    let labels = [
        Some(0),
        Some(LABEL_BYTES),
        end.checked_sub(2 * LABEL_BYTES),
        end.checked_sub(LABEL_BYTES),
    ];
    // The list costs a small read, the uberblocks a large one.
    let has_list = |at: &u64| {
        NVLIST_STARTS
            .iter()
            .any(|start| view.has(at + NVLIST, start))
    };
    let label = labels
        .into_iter()
        .flatten()
        .find(|at| has_list(at) && uberblocks(view, *at) >= WANTED)?;
    let list = view.with(label + NVLIST, NVLIST_LEN, <[u8]>::to_vec);
    let (name, guid) = list.map(|list| identity(&list)).unwrap_or_default();
    Some(container("zfs_member", name, guid))
}

fn uberblocks(view: &View<'_>, label: u64) -> usize {
    let is_one = |block: &&[u8]| {
        let magic = block.first_chunk().copied().unwrap_or_default();
        [u64::from_le_bytes(magic), u64::from_be_bytes(magic)].contains(&UBERBLOCK_MAGIC)
    };
    let count = |bytes: &[u8]| bytes.chunks(1024).filter(is_one).count();
    view.with(label + UBERBLOCKS, UBERBLOCKS_LEN, count)
        .unwrap_or(0)
}

/// Returns the name of the pool, and its GUID.
fn identity(list: &[u8]) -> (Vec<u8>, Option<String>) {
    let (mut name, mut guid) = (Vec::new(), None);
    for (key, value) in xdr::pairs(list) {
        match (key, value) {
            (b"name", Value::Text(text)) => name = text.to_vec(),
            (b"pool_guid", Value::Number(number)) => guid = Some(number.to_string()),
            _ => {}
        }
    }
    (name, guid)
}
