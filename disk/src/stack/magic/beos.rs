//! `BFS` of SCO `UnixWare`; and `BeFS` of `BeOS` and Haiku, which has the same name for itself.

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

/// Recognises `struct bfs_super_block`.
pub(super) fn bfs(view: &View<'_>) -> Option<Content> {
    view.has(0, b"\xce\xfa\xad\x1b")
        .then(|| filesystem("bfs", Vec::new(), None))
}

/// Recognises `disk_super_block`, at the start or after a boot block. The volume's ID is an
/// attribute of the root directory.
pub(super) fn befs(view: &View<'_>) -> Option<Content> {
    let is_little = |at: &u64| view.has(at + 32, b"1SFB") && view.le32(at + 68) == 0xdd12_1031;
    let is_big = |at: &u64| view.has(at + 32, b"BFS1") && view.be32(at + 68) == 0xdd12_1031;
    let at = [0, 512]
        .into_iter()
        .find(|at| is_little(at) || is_big(at))?;
    let order = if is_little(&at) {
        ByteOrder::Little
    } else {
        ByteOrder::Big
    };
    let id = volume_id(view, at, order).map(|id| format!("{id:016x}"));
    Some(filesystem("befs", view.label::<32>(at), id))
}

#[derive(Clone, Copy)]
enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    fn u16(self, view: &View<'_>, at: u64) -> u64 {
        u64::from(match self {
            Self::Little => view.le16(at),
            Self::Big => view.be16(at),
        })
    }

    fn u32(self, view: &View<'_>, at: u64) -> u64 {
        u64::from(match self {
            Self::Little => view.le32(at),
            Self::Big => view.be32(at),
        })
    }
}

/// Returns `be:volume_id` from the `small_data` of the root directory's inode.
fn volume_id(view: &View<'_>, superblock: u64, order: ByteOrder) -> Option<u64> {
    const SMALL_DATA: u64 = 232;
    const NAME: &[u8] = b"be:volume_id";
    let block_bytes = order.u32(view, superblock + 40);
    let ag_shift = u32::try_from(order.u32(view, superblock + 76)).ok()?;
    let (group, start) = (
        order.u32(view, superblock + 116),
        order.u16(view, superblock + 120),
    );
    let block = group.checked_shl(ag_shift)?.checked_add(start)?;
    let inode = block.checked_mul(block_bytes)?;
    let end = inode.checked_add(order.u32(view, inode.checked_add(64)?))?; // inode_size
    let mut at = inode.checked_add(SMALL_DATA)?;
    // An inode has at most one block, and each entry has at least 8 bytes.
    for _ in 0..1024 {
        let name_at = at.checked_add(8)?;
        if name_at >= end {
            return None;
        }
        let (name_len, data_len) = (order.u16(view, at + 4), order.u16(view, at + 6));
        let data_at = name_at + name_len + 3;
        if name_len == 0 {
            return None;
        }
        if name_len == 12 && data_len == 8 && view.has(name_at, NAME) {
            return Some(match order {
                ByteOrder::Little => view.le64(data_at),
                ByteOrder::Big => view.be64(data_at),
            });
        }
        at = data_at + data_len + 1;
    }
    None
}
