//! Read operations, for filesystems opened for reading and for writing.

use diskfs_block::bytes::{index, len_u64};
use diskfs_vfs::{
    DirEntry, Error, ErrorKind, FileExtent, FileExtentKind, FileFlags, FileType, InodeNumber,
    Metadata, Result, Statistics, Timestamp,
};

use crate::device_failed;
use crate::format::{FileRecord, Format};
use crate::name::MAX_NAME_UNITS;
use crate::numbers::ROOT;
use crate::volume::{Volume, short_chain};

impl<F: Format> Volume<F> {
    pub(crate) fn lookup(&self, dir: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        let directory = self.directory(dir)?;
        match name {
            b"." => return Ok(dir),
            b".." => return self.parent(dir),
            _ => {}
        }
        let (_, found) = self.find(&directory, name).ok_or(ErrorKind::NotFound)?;
        Ok(self.numbers.of(found.place))
    }

    pub(crate) fn metadata(&self, inode: InodeNumber) -> Result<Metadata> {
        let record = if inode == ROOT {
            None
        } else {
            Some(self.record(inode)?)
        };
        let file = record.as_ref().filter(|record| !record.is_directory());
        let is_read_only = file.is_some_and(F::Record::is_read_only);
        let time = |of: fn(&F::Record) -> Timestamp| record.as_ref().map(of).unwrap_or_default();
        let allocated = |clusters| self.geometry().bytes_of(clusters);
        let (size_bytes, allocated_bytes, links) = if let Some(file) = file {
            let clusters = self.geometry().clusters_for(file.size());
            (file.size(), allocated(clusters), 1)
        } else {
            let span = self.directory_span(inode)?;
            let links = self.directory(inode)?.subdirectories().saturating_add(2);
            let clusters = allocated(span.chain.clusters());
            (span.len_bytes, clusters.max(span.len_bytes), links)
        };
        let is_nameless = self.nameless.contains_key(&inode);
        Ok(Metadata {
            inode,
            generation: self.numbers.generation(inode),
            file_type: if file.is_some() {
                FileType::Regular
            } else {
                FileType::Directory
            },
            permissions: if is_read_only { 0o555 } else { 0o755 },
            links: if is_nameless { 0 } else { links },
            uid: 0,
            gid: 0,
            size_bytes,
            allocated_bytes,
            accessed: time(F::Record::accessed),
            modified: time(F::Record::modified),
            changed: time(F::Record::modified),
            created: record.as_ref().map(F::Record::created),
            device: None,
            block_size: self.geometry().cluster_bytes,
            flags: FileFlags::default(),
        })
    }

    pub(crate) fn read_at(&self, inode: InodeNumber, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let record = self.file(inode)?;
        let left = record.size().saturating_sub(offset);
        let len = index(left.min(len_u64(buf.len())));
        let whole = buf.get_mut(..len).unwrap_or_default();
        let stored = index(record.valid().saturating_sub(offset)).min(len);
        let (mut rest, zeroes) = whole.split_at_mut(stored);
        zeroes.fill(0);
        let mut at = offset;
        while !rest.is_empty() {
            let (device_offset, run_bytes) =
                self.stored_at(&record, at).map_err(|e| e.in_inode(inode))?;
            let piece_len = index(run_bytes).min(rest.len());
            let Some((piece, behind)) = rest.split_at_mut_checked(piece_len) else {
                break;
            };
            self.device
                .read_at(device_offset, piece)
                .map_err(device_failed)?;
            at = at.saturating_add(len_u64(piece.len()));
            rest = behind;
        }
        Ok(len)
    }

    /// Returns the offset on the device of byte `at` of a file, and how many bytes are contiguous
    /// from there; at least one.
    pub(crate) fn stored_at(&self, record: &F::Record, at: u64) -> Result<(u64, u64)> {
        let geometry = self.geometry();
        let cluster_bytes = u64::from(geometry.cluster_bytes);
        let nth = at.checked_div(cluster_bytes).unwrap_or(0);
        let within = at.checked_rem(cluster_bytes).unwrap_or(0);
        let chain = self.chain_of(record)?;
        let run = u32::try_from(nth).ok().and_then(|nth| chain.run_from(nth));
        let run = run.ok_or_else(|| short_chain(record, &chain))?;
        Ok((
            geometry.offset_of(run.first).saturating_add(within),
            geometry.bytes_of(run.count).saturating_sub(within),
        ))
    }

    pub(crate) fn read_dir(&self, dir: InodeNumber, cookie: u64) -> Result<Vec<DirEntry>> {
        /// The cookie of `.`; that of `..` follows. The cookies of other names are 3 more than the
        /// slot of the head.
        const DOT: u64 = 1;
        const DOT_DOT: u64 = 2;
        const FIRST: u64 = 3;
        let directory = self.directory(dir)?;
        let entry = |name: &[u8], inode, file_type, cookie| DirEntry {
            name: name.to_vec(),
            inode,
            file_type: Some(file_type),
            cookie,
        };
        let mut entries = Vec::new();
        if cookie < DOT {
            entries.push(entry(b".", dir, FileType::Directory, DOT));
        }
        if cookie < DOT_DOT {
            let parent = self.parent(dir)?;
            entries.push(entry(b"..", parent, FileType::Directory, DOT_DOT));
        }
        let next = cookie.saturating_add(1).saturating_sub(FIRST);
        let Ok(next) = u32::try_from(next) else {
            return Ok(entries);
        };
        entries.extend(directory.names_from(next).map(|(slot, name)| {
            let file_type = if name.is_directory {
                FileType::Directory
            } else {
                FileType::Regular
            };
            let cookie = u64::from(slot).saturating_add(FIRST);
            entry(
                &name.displayed,
                self.numbers.of(name.place),
                file_type,
                cookie,
            )
        }));
        Ok(entries)
    }

    pub(crate) fn no_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        self.metadata(inode)?;
        Err(Error::new(ErrorKind::Invalid, "not a symbolic link").in_inode(inode))
    }

    pub(crate) fn statistics(&self, free: u32) -> Statistics {
        let geometry = self.geometry();
        Statistics {
            block_size: geometry.cluster_bytes,
            allocation_size: geometry.cluster_bytes,
            blocks: geometry.clusters.into(),
            blocks_free: free.into(),
            blocks_available: free.into(),
            inodes: 0,
            inodes_free: 0,
            // A UTF-16 unit takes up to three bytes in UTF-8.
            name_max: crate::low32(MAX_NAME_UNITS),
        }
    }

    pub(crate) fn extents_of(&self, inode: InodeNumber, offset: u64) -> Result<Vec<FileExtent>> {
        let record = self.file(inode)?;
        let (size, valid) = (record.size(), record.valid());
        let mut extents = Vec::new();
        let mut at = offset;
        while at < valid {
            let (device_offset, run_bytes) =
                self.stored_at(&record, at).map_err(|e| e.in_inode(inode))?;
            let len_bytes = run_bytes.min(valid.saturating_sub(at));
            extents.push(FileExtent {
                offset: at,
                len_bytes,
                kind: FileExtentKind::Stored { device_offset },
            });
            at = at.saturating_add(len_bytes.max(1));
        }
        if at < size {
            extents.push(FileExtent {
                offset: at,
                len_bytes: size.saturating_sub(at),
                kind: FileExtentKind::Hole,
            });
        }
        Ok(extents)
    }

    pub(crate) fn will_need(&self, inode: InodeNumber, offset: u64, len_bytes: u64) {
        let end = offset.saturating_add(len_bytes);
        // Errors are ignored: this is only a prefetch hint.
        for extent in self.extents_of(inode, offset).unwrap_or_default() {
            if let FileExtentKind::Stored { device_offset } = extent.kind
                && extent.offset < end
            {
                let len_bytes = extent.len_bytes.min(end.saturating_sub(extent.offset));
                self.device.will_need(device_offset, len_bytes);
            }
        }
    }
}
