//! Replaying inode items: the core of an inode, and its forks.

use crate::bytes::{array, be64, index, part};
use crate::error::Result;
use diskfs_block::bytes::put;

use super::fork_place::ForkPlace;
use super::inode_format::{InodeFormat, LoggedParts};
use super::item::Item;
use super::log_dinode::{self, LogDinode};
use super::lsn::Lsn;
use super::replay::Replay;
use super::self_describing::put_checksum;

/// The offset of the LSN of an inode of version 3.
const LSN: usize = 112;

/// The size of a key and of a pointer of the tree in a fork.
const KEY_BYTES: usize = 8;
const POINTER_BYTES: usize = 8;
const ENTRY_BYTES: usize = KEY_BYTES + POINTER_BYTES;
/// The size of the header of a tree's root in an inode, `struct xfs_bmdr_block`, and in the log,
/// which has that of a whole block.
const ROOT_HEADER: usize = 4;
const BLOCK_HEADER_VERSION_3: usize = 72;
const BLOCK_HEADER_VERSION_2: usize = 24;

/// The reason why an item is invalid.
type Reason = &'static str;

impl Replay<'_> {
    /// Replays an inode item.
    ///
    /// # Errors
    /// `Corrupt`, `Unsupported` beyond the limits, `Io`.
    pub(super) fn inode(&mut self, item: &Item, lsn: Lsn) -> Result<()> {
        let format = InodeFormat::parse(item.format());
        let format = format.ok_or_else(|| self.invalid("an inode item has an invalid format"))?;
        if self.cancelled.contains(format.place) {
            return Ok(());
        }
        self.owner_changes.add(&format)?;
        let size = self.superblock.inode_bytes;
        let byte = format.byte(u32::from(size));
        let byte = byte.ok_or_else(|| self.invalid("an inode exceeds its buffer"))?;
        let mut inode = self.read(byte, usize::from(size))?;
        let is_version_3 = self.superblock.has_checksums();
        if array(&inode, 0) != Some(log_dinode::MAGIC.to_be_bytes()) {
            return Err(self.invalid("the place of an inode has none"));
        }
        let core = LogDinode::parse(item.region(1), is_version_3)
            .filter(|core| core.inode().is_none_or(|number| number == format.inode))
            .ok_or_else(|| self.invalid("an inode item has an invalid inode"))?;
        if is_newer(&inode, lsn, is_version_3) || core.is_older_than(&inode) {
            return Ok(());
        }
        core.write_to(&mut inode, lsn);
        let forks = Forks::of(&inode, is_version_3);
        let forks = forks.ok_or_else(|| self.invalid("an inode has an invalid fork"))?;
        forks
            .replay(&mut inode, item, &format)
            .map_err(|reason| self.invalid(reason))?;
        if is_version_3 {
            put_checksum(&mut inode, log_dinode::CRC);
        }
        self.write(byte, &inode)
    }
}

/// Returns true if the inode on the device has later changes. Several transactions can have the
/// same LSN, so an equal one says nothing.
fn is_newer(inode: &[u8], lsn: Lsn, is_version_3: bool) -> bool {
    let stored = be64(inode, LSN).map(Lsn).filter(|_| is_version_3);
    stored.is_some_and(|stored| stored.is_known() && stored > lsn)
}

/// The forks of an inode.
#[derive(Debug, Clone, Copy)]
struct Forks {
    data: ForkPlace,
    attributes: ForkPlace,
    /// The size of the header of a tree's block.
    block_header: usize,
}

impl Forks {
    fn of(inode: &[u8], is_version_3: bool) -> Option<Self> {
        let (data, attributes) = ForkPlace::both_of(inode, is_version_3)?;
        let block_header = if is_version_3 {
            BLOCK_HEADER_VERSION_3
        } else {
            BLOCK_HEADER_VERSION_2
        };
        Some(Self {
            data,
            attributes,
            block_header,
        })
    }

    /// Writes the regions of an item into the forks.
    fn replay(
        self,
        inode: &mut [u8],
        item: &Item,
        format: &InodeFormat,
    ) -> std::result::Result<(), Reason> {
        let parts = format.parts;
        if parts.contains(LoggedParts::DEVICE) {
            let mut device = format.device;
            device.reverse();
            put(inode, self.data.start, &device);
        }
        let mut region = 2_usize;
        let data = parts.intersection(LoggedParts::DATA_FORK);
        if !data.is_empty() {
            let is_root = data == LoggedParts::DATA_ROOT;
            self.write(inode, self.data, is_root, item.region(region))?;
            region = 3;
        }
        let attributes = parts.intersection(LoggedParts::ATTRIBUTE_FORK);
        if !attributes.is_empty() {
            let is_root = attributes == LoggedParts::ATTRIBUTE_ROOT;
            self.write(inode, self.attributes, is_root, item.region(region))?;
        }
        Ok(())
    }

    fn write(
        self,
        inode: &mut [u8],
        place: ForkPlace,
        is_root: bool,
        region: &[u8],
    ) -> std::result::Result<(), Reason> {
        let fork = inode.get_mut(place.start..place.start.saturating_add(place.len));
        let fork = fork.ok_or("an inode has an invalid fork")?;
        if is_root {
            return self
                .write_root(fork, region)
                .ok_or("an inode item has an invalid tree");
        }
        if region.len() > fork.len() {
            return Err("an inode item exceeds its fork");
        }
        put(fork, 0, region);
        Ok(())
    }

    /// Writes the root of a tree into a fork. In the log it has the header of a whole block, and
    /// its pointers follow as many keys as fit; in the fork this number differs.
    fn write_root(self, fork: &mut [u8], root: &[u8]) -> Option<()> {
        let level_and_count = part(root, 4, ROOT_HEADER)?;
        let count = index(array(root, 6).map(u16::from_be_bytes)?);
        let in_log = root
            .len()
            .checked_sub(self.block_header)?
            .wrapping_div(ENTRY_BYTES);
        let in_fork = fork
            .len()
            .checked_sub(ROOT_HEADER)?
            .wrapping_div(ENTRY_BYTES);
        if count > in_log || count > in_fork {
            return None;
        }
        put(fork, 0, level_and_count);
        let keys = part(root, self.block_header, count.saturating_mul(KEY_BYTES))?;
        put(fork, ROOT_HEADER, keys);
        let pointers = self
            .block_header
            .saturating_add(in_log.saturating_mul(KEY_BYTES));
        let pointers = part(root, pointers, count.saturating_mul(POINTER_BYTES))?;
        let target = ROOT_HEADER.saturating_add(in_fork.saturating_mul(KEY_BYTES));
        put(fork, target, pointers);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_moved_to_the_form_of_a_fork() {
        let forks = Forks {
            data: ForkPlace {
                start: 176,
                len: 336,
            },
            attributes: ForkPlace { start: 512, len: 0 },
            block_header: 72,
        };
        let mut root = vec![0; 72 + 2 * 16];
        root[4..8].copy_from_slice(&[0, 1, 0, 2]);
        root[72..88].fill(1);
        root[88..104].fill(2);
        let mut fork = vec![0xff; 4 + 5 * 16];
        forks.write_root(&mut fork, &root).unwrap();
        assert_eq!(fork[..4], [0, 1, 0, 2]);
        assert_eq!(fork[4..20], [1; 16]);
        assert_eq!(fork[4 + 40..4 + 40 + 16], [2; 16]);
        root[7] = 3;
        assert!(forks.write_root(&mut fork, &root).is_none());
    }
}
