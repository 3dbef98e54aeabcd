//! Long prefixes of the names of attributes: `struct erofs_xattr_long_prefix`.

use crate::contents;
use crate::directory_block::NAME_MAX_BYTES;
use crate::error::{Result, corrupt};
use crate::features::COMPAT_PLAIN_XATTR_PFX;
use crate::inode::Inode;
use crate::place::Place;
use crate::volume::Volume;
use crate::xattr_name::Prefix;

/// Reads all long prefixes: from the metabox, from the packed inode, or from the device.
pub(crate) fn read_all(volume: &Volume) -> Result<Vec<Prefix>> {
    let superblock = &volume.superblock;
    let is_plain = superblock.features.has_compat(COMPAT_PLAIN_XATTR_PFX);
    let holder = superblock.metabox.or(superblock.packed);
    let holder = holder.filter(|_| !is_plain && superblock.xattr_prefixes > 0);
    let holder = holder
        .map(|nid| Inode::read_named(volume, nid))
        .transpose()?;
    let holder = holder.as_ref();
    let mut at = superblock.xattr_prefix_start;
    let mut prefixes = Vec::new();
    for _ in 0..superblock.xattr_prefixes {
        at = at.checked_next_multiple_of(4).unwrap_or(u64::MAX);
        let mut len = [0; 2];
        read(volume, holder, at, &mut len)?;
        let len = usize::from(u16::from_le_bytes(len));
        if len == 0 || len > NAME_MAX_BYTES.saturating_add(1) {
            let reason = format!("invalid prefix of attributes: {len} bytes");
            return Err(corrupt(reason, at));
        }
        let mut bytes = vec![0; len];
        read(volume, holder, at.saturating_add(2), &mut bytes)?;
        at = at
            .saturating_add(2)
            .saturating_add(diskfs_block::len_of(&bytes));
        if let Some((base, infix)) = bytes.split_first() {
            prefixes.push(Prefix {
                base: *base,
                infix: infix.to_vec(),
            });
        }
    }
    Ok(prefixes)
}

fn read(volume: &Volume, holder: Option<&Inode>, at: u64, buf: &mut [u8]) -> Result<()> {
    let Some(inode) = holder else {
        return volume.read_metadata(Place::on_device(at), buf);
    };
    if contents::read(volume, inode, at, buf)? < buf.len() {
        let reason = "invalid prefix of attributes: outside of its inode";
        return Err(corrupt(reason, at).in_inode(inode.number));
    }
    Ok(())
}
