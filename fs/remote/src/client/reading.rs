//! Reading from a mounted filesystem: the implementation of `FsRead`.

use diskfs_vfs::{
    DirEntries, Error, ErrorKind, FileExtent, FileExtents, FsRead, Identity, InodeNumber, Metadata,
    Result, Statistics,
};

use super::calls::{check_name, data};
use super::connection::MISMATCH;
use super::listing::Listing;
use super::remote::Remote;
use super::small_files::SMALL_FILE_MAX;
use crate::protocol::{
    MAX_BULK, MAX_EXTENTS, MAX_SUBVOLUME_PATH, MAX_TARGET, MAX_XATTR, Operation, Reply, Violation,
    is_xattr_name,
};

/// The maximum number of extents of a file: a hostile agent could send extents without end. XFS
/// with the widest counter allows 2^47, but not even a millionth of that occurs.
const MAX_EXTENTS_IN_ALL: u64 = 1 << 30;

impl FsRead for Remote {
    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    fn root(&self) -> InodeNumber {
        self.root
    }

    fn lookup(&self, dir: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        check_name(name)?;
        if self.negative_cache.is_absent(dir, name) {
            self.check_open()?;
            return Err(ErrorKind::NotFound.into());
        }
        let found = self.ask_for_file(Operation::Lookup { dir: dir.0, name })?;
        Ok(found.inode)
    }

    fn metadata(&self, inode: InodeNumber) -> Result<Metadata> {
        if let Some(known) = self.attributes.get(inode) {
            self.check_open()?;
            return Ok(known);
        }
        let metadata = self.ask_for_file(Operation::Metadata { inode: inode.0 })?;
        if metadata.inode != inode {
            return Err(self.connection.protocol_violation(&MISMATCH));
        }
        Ok(metadata)
    }

    fn read_at(&self, inode: InodeNumber, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if let Some(read) = self.read_small(inode, offset, buf) {
            self.check_open()?;
            return Ok(read);
        }
        let mut read = 0_usize;
        for chunk in buf.chunks_mut(MAX_BULK) {
            let Some(at) = offset.checked_add(u64::try_from(read).unwrap_or(u64::MAX)) else {
                break;
            };
            let operation = Operation::Read {
                inode: inode.0,
                offset: at,
                len: u32::try_from(chunk.len()).unwrap_or(u32::MAX),
            };
            let len = self.ask_into(operation, chunk, data)?;
            read = read.saturating_add(len);
            if len < chunk.len() {
                break;
            }
        }
        Ok(read)
    }

    fn read_dir(&self, dir: InodeNumber, cookie: u64) -> Result<DirEntries<'_>> {
        Ok(Box::new(Listing::new(self, dir, cookie)?))
    }

    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        let mut target = vec![0; MAX_TARGET];
        let operation = Operation::ReadLink { inode: inode.0 };
        let len = self.ask_into(operation, &mut target, |answer| {
            if answer.bulk.contains(&0) {
                return Err(Violation("invalid symlink: a NUL in the target"));
            }
            data(answer)
        })?;
        target.truncate(len);
        Ok(target)
    }

    fn xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Option<Vec<u8>>> {
        if !is_xattr_name(name) {
            return Ok(None);
        }
        let mut value = vec![0; MAX_XATTR];
        let operation = Operation::Xattr {
            inode: inode.0,
            name,
        };
        let len = self.ask_into(operation, &mut value, |answer| match answer.reply {
            Reply::Absent => Ok(None),
            _ => data(answer).map(Some),
        })?;
        Ok(len.map(|len| {
            value.truncate(len);
            value
        }))
    }

    fn list_xattrs(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        let mut names = vec![0; MAX_XATTR];
        let operation = Operation::ListXattrs { inode: inode.0 };
        self.ask_into(operation, &mut names, |answer| {
            let Reply::Data = answer.reply else {
                return Err(MISMATCH);
            };
            let names = answer.bulk.split_inclusive(|&byte| byte == 0);
            names
                .map(|name| match name.strip_suffix(b"\0") {
                    Some(name) if is_xattr_name(name) => Ok(name.to_vec()),
                    _ => Err(Violation("invalid name of an extended attribute")),
                })
                .collect()
        })
    }

    fn statistics(&self) -> Result<Statistics> {
        self.ask(Operation::Statistics, |answer| match answer.reply {
            Reply::Statistics(usage) => Ok(usage.into()),
            _ => Err(MISMATCH),
        })
    }

    fn subvolume(&self, id: Option<u64>) -> Result<Vec<u8>> {
        let mut path = vec![0; MAX_SUBVOLUME_PATH];
        let len = self.ask_into(Operation::Subvolume { id }, &mut path, data)?;
        path.truncate(len);
        Ok(path)
    }

    fn will_need(&self, inode: InodeNumber, offset: u64, len_bytes: u64) {
        let small = u32::try_from(len_bytes).ok();
        let small = small.filter(|&len| offset == 0 && len <= SMALL_FILE_MAX);
        if let Some(Ok(len)) = small.map(usize::try_from) {
            self.small_files.announce(inode, len);
        }
    }

    fn extents_of(&self, inode: InodeNumber, offset: u64) -> Result<FileExtents<'_>> {
        let mut extents = Extents {
            fs: self,
            inode,
            next: offset,
            page: Vec::new().into_iter(),
            seen: 0,
            ends: false,
        };
        extents.next_page()?;
        Ok(Box::new(extents))
    }
}

/// An iterator over the extents of a file.
struct Extents<'r> {
    fs: &'r Remote,
    inode: InodeNumber,
    /// The offset in the file at which the next page begins.
    next: u64,
    page: std::vec::IntoIter<FileExtent>,
    seen: u64,
    ends: bool,
}

impl Extents<'_> {
    fn next_page(&mut self) -> Result<()> {
        let operation = Operation::Extents {
            inode: self.inode.0,
            offset: self.next,
        };
        let begin = self.next;
        let (extents, next, ends) = self.fs.ask(operation, |answer| {
            let Reply::Extents { extents, ends } = answer.reply else {
                return Err(MISMATCH);
            };
            if extents.len() > MAX_EXTENTS || (extents.is_empty() && !ends) {
                return Err(MISMATCH);
            }
            let mut next = begin;
            let mut checked = Vec::with_capacity(extents.len());
            for extent in extents {
                let extent = extent.beginning_at(next)?;
                next = next.saturating_add(extent.len_bytes);
                checked.push(extent);
            }
            Ok((checked, next, ends))
        })?;
        self.page = extents.into_iter();
        self.next = next;
        self.ends = ends;
        Ok(())
    }

    fn next_extent(&mut self) -> Result<Option<FileExtent>> {
        if self.page.as_slice().is_empty() && !self.ends {
            self.next_page()?;
        }
        if self.seen >= MAX_EXTENTS_IN_ALL {
            let reason = "invalid file: too many extents";
            return Err(Error::new(ErrorKind::Corrupt, reason).in_inode(self.inode));
        }
        self.seen = self.seen.saturating_add(1);
        Ok(self.page.next())
    }
}

impl Iterator for Extents<'_> {
    type Item = Result<FileExtent>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_extent().transpose();
        if matches!(next, Some(Err(_))) {
            self.ends = true;
            self.page = Vec::new().into_iter();
        }
        next
    }
}
