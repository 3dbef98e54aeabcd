//! Changes to the contents and the clusters of files.

use std::sync::Arc;

use diskfs_block::bytes::{index, len_u64};
use diskfs_vfs::{Error, ErrorKind, Fallocate, InodeNumber, Result};

use crate::chain::Chain;
use crate::device_failed;
use crate::format::{FileRecord, Format};

use super::{FreedClusters, Writer};

impl<F: Format> Writer<F> {
    pub(crate) fn write_at(
        &mut self,
        inode: InodeNumber,
        offset: u64,
        data: &[u8],
    ) -> Result<usize> {
        let mut record = self.volume.file(inode)?;
        if data.is_empty() {
            return Ok(0);
        }
        if offset >= F::MAX_FILE_BYTES {
            return Err(Error::from(ErrorKind::FileTooLarge).in_inode(inode));
        }
        let wanted = offset.saturating_add(len_u64(data.len()));
        let wanted = wanted.min(F::MAX_FILE_BYTES);
        let (size, valid) = (record.size(), record.valid());
        let needed = offset.saturating_add(1);
        let end = self.make_room(&mut record, wanted, needed)?.min(wanted);
        record.set_size(size.max(end), valid.max(end));
        self.write_zeroes(&record, valid, offset)?;
        let len = index(end.saturating_sub(offset)).min(data.len());
        self.write_data(&record, offset, data.get(..len).unwrap_or_default())?;
        self.put_changed(inode, record)?;
        Ok(len)
    }

    /// Changes the size. On exFAT, too, the added bytes are written as zeroes: Linux before 6.8 and
    /// exfat-fuse before 1.4 take allocated bytes after the valid data length for contents, or take
    /// the file for shorter.
    pub(crate) fn set_len(&mut self, inode: InodeNumber, size_bytes: u64) -> Result<()> {
        let mut record = self.volume.file(inode)?;
        if size_bytes > F::MAX_FILE_BYTES {
            return Err(Error::from(ErrorKind::FileTooLarge).in_inode(inode));
        }
        if size_bytes < record.size() {
            return self.cut(inode, record, size_bytes);
        }
        let valid = record.valid();
        self.make_room(&mut record, size_bytes, size_bytes)?;
        record.set_size(size_bytes, size_bytes);
        self.write_zeroes(&record, valid, size_bytes)?;
        self.put_changed(inode, record)
    }

    /// Allocates space, but only to make a file longer, as the kernel's driver does.
    pub(crate) fn fallocate(
        &mut self,
        inode: InodeNumber,
        offset: u64,
        len_bytes: u64,
        what: Fallocate,
    ) -> Result<()> {
        let size = self.volume.file(inode)?.size();
        let end = offset.saturating_add(len_bytes);
        match what {
            _ if len_bytes == 0 => Err(ErrorKind::Invalid.into()),
            Fallocate::Allocate if end > size => self.set_len(inode, end),
            Fallocate::Allocate => Ok(()),
            Fallocate::AllocateKeepSize if end <= size => Ok(()),
            _ => {
                let what = "holes and space allocated after the end of a file";
                let reason = format!("{what} are not supported on {}", F::NAME);
                Err(Error::new(ErrorKind::Unsupported, reason))
            }
        }
    }

    fn put_changed(&mut self, inode: InodeNumber, mut record: F::Record) -> Result<()> {
        record.set_modified(self.now());
        record.set_archive();
        self.put_record(inode, &record)
    }

    /// Adds clusters until the file has space for `wanted` bytes or, if there are fewer free
    /// clusters, for at least `needed` bytes. Returns the number of bytes that fit. The caller sets
    /// the size.
    fn make_room(&mut self, record: &mut F::Record, wanted: u64, needed: u64) -> Result<u64> {
        let chain = self.volume.whole_chain(record)?;
        let geometry = *self.volume.geometry();
        let (wanted, needed) = (geometry.clusters_for(wanted), geometry.clusters_for(needed));
        let has = chain.clusters();
        if wanted <= has {
            return Ok(geometry.bytes_of(has));
        }
        let more = wanted.saturating_sub(has);
        let count = more.min(self.room(more)?);
        if has.saturating_add(count) < needed {
            return Err(ErrorKind::NoSpace.into());
        }
        if count == 0 {
            return Ok(geometry.bytes_of(has));
        }
        // `room` may have committed and written the table; the chain itself has not changed.
        let all = self.add_clusters(record, &chain, count)?;
        Ok(geometry.bytes_of(all.clusters()))
    }

    /// Adds clusters to a file or a directory; the caller sets its size. On exFAT, the clusters are
    /// not entered into the table as long as all of them are consecutive.
    pub(super) fn add_clusters(
        &mut self,
        record: &mut F::Record,
        chain: &Arc<Chain>,
        count: u32,
    ) -> Result<Arc<Chain>> {
        let mut cut = self.freed.iter().filter_map(|freed| freed.end);
        if cut.any(|end| Some(end) == chain.last()) {
            // The entry on the device still leads to the clusters that were cut, and needs their
            // old chain.
            self.commit()?;
        }
        let added = self.allocate(count, chain.last())?;
        let in_table = chain.clusters() > 0 && !record.is_contiguous();
        let mut all = (**chain).clone();
        all.append(&added);
        let all = Arc::new(all);
        let is_contiguous = F::HAS_CONTIGUOUS_FILES && !in_table && all.runs().len() == 1;
        if in_table {
            self.link(chain, &added)?;
        } else if !is_contiguous {
            self.volume.format.set_chain(&all)?;
        }
        record.set_clusters(all.first(), is_contiguous);
        if let (Some(first), false) = (all.first(), is_contiguous) {
            self.volume.cache_chain(first, Arc::clone(&all));
        }
        Ok(all)
    }

    /// Appends `added` to a chain of the table.
    pub(super) fn link(&mut self, chain: &Chain, added: &Chain) -> Result<()> {
        self.volume.format.set_chain(added)?;
        match (chain.last(), added.first()) {
            (Some(last), Some(next)) => self.volume.format.set_next(last, next),
            _ => Ok(()),
        }
    }

    fn cut(&mut self, inode: InodeNumber, mut record: F::Record, size_bytes: u64) -> Result<()> {
        let mut chain = (*self.volume.whole_chain(&record)?).clone();
        let first = chain.first();
        let is_contiguous = record.is_contiguous();
        let rest = chain.split_off(self.volume.geometry().clusters_for(size_bytes));
        let valid = record.valid();
        record.set_size(size_bytes, valid);
        record.set_clusters(chain.first(), is_contiguous);
        self.put_changed(inode, record)?;
        let end = chain.last().filter(|_| !is_contiguous);
        match (first, end) {
            (Some(first), Some(_)) => {
                self.volume.pin_chains(true);
                self.volume.cache_chain(first, Arc::new(chain));
            }
            (Some(first), None) => self.volume.forget_chain(first),
            (None, _) => {}
        }
        if rest.clusters() > 0 {
            self.freed.push(FreedClusters { end, chain: rest });
        }
        Ok(())
    }

    /// Writes zeroes to a file that has the clusters for them.
    fn write_zeroes(&mut self, record: &F::Record, from: u64, to: u64) -> Result<()> {
        let mut at = from;
        while at < to {
            let (offset, run_bytes) = self.volume.stored_at(record, at)?;
            let len_bytes = run_bytes.min(to.saturating_sub(at));
            self.device
                .write_zeroes(offset, len_bytes)
                .map_err(device_failed)?;
            self.unflushed = true;
            at = at.saturating_add(len_bytes.max(1));
        }
        Ok(())
    }

    fn write_data(&mut self, record: &F::Record, offset: u64, data: &[u8]) -> Result<()> {
        let mut at = offset;
        let mut left = data;
        while !left.is_empty() {
            let (device_offset, run_bytes) = self.volume.stored_at(record, at)?;
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
