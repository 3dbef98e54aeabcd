//! Attributes and entries of directories that are not in the log any more.

use std::ops::RangeInclusive;

use super::names::{DirName, xattr_key};
use super::{DIR_LOG_INDEX, Replay, successor};
use crate::bytes::le64;
use crate::error::Result;
use crate::key::{Key, item};

impl Replay<'_> {
    /// Removes the attributes of an inode that the log doesn't have. The log has all of them.
    pub(super) fn remove_attributes(&mut self, inode: u64) -> Result<()> {
        let mut next = Some(Key::new(inode, item::XATTR_ITEM, 0));
        while let Some(first) = next {
            let Some((key, bytes)) = self.subvolume.next(first)? else {
                break;
            };
            next = successor(key);
            let all = DirName::parse_all(&bytes).ok_or_else(|| self.subvolume.invalid(key))?;
            let logged = self.log.dir_names(key)?;
            let is_logged = |entry: &DirName| {
                // An item with another hash than its name's is not found by name.
                xattr_key(inode, &entry.name) != key
                    || logged.iter().any(|other| other.name == entry.name)
            };
            let kept: Vec<_> = all
                .iter()
                .filter(|entry| is_logged(entry))
                .cloned()
                .collect();
            if kept.len() < all.len() {
                self.subvolume
                    .set_or_remove(key, DirName::encode_all(&kept))?;
            }
        }
        Ok(())
    }

    /// Removes the entries of a directory that the log doesn't have, within the ranges of the index
    /// that it has.
    pub(super) fn remove_entries(&mut self, dir: u64) -> Result<()> {
        if self.subvolume.inode(dir)?.is_none() {
            return Ok(());
        }
        let mut next = Some(Key::new(dir, DIR_LOG_INDEX, 0));
        while let Some(first) = next {
            let Some((key, bytes)) = self.log.next(first)? else {
                break;
            };
            next = successor(key);
            let end = le64(&bytes, 0).ok_or_else(|| self.log.invalid(key))?;
            self.remove_range(dir, key.offset..=end, true)?;
        }
        Ok(())
    }

    /// Removes all entries of a directory that has been removed itself.
    pub(super) fn remove_all_entries(&mut self, dir: u64) -> Result<()> {
        self.remove_range(dir, 0..=u64::MAX, false)
    }

    fn remove_range(
        &mut self,
        dir: u64,
        range: RangeInclusive<u64>,
        is_compared: bool,
    ) -> Result<()> {
        let mut next = Some(Key::new(dir, item::DIR_INDEX, *range.start()));
        while let Some(first) = next {
            let found = self.subvolume.next(first)?;
            let Some((key, bytes)) = found.filter(|(key, _)| key.offset <= *range.end()) else {
                break;
            };
            next = successor(key);
            let entries = DirName::parse_all(&bytes);
            for entry in entries.ok_or_else(|| self.subvolume.invalid(key))? {
                let logged = self.log.entry_at(dir, key.offset, &entry.name)?;
                if !is_compared || logged.is_none() {
                    self.remove_entry(dir, &entry)?;
                }
            }
        }
        Ok(())
    }
}
