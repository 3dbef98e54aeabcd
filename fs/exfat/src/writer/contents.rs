//! Changing the contents of files, and their clusters.

use std::sync::Arc;

use diskfs_clusters::Chain;
use diskfs_vfs::{Fallocate, InodeNumber, Timestamp};

use crate::bytes::{index, len_u64};
use crate::directory_entry::{ARCHIVE, StreamExtension};
use crate::entry_set::EntrySet;
use crate::error::{Error, ErrorKind, Result, device_failed};

use super::{Freed, Writer};

impl Writer {
    pub(crate) fn write_at(
        &mut self,
        inode: InodeNumber,
        offset: u64,
        data: &[u8],
    ) -> Result<usize> {
        let mut set = self.volume.file(inode)?;
        if data.is_empty() {
            return Ok(0);
        }
        let wanted = check_size(inode, offset.checked_add(len_u64(data.len())))?;
        let (size, valid) = (set.stream.size(), set.stream.valid());
        let needed = offset.saturating_add(1);
        let end = self.make_room(&mut set.stream, wanted, needed)?.min(wanted);
        set.stream.set_size(size.max(end), valid.max(end));
        self.write_zeroes(&set, valid, offset)?;
        let len = index(end.saturating_sub(offset)).min(data.len());
        self.write_data(&set, offset, data.get(..len).unwrap_or_default())?;
        self.put_changed(inode, set)?;
        Ok(len)
    }

    /// What is added is written as zeroes: Linux before 6.8 and exfat-fuse before 1.4 take what lies
    /// behind the valid data length for contents, or the file for shorter.
    pub(crate) fn set_len(&mut self, inode: InodeNumber, size_bytes: u64) -> Result<()> {
        let mut set = self.volume.file(inode)?;
        check_size(inode, Some(size_bytes))?;
        if size_bytes < set.stream.size() {
            return self.cut(inode, set, size_bytes);
        }
        let valid = set.stream.valid();
        self.make_room(&mut set.stream, size_bytes, size_bytes)?;
        set.stream.set_size(size_bytes, size_bytes);
        self.write_zeroes(&set, valid, size_bytes)?;
        self.put_changed(inode, set)
    }

    /// As far as the kernel does it: what makes the file longer.
    pub(crate) fn fallocate(
        &mut self,
        inode: InodeNumber,
        offset: u64,
        len_bytes: u64,
        what: Fallocate,
    ) -> Result<()> {
        let size = self.volume.file(inode)?.stream.size();
        let end = offset.saturating_add(len_bytes);
        match what {
            _ if len_bytes == 0 => Err(ErrorKind::Invalid.into()),
            Fallocate::Allocate if end > size => self.set_len(inode, end),
            Fallocate::Allocate => Ok(()),
            Fallocate::AllocateKeepSize if end <= size => Ok(()),
            _ => Err(Error::new(
                ErrorKind::Unsupported,
                "a file on exFAT has neither holes nor room behind its end",
            )),
        }
    }

    fn put_changed(&mut self, inode: InodeNumber, mut set: EntrySet) -> Result<()> {
        set.file.set_modified(Timestamp::now());
        set.file.set_attribute(ARCHIVE, true);
        self.put_set(inode, &set)
    }

    /// Adds clusters until the file has room for `wanted` bytes, or, when there are fewer, for at
    /// least `needed`. Returns what it has room for. The size is the caller's to set.
    fn make_room(&mut self, stream: &mut StreamExtension, wanted: u64, needed: u64) -> Result<u64> {
        let chain = self.volume.chain_of(stream)?;
        let boot = &self.volume.boot;
        let (wanted, needed) = (boot.clusters_for(wanted), boot.clusters_for(needed));
        let has = chain.clusters();
        if wanted <= has {
            return Ok(boot.bytes_of(has));
        }
        let more = wanted.saturating_sub(has);
        let count = more.min(self.room(more)?);
        if has.saturating_add(count) < needed {
            return Err(ErrorKind::NoSpace.into());
        }
        if count == 0 {
            return Ok(self.volume.boot.bytes_of(has));
        }
        // What took room may have written the table: the chain itself is the same.
        let all = self.add_clusters(stream, &chain, count)?;
        Ok(self.volume.boot.bytes_of(all.clusters()))
    }

    /// Adds clusters to a file or a directory, whose size the caller sets. While they all follow each
    /// other, the table need not know them.
    pub(super) fn add_clusters(
        &mut self,
        stream: &mut StreamExtension,
        chain: &Arc<Chain>,
        count: u32,
    ) -> Result<Arc<Chain>> {
        if self
            .freed
            .iter()
            .any(|freed| freed.end.is_some() && freed.end == chain.last())
        {
            // The device's entry still leads to what was cut, and needs the chain as it was.
            self.commit()?;
        }
        let added = self.take(count, chain.last())?;
        let in_table = chain.clusters() > 0 && !stream.is_contiguous();
        let mut all = (**chain).clone();
        all.append(&added);
        let all = Arc::new(all);
        let is_contiguous = !in_table && all.runs().len() == 1;
        if in_table {
            self.link(chain, &added)?;
        } else if !is_contiguous {
            self.volume.fat.set_chain(&all)?;
        }
        stream.set_clusters(all.first(), is_contiguous);
        if let (Some(first), false) = (all.first(), is_contiguous) {
            self.volume.keep_chain(first, Arc::clone(&all));
        }
        Ok(all)
    }

    /// Makes `added` the end of a chain of the table.
    pub(super) fn link(&mut self, chain: &Chain, added: &Chain) -> Result<()> {
        self.volume.fat.set_chain(added)?;
        match (chain.last(), added.first()) {
            (Some(last), Some(next)) => self.volume.fat.set(last, next.0),
            _ => Ok(()),
        }
    }

    fn cut(&mut self, inode: InodeNumber, mut set: EntrySet, size_bytes: u64) -> Result<()> {
        let mut chain = (*self.volume.chain_of(&set.stream)?).clone();
        let first = set.stream.first();
        let is_contiguous = set.stream.is_contiguous();
        let rest = chain.split_off(self.volume.boot.clusters_for(size_bytes));
        let valid = set.stream.valid();
        set.stream.set_size(size_bytes, valid);
        set.stream.set_clusters(chain.first(), is_contiguous);
        self.put_changed(inode, set)?;
        let end = chain.last().filter(|_| !is_contiguous);
        if end.is_some() {
            self.volume.pin_chains(true);
            self.volume.keep_chain(first, Arc::new(chain));
        } else {
            self.volume.forget_chain(first);
        }
        if rest.clusters() > 0 {
            self.freed.push(Freed { end, chain: rest });
        }
        Ok(())
    }

    /// Zeroes of a file that has the clusters for them.
    fn write_zeroes(&mut self, set: &EntrySet, from: u64, to: u64) -> Result<()> {
        let mut at = from;
        while at < to {
            let (offset, run_bytes) = self.volume.stored_at(set, at)?;
            let len_bytes = run_bytes.min(to.saturating_sub(at));
            self.device
                .write_zeroes(offset, len_bytes)
                .map_err(device_failed)?;
            self.unflushed = true;
            at = at.saturating_add(len_bytes.max(1));
        }
        Ok(())
    }

    fn write_data(&mut self, set: &EntrySet, offset: u64, data: &[u8]) -> Result<()> {
        let mut at = offset;
        let mut left = data;
        while !left.is_empty() {
            let (device_offset, run_bytes) = self.volume.stored_at(set, at)?;
            let len = index(run_bytes).min(left.len()).max(1);
            let Some((piece, rest)) = left.split_at_checked(len) else {
                break;
            };
            self.device
                .write_at(device_offset, piece)
                .map_err(device_failed)?;
            self.unflushed = true;
            at = at.saturating_add(len_u64(len));
            left = rest;
        }
        Ok(())
    }
}

/// The size of a file, if one can have it.
fn check_size(inode: InodeNumber, size_bytes: Option<u64>) -> Result<u64> {
    const MAX_SIZE: u64 = i64::MAX.unsigned_abs();
    size_bytes
        .filter(|size| *size <= MAX_SIZE)
        .ok_or_else(|| Error::from(ErrorKind::FileTooLarge).in_inode(inode))
}
