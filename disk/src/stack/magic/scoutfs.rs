//! `ScoutFS`: `struct scoutfs_super_block` at 64 KiB, the same on data and metadata devices.

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

const SB: u64 = 64 << 10;
const IS_META_BDEV: u64 = 1;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    view.has(SB + 4, b"\x8b\x42\x3c\x10").then(|| {
        let kind = match view.le64(SB + 48) & IS_META_BDEV {
            0 => "scoutfs_data",
            _ => "scoutfs_meta",
        };
        filesystem(kind, Vec::new(), view.uuid(SB + 56))
    })
}
