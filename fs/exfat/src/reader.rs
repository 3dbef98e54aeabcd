//! The filesystem as everybody else sees it, for reading.

use std::sync::Arc;

use diskfs_block::BlockRead;
use diskfs_clusters::ROOT;
use diskfs_vfs::{
    DirEntries, DirEntry, Error, ErrorKind, FileExtent, FileExtentKind, FileExtents, FileFlags,
    FileType, FsRead, Identity, InodeNumber, Metadata, Result, Statistics, Timestamp,
};

use crate::bytes::{index, len_u64};
use crate::directory_entry::FileEntry;
use crate::entry_set::EntrySet;
use crate::error::{Corrupt, device_failed};
use crate::volume::Volume;

/// The longest name in units of UTF-16; in UTF-8, three bytes each.
const NAME_MAX: u32 = 255;

/// An exFAT filesystem. See the [crate](crate).
#[derive(Debug)]
pub struct Exfat {
    volume: Volume,
}

impl Exfat {
    /// Opens the filesystem.
    ///
    /// # Errors
    /// `Corrupt` when both boot regions or the root directory make no sense, `Unsupported` for a version
    /// that is not known, `Io` when the device fails.
    pub fn open(device: Arc<dyn BlockRead>) -> Result<Self> {
        let volume = Volume::open(device)?;
        Ok(Self { volume })
    }
}

impl FsRead for Exfat {
    fn identity(&self) -> Identity {
        self.volume.identity()
    }

    fn root(&self) -> InodeNumber {
        ROOT
    }

    fn lookup(&self, dir: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        self.volume.lookup(dir, name)
    }

    fn metadata(&self, inode: InodeNumber) -> Result<Metadata> {
        self.volume.metadata(inode)
    }

    fn read_at(&self, inode: InodeNumber, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.volume.read_at(inode, offset, buf)
    }

    fn read_dir(&self, dir: InodeNumber, cookie: u64) -> Result<DirEntries<'_>> {
        let entries = self.volume.read_dir(dir, cookie)?;
        Ok(Box::new(entries.into_iter().map(Ok)))
    }

    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        self.volume.no_link(inode)
    }

    fn xattr(&self, inode: InodeNumber, _name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.volume.metadata(inode).map(|_| None)
    }

    fn list_xattrs(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        self.volume.metadata(inode).map(|_| Vec::new())
    }

    fn statistics(&self) -> Result<Statistics> {
        let free = self.volume.free_clusters()?;
        Ok(self.volume.statistics(free))
    }

    fn extents_of(&self, inode: InodeNumber, offset: u64) -> Result<FileExtents<'_>> {
        let extents = self.volume.extents_of(inode, offset)?;
        Ok(Box::new(extents.into_iter().map(Ok)))
    }

    fn will_need(&self, inode: InodeNumber, offset: u64, len_bytes: u64) {
        self.volume.will_need(inode, offset, len_bytes);
    }
}

impl Volume {
    pub(crate) fn identity(&self) -> Identity {
        let serial = self.boot.serial;
        Identity {
            kind: "exfat".to_owned(),
            label: self.label.clone().into_bytes(),
            uuid: (serial != 0).then(|| format!("{:04X}-{:04X}", serial >> 16, serial & 0xffff)),
            features: (self.boot.fats > 1)
                .then(|| "TexFAT".to_owned())
                .into_iter()
                .collect(),
            notes: self.notes(),
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let mut note = |holds: bool, text: &str| notes.extend(holds.then(|| text.to_owned()));
        note(self.boot.is_dirty(), "not cleanly unmounted");
        note(self.boot.media_failed(), "its medium has failed before");
        note(
            self.boot.is_backup,
            "main boot region damaged, its copy used",
        );
        if let Some(e) = &self.upcase_damage {
            note(true, &format!("{e}; the usual table used"));
        }
        notes
    }

    pub(crate) fn lookup(&self, dir: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        let directory = self.directory(dir)?;
        match name {
            b"." => return Ok(dir),
            b".." => return self.above(dir),
            _ => {}
        }
        let (_, found) = self.find(&directory, name).ok_or(ErrorKind::NotFound)?;
        Ok(self.numbers.of(found.place))
    }

    pub(crate) fn metadata(&self, inode: InodeNumber) -> Result<Metadata> {
        let set = if inode == ROOT {
            None
        } else {
            Some(self.set(inode)?)
        };
        let file = set.as_ref().filter(|set| !set.file.is_directory());
        let is_read_only = file.is_some_and(|set| set.file.is_read_only());
        let time = |of: fn(&FileEntry) -> Timestamp| {
            set.as_ref().map(|set| of(&set.file)).unwrap_or_default()
        };
        let (size_bytes, allocated_bytes, links) = if let Some(set) = file {
            let size = set.stream.size();
            (size, self.boot.bytes_of(self.boot.clusters_for(size)), 1)
        } else {
            let (chain, size) = self.directory_chain(inode)?;
            let links = self.directory(inode)?.subdirectories.saturating_add(2);
            (size, self.boot.bytes_of(chain.clusters()), links)
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
            accessed: time(FileEntry::accessed),
            modified: time(FileEntry::modified),
            changed: time(FileEntry::modified),
            created: set.as_ref().map(|set| set.file.created()),
            device: None,
            block_size: self.boot.cluster_bytes,
            flags: FileFlags::default(),
        })
    }

    pub(crate) fn read_at(&self, inode: InodeNumber, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let set = self.file(inode)?;
        let left = set.stream.size().saturating_sub(offset);
        let len = index(left.min(len_u64(buf.len())));
        let whole = buf.get_mut(..len).unwrap_or_default();
        let stored = index(set.stream.valid().saturating_sub(offset)).min(len);
        let (mut rest, zeroes) = whole.split_at_mut(stored);
        zeroes.fill(0);
        let mut at = offset;
        while !rest.is_empty() {
            let (device_offset, run_bytes) =
                self.stored_at(&set, at).map_err(|e| e.in_inode(inode))?;
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

    /// Where byte `at` of a file is on the device, and how many follow it there. Never none.
    pub(crate) fn stored_at(&self, set: &EntrySet, at: u64) -> Result<(u64, u64)> {
        let cluster_bytes = u64::from(self.boot.cluster_bytes);
        let nth = at.checked_div(cluster_bytes).unwrap_or(0);
        let within = at.checked_rem(cluster_bytes).unwrap_or(0);
        let chain = self.chain_of(&set.stream)?;
        let run = u32::try_from(nth).ok().and_then(|nth| chain.run_from(nth));
        let run = run.ok_or_else(|| Corrupt::ShortChain {
            first: set.stream.first(),
            clusters: chain.clusters(),
        })?;
        Ok((
            self.boot.offset_of(run.first).saturating_add(within),
            self.boot.bytes_of(run.count).saturating_sub(within),
        ))
    }

    pub(crate) fn read_dir(&self, dir: InodeNumber, cookie: u64) -> Result<Vec<DirEntry>> {
        /// The cookies of the first two; those behind are 3 above the first slot of a file.
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
            let above = self.above(dir)?;
            entries.push(entry(b"..", above, FileType::Directory, DOT_DOT));
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
            let inode = self.numbers.of(name.place);
            entry(name.shown.as_bytes(), inode, file_type, cookie)
        }));
        Ok(entries)
    }

    pub(crate) fn no_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        self.metadata(inode)?;
        Err(Error::new(ErrorKind::Invalid, "is no symbolic link").in_inode(inode))
    }

    pub(crate) fn statistics(&self, free: u32) -> Statistics {
        Statistics {
            block_size: self.boot.cluster_bytes,
            allocation_size: self.boot.cluster_bytes,
            blocks: self.boot.clusters.into(),
            blocks_free: free.into(),
            blocks_available: free.into(),
            inodes: 0,
            inodes_free: 0,
            name_max: NAME_MAX,
        }
    }

    pub(crate) fn extents_of(&self, inode: InodeNumber, offset: u64) -> Result<Vec<FileExtent>> {
        let set = self.file(inode)?;
        let (size, valid) = (set.stream.size(), set.stream.valid());
        let mut extents = Vec::new();
        let mut at = offset;
        while at < valid {
            let (device_offset, run_bytes) =
                self.stored_at(&set, at).map_err(|e| e.in_inode(inode))?;
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
        // A hint that can't be given is none.
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
