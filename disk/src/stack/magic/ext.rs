//! ext2, ext3 and ext4: the superblock at 1024 (Linux, `Documentation/filesystems/ext4`). The
//! features decide which of the three it is, as in `blkid`.

use super::found::{container, filesystem};
use super::view::View;
use crate::stack::content::Content;

const SB: u64 = 1024;
const HAS_JOURNAL: u32 = 0x4;
const JOURNAL_DEV: u32 = 0x8;
/// The incompatible features of ext3: `filetype`, `needs_recovery`, `meta_bg`.
const EXT3_INCOMPAT: u32 = 0x2 | 0x4 | 0x10;
/// The read-only compatible features of ext3: `sparse_super`, `large_file`, `btree_dir` (the old
/// name of `dir_index`).
const EXT3_RO_COMPAT: u32 = 0x1 | 0x2 | 0x4;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    if view.le16(SB + 0x38) != 0xef53 {
        return None;
    }
    let [compat, incompat, ro_compat] = [0x5c, 0x60, 0x64].map(|at| view.le32(SB + at));
    let (label, uuid) = (view.label::<16>(SB + 0x78), view.uuid(SB + 0x68));
    Some(match () {
        () if incompat & JOURNAL_DEV != 0 => container("jbd", label, uuid),
        () if incompat & !EXT3_INCOMPAT != 0 || ro_compat & !EXT3_RO_COMPAT != 0 => {
            filesystem("ext4", label, uuid)
        }
        () if compat & HAS_JOURNAL != 0 => filesystem("ext3", label, uuid),
        () => filesystem("ext2", label, uuid),
    })
}
