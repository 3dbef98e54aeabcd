//! Changing the contents of files.

use std::sync::Arc;

use diskfs_clusters::{Chain, Cluster};
use diskfs_vfs::{Fallocate, InodeNumber, Timestamp};

use crate::bytes::{index, len_u64};
use crate::directory_entry::{ARCHIVE, ShortEntry};
use crate::error::{Corrupt, Error, ErrorKind, Result, device_failed};
use crate::fat::FatEntry;

use super::{Freed, Writer};

/// The largest file: its size has 32 bits.
const MAX_SIZE: u64 = 0xffff_ffff;

impl Writer {
    pub(crate) fn write_at(
        &mut self,
        inode: InodeNumber,
        offset: u64,
        data: &[u8],
    ) -> Result<usize> {
        let mut entry = self.volume.file(inode)?;
        if data.is_empty() {
            return Ok(0);
        }
        if offset >= MAX_SIZE {
            return Err(Error::from(ErrorKind::FileTooLarge).in_inode(inode));
        }
        let wanted = offset.saturating_add(len_u64(data.len())).min(MAX_SIZE);
        let end = self
            .make_room(&mut entry, wanted, offset.saturating_add(1))?
            .min(wanted);
        let size = u64::from(entry.size.get());
        self.write_zeroes(&entry, size, offset)?;
        let len = index(end.saturating_sub(offset)).min(data.len());
        self.write_data(&entry, offset, data.get(..len).unwrap_or_default())?;
        set_size(&mut entry, size.max(end));
        self.put_changed(inode, entry)?;
        Ok(len)
    }

    pub(crate) fn set_len(&mut self, inode: InodeNumber, size_bytes: u64) -> Result<()> {
        let mut entry = self.volume.file(inode)?;
        let size = u64::from(entry.size.get());
        if size_bytes > MAX_SIZE {
            return Err(Error::from(ErrorKind::FileTooLarge).in_inode(inode));
        }
        if size_bytes < size {
            return self.cut(inode, entry, size_bytes);
        }
        self.make_room(&mut entry, size_bytes, size_bytes)?;
        self.write_zeroes(&entry, size, size_bytes)?;
        set_size(&mut entry, size_bytes);
        self.put_changed(inode, entry)
    }

    /// As far as the kernel does it: what makes the file longer.
    pub(crate) fn fallocate(
        &mut self,
        inode: InodeNumber,
        offset: u64,
        len_bytes: u64,
        what: Fallocate,
    ) -> Result<()> {
        let size = u64::from(self.volume.file(inode)?.size.get());
        let end = offset.saturating_add(len_bytes);
        match what {
            _ if len_bytes == 0 => Err(ErrorKind::Invalid.into()),
            Fallocate::Allocate if end > size => self.set_len(inode, end),
            Fallocate::Allocate => Ok(()),
            Fallocate::AllocateKeepSize if end <= size => Ok(()),
            _ => Err(Error::new(
                ErrorKind::Unsupported,
                "a file on FAT has neither holes nor room behind its end",
            )),
        }
    }

    fn put_changed(&mut self, inode: InodeNumber, mut entry: ShortEntry) -> Result<()> {
        entry.set_modified(Timestamp::now());
        entry.attributes |= ARCHIVE;
        self.put_entry(inode, &entry)
    }

    /// Adds clusters until the file has room for `wanted` bytes, or, when there are fewer, for at
    /// least `needed`. Returns what it has room for.
    fn make_room(&mut self, entry: &mut ShortEntry, wanted: u64, needed: u64) -> Result<u64> {
        let chain = self.whole_chain(entry)?;
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
        let mut cut = self.freed.iter().filter_map(|freed| freed.end);
        if cut.any(|end| Some(end) == chain.last()) {
            // The device's entry still has the size from before the cut, and needs that chain.
            self.commit()?;
        }
        // What took room may have written the table: the chain itself is the same.
        let added = self.take(count, chain.last())?;
        let all = self.link(&chain, &added)?;
        if let (Cluster(0), Some(first)) = (entry.cluster(), all.first()) {
            entry.set_cluster(first);
        }
        Ok(self.volume.boot.bytes_of(all.clusters()))
    }

    /// Makes `added` the end of a chain.
    pub(super) fn link(&mut self, chain: &Arc<Chain>, added: &Chain) -> Result<Arc<Chain>> {
        if let (Some(last), Some(next)) = (chain.last(), added.first()) {
            self.volume.fat.set(last, FatEntry::Next(next))?;
        }
        let mut all = (**chain).clone();
        all.append(added);
        let all = Arc::new(all);
        if let Some(first) = all.first() {
            self.volume.keep_chain(first, Arc::clone(&all));
        }
        Ok(all)
    }

    /// The chain of a file, which must be as long as the file.
    fn whole_chain(&self, entry: &ShortEntry) -> Result<Arc<Chain>> {
        let chain = self.volume.chain_of(entry)?;
        let clusters = chain.clusters();
        if clusters < self.volume.boot.clusters_for(entry.size.get().into()) {
            let first = entry.cluster();
            return Err(Corrupt::ShortChain { first, clusters }.into());
        }
        Ok(chain)
    }

    fn cut(&mut self, inode: InodeNumber, mut entry: ShortEntry, size_bytes: u64) -> Result<()> {
        let mut chain = (*self.whole_chain(&entry)?).clone();
        let first = entry.cluster();
        let rest = chain.split_off(self.volume.boot.clusters_for(size_bytes));
        set_size(&mut entry, size_bytes);
        if chain.clusters() == 0 {
            entry.set_cluster(Cluster(0));
        }
        self.put_changed(inode, entry)?;
        let end = chain.last();
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
    fn write_zeroes(&mut self, entry: &ShortEntry, from: u64, to: u64) -> Result<()> {
        let mut at = from;
        while at < to {
            let (offset, run_bytes) = self.volume.stored_at(entry, at)?;
            let len_bytes = run_bytes.min(to.saturating_sub(at));
            self.device
                .write_zeroes(offset, len_bytes)
                .map_err(device_failed)?;
            self.unflushed = true;
            at = at.saturating_add(len_bytes.max(1));
        }
        Ok(())
    }

    fn write_data(&mut self, entry: &ShortEntry, offset: u64, data: &[u8]) -> Result<()> {
        let mut at = offset;
        let mut left = data;
        while !left.is_empty() {
            let (device_offset, run_bytes) = self.volume.stored_at(entry, at)?;
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

fn set_size(entry: &mut ShortEntry, size_bytes: u64) {
    // Nothing above MAX_SIZE comes here.
    entry
        .size
        .set(u32::try_from(size_bytes).unwrap_or(u32::MAX));
}
