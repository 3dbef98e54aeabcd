//! GFS and GFS2 of Red Hat: `struct gfs2_sb` at 64 KiB, big-endian. The name of the lock table is
//! the label.

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

const SB: u64 = 64 << 10;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    if !view.has(SB, b"\x01\x16\x19\x70\0\0\0\x01") {
        return None; // mh_magic, mh_type
    }
    let kind = match (view.be32(SB + 24), view.be32(SB + 28)) {
        (1309, 1401) => "gfs", // sb_fs_format, sb_multihost_format
        (1800..1900, 1900..2000) => "gfs2",
        _ => return None,
    };
    Some(filesystem(
        kind,
        view.label::<64>(SB + 160),
        view.uuid(SB + 256),
    ))
}
