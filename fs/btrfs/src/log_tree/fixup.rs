//! The end of a replay: link counts.

use super::names::RefName;
use super::{Replay, successor};
use crate::bytes::len_u64;
use crate::error::Result;
use crate::key::{Key, item};

impl Replay<'_> {
    /// Counts the links of all inodes that may have got or lost some. A directory without a name
    /// loses its entries, too, which may leave other inodes without a name.
    pub(super) fn fix_links(&mut self) -> Result<()> {
        while let Some(number) = self.fixups.pop_last() {
            let mut inode = self.subvolume.existing_inode(number)?;
            let links = self.count_refs(number)?;
            if inode.is_dir() && links == 0 {
                self.remove_all_entries(number)?;
                inode = self.subvolume.existing_inode(number)?;
            }
            if inode.links() != links {
                inode.set_links(links);
                self.subvolume.set_inode(number, inode)?;
            }
        }
        Ok(())
    }

    fn count_refs(&self, inode: u64) -> Result<u32> {
        let mut count = 0_u64;
        for item_type in [item::INODE_REF, item::INODE_EXTREF] {
            let mut next = Some(Key::new(inode, item_type, 0));
            while let Some(first) = next {
                let Some((key, bytes)) = self.subvolume.next(first)? else {
                    break;
                };
                next = successor(key);
                let names = RefName::parse_all(key, &bytes);
                let names = names.ok_or_else(|| self.subvolume.invalid(key))?;
                count = count.saturating_add(len_u64(names.len()));
            }
        }
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }
}
