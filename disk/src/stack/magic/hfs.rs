//! HFS (Inside Macintosh: Files, "Master Directory Block") and HFS Plus (Apple TN1150), alone or
//! embedded in an HFS wrapper.

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

use md5::{Digest, Md5};

const VOLUME_HEADER: u64 = 1024;

/// Recognises HFS Plus, also in a wrapper; called before the probe of HFS.
pub(super) fn plus(view: &View<'_>) -> Option<Content> {
    let start = if view.has(VOLUME_HEADER, b"BD") {
        embedded_at(view)?
    } else {
        0
    };
    let header = start.checked_add(VOLUME_HEADER)?;
    let is_plus = view.has(header, b"H+\0\x04") || view.has(header, b"HX\0\x05");
    is_plus.then(|| {
        let label = label(view, start, header).unwrap_or_default();
        filesystem("hfsplus", label, uuid(view.array(header + 104))) // finderInfo
    })
}

pub(super) fn hfs(view: &View<'_>) -> Option<Content> {
    // A valid allocation block size distinguishes HFS from other content that starts with these
    // bytes.
    let block_bytes = view.be32(VOLUME_HEADER + 20);
    if !view.has(VOLUME_HEADER, b"BD") || block_bytes == 0 || !block_bytes.is_multiple_of(512) {
        return None;
    }
    let name: [u8; 27] = view.array(VOLUME_HEADER + 37);
    let len = usize::from(view.u8(VOLUME_HEADER + 36));
    let label = name.get(..len).unwrap_or(&name).trim_ascii_end().to_vec();
    Some(filesystem(
        "hfs",
        label,
        uuid(view.array(VOLUME_HEADER + 116)),
    )) // drFndrInfo
}

/// Returns the start of the HFS Plus volume in a wrapper: `drEmbedExtent`.
fn embedded_at(view: &View<'_>) -> Option<u64> {
    if !view.has(VOLUME_HEADER + 124, b"H+") && !view.has(VOLUME_HEADER + 124, b"HX") {
        return None; // drEmbedSigWord
    }
    let block_bytes = u64::from(view.be32(VOLUME_HEADER + 20));
    let first_block = u64::from(view.be16(VOLUME_HEADER + 28)) * 512;
    Some(first_block + u64::from(view.be16(VOLUME_HEADER + 126)) * block_bytes)
}

/// Returns the name of the root folder: the first record of the catalog file, in its first leaf.
fn label(view: &View<'_>, start: u64, header: u64) -> Option<Vec<u8>> {
    const LEAF: u8 = 0xff; // -1
    const ROOT_PARENT: u32 = 1;
    const RECORD: u64 = 14;
    let block_bytes = u64::from(view.be32(header + 40));
    let extents = (0..8).map(|n| header + 288 + 8 * n); // catalogFile
    let extents = extents.map(|at| (u64::from(view.be32(at)), u64::from(view.be32(at + 4))));
    let extents: Vec<_> = extents.collect();
    let at = |offset: u64| {
        let mut offset = offset;
        for (first, count) in &extents {
            let len = count.checked_mul(block_bytes)?;
            if offset < len {
                return start
                    .checked_add(first.checked_mul(block_bytes)?)?
                    .checked_add(offset);
            }
            offset -= len;
        }
        None
    };
    let tree = at(0)?;
    let (first_leaf, node_bytes) = (
        view.be32(tree.checked_add(24)?),
        view.be16(tree.checked_add(32)?),
    );
    let leaf = at(u64::from(first_leaf) * u64::from(node_bytes))?;
    let record = leaf.checked_add(RECORD)?;
    let is_root =
        view.u8(leaf.checked_add(8)?) == LEAF && view.be32(record.checked_add(2)?) == ROOT_PARENT;
    let units = usize::from(view.be16(record.checked_add(6)?).min(255));
    is_root.then(|| view.utf16_be(record + 8, 2 * units))
}

/// Returns the UUID that Apple derives from eight bytes: version 3, in a namespace of its own.
fn uuid(id: [u8; 8]) -> Option<String> {
    const NAMESPACE: [u8; 16] = [
        0xb3, 0xe2, 0x0f, 0x39, 0xf2, 0x92, 0x11, 0xd6, 0x97, 0xa4, 0x00, 0x30, 0x65, 0x43, 0xec,
        0xac,
    ];
    let mut bytes: [u8; 16] = Md5::new()
        .chain_update(NAMESPACE)
        .chain_update(id)
        .finalize()
        .into();
    bytes[6] = 0x30 | bytes[6] & 0x0f;
    bytes[8] = 0x80 | bytes[8] & 0x3f;
    (id != [0; 8]).then(|| super::uuid::text(bytes)).flatten()
}
