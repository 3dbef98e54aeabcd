//! Reading inode tables, in order and in large requests.

use super::context::Context;
use crate::bytes::{index, len_u64};
use crate::error::Result;

/// The size of one read of an inode table.
const READ_BYTES: usize = 256 << 10;

/// Calls `then` for each inode of a group that can be in use, with its number and bytes.
pub(super) fn for_each_inode(
    context: &Context<'_>,
    group: u32,
    mut then: impl FnMut(u32, &[u8]) -> Result<()>,
) -> Result<()> {
    let Some(found) = context.groups.get(index(group)) else {
        return Ok(());
    };
    let size = usize::from(context.superblock().inode_size);
    let inodes = index(found.inodes_to_scan(context.volume));
    let per_read = READ_BYTES.checked_div(size).unwrap_or(1).max(1);
    let table = context
        .superblock()
        .block_size
        .byte_of(found.descriptor.inode_table);
    let mut buf = vec![0; size.saturating_mul(inodes.min(per_read))];
    let mut nth = 0usize;
    while nth < inodes {
        let count = per_read.min(inodes.saturating_sub(nth));
        let bytes = buf
            .get_mut(..count.saturating_mul(size))
            .unwrap_or_default();
        let offset = table.saturating_add(len_u64(nth.saturating_mul(size)));
        context.volume.read_device(offset, bytes)?;
        for inode in bytes.chunks(size) {
            let within = u32::try_from(nth).unwrap_or(u32::MAX);
            then(context.geometry.inode_number(group, within), inode)?;
            nth = nth.saturating_add(1);
        }
    }
    context.progress.advance()
}
