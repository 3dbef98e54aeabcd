//! OCFS, OCFS2 and ASM disks, all of Oracle.

use super::found::{container, filesystem};
use super::view::View;
use crate::stack::content::Content;

/// Recognises `ocfs_volume_header`, with the `ocfs_volume_label` in the next sector.
pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    view.has(8, b"OracleCFS")
        .then(|| filesystem("ocfs", view.label::<64>(512 + 48), view.uuid(512 + 114)))
}

/// Recognises `struct ocfs2_dinode` with the superblock in it: the third block, of 512 to 2048
/// bytes.
pub(super) fn ocfs2(view: &View<'_>) -> Option<Content> {
    at_block(view, &[512, 1024, 2048])
}

/// Recognises OCFS2 with blocks of 4096 bytes, whose superblock is past the first 8 KiB.
pub(super) fn ocfs2_large_blocks(view: &View<'_>) -> Option<Content> {
    at_block(view, &[4096])
}

fn at_block(view: &View<'_>, block_bytes: &[u64]) -> Option<Content> {
    let mut places = block_bytes.iter().map(|bytes| 2 * bytes);
    let at = places.find(|at| view.has(*at, b"OCFSV2"))?;
    let (label, uuid) = (view.label::<64>(at + 0x110), view.uuid(at + 0x150));
    Some(filesystem("ocfs2", label, uuid))
}

pub(super) fn asm(view: &View<'_>) -> Option<Content> {
    view.has(32, b"ORCLDISK")
        .then(|| container("oracleasm", view.label::<24>(40), None))
}
