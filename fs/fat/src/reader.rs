//! The filesystem as everybody else sees it, for reading.

use std::sync::Arc;

use diskfs_block::BlockRead;
use diskfs_clusters::ROOT;
use diskfs_vfs::{
    DirEntries, DirEntry, Error, ErrorKind, FileExtent, FileExtentKind, FileExtents, FileFlags,
    FileType, FsRead, Identity, InodeNumber, Metadata, Result, Statistics, Timestamp,
};

use crate::boot_sector::RootDirectory;
use crate::bytes::{index, len_u64};
use crate::code_page::CodePage;
use crate::directory::Directory;
use crate::directory_entry::{ENTRY_BYTES, READ_ONLY, ShortEntry};
use crate::error::{Corrupt, device_failed};
use crate::long_name::LongName;
use crate::volume::{ROOT_START, Volume};

/// The longest name in units of UTF-16; in UTF-8, three bytes each.
const NAME_MAX: u32 = 255;

/// A FAT filesystem. See the [crate](crate).
#[derive(Debug)]
pub struct Fat {
    volume: Volume,
}

impl Fat {
    /// Opens the filesystem.
    ///
    /// # Errors
    /// `Corrupt` when the boot sector makes no sense, `Unsupported` for a version that is not known,
    /// `Io` when the device fails.
    pub fn open(device: Arc<dyn BlockRead>) -> Result<Self> {
        Self::open_in(device, CodePage::default())
    }

    /// The same, with short names in `code_page`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_in(device: Arc<dyn BlockRead>, code_page: CodePage) -> Result<Self> {
        let volume = Volume::open(device, code_page)?;
        Ok(Self { volume })
    }
}

impl FsRead for Fat {
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
        let serial = self.boot.volume_id;
        Identity {
            kind: "vfat".to_owned(),
            label: self.label(),
            uuid: (serial != 0).then(|| format!("{:04X}-{:04X}", serial >> 16, serial & 0xffff)),
            features: vec![self.boot.kind.name().to_owned()],
            notes: self
                .was_dirty
                .then(|| "not cleanly unmounted".to_owned())
                .into_iter()
                .collect(),
        }
    }

    /// The label is an entry of the root directory; else the boot sector's.
    fn label(&self) -> Vec<u8> {
        let entry = self.directory(ROOT_START).ok().and_then(|root| {
            let place = root.label?;
            ShortEntry::read(&self.sectors, place).ok()
        });
        let bytes = entry.map_or(self.boot.label, |entry| entry.name);
        let text: String = bytes
            .iter()
            .map(|&byte| self.code_page.decode(byte))
            .collect();
        let text = text.trim_end_matches([' ', '\0']);
        if matches!(text, "NO NAME") {
            Vec::new()
        } else {
            text.as_bytes().to_vec()
        }
    }

    pub(crate) fn lookup(&self, dir: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        let start = self.start_of(dir)?;
        match name {
            b"." => return Ok(dir),
            b".." => return self.number_of(self.above(start)?),
            _ => {}
        }
        let directory = self.directory(start)?;
        let found = find(&directory, name).ok_or(ErrorKind::NotFound)?;
        Ok(self.numbers.of(found.1.place))
    }

    pub(crate) fn metadata(&self, inode: InodeNumber) -> Result<Metadata> {
        let entry = if inode == ROOT {
            None
        } else {
            Some(self.entry(inode)?)
        };
        let file_type = entry.map_or(FileType::Directory, |entry| entry.file_type());
        let is_read_only = entry.is_some_and(|entry| {
            entry.attributes & READ_ONLY != 0 && file_type == FileType::Regular
        });
        let time = |of: fn(&ShortEntry) -> Timestamp| entry.as_ref().map(of).unwrap_or_default();
        let (size_bytes, allocated_bytes, links) = match entry {
            Some(entry) if file_type == FileType::Regular => {
                let size = u64::from(entry.size.get());
                (size, self.boot.bytes_of(self.boot.clusters_for(size)), 1)
            }
            _ => self.directory_size(inode)?,
        };
        let is_nameless = self.nameless.contains_key(&inode);
        Ok(Metadata {
            inode,
            generation: self.numbers.generation(inode),
            file_type,
            permissions: if is_read_only { 0o555 } else { 0o755 },
            links: if is_nameless { 0 } else { links },
            uid: 0,
            gid: 0,
            size_bytes,
            allocated_bytes,
            accessed: time(ShortEntry::accessed),
            modified: time(ShortEntry::modified),
            changed: time(ShortEntry::modified),
            created: entry.map(|entry| entry.created()),
            device: None,
            block_size: self.boot.cluster_bytes,
            flags: FileFlags::default(),
        })
    }

    /// Size, what is allocated, and links of a directory.
    fn directory_size(&self, inode: InodeNumber) -> Result<(u64, u64, u32)> {
        let start = self.start_of(inode)?;
        let links = self.directory(start)?.subdirectories.saturating_add(2);
        let bytes = match (self.directory_chain(start)?, self.boot.root) {
            (Some(chain), _) => self.boot.bytes_of(chain.clusters()),
            (None, RootDirectory::Fixed { entries, .. }) => {
                u64::from(entries).saturating_mul(ENTRY_BYTES)
            }
            (None, RootDirectory::Chain { .. }) => 0,
        };
        Ok((bytes, bytes, links))
    }

    pub(crate) fn read_at(&self, inode: InodeNumber, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let wanted = len_u64(buf.len());
        let entry = self.file(inode)?;
        let left = u64::from(entry.size.get()).saturating_sub(offset);
        let len = index(left.min(wanted));
        let mut rest = buf.get_mut(..len).unwrap_or_default();
        let mut at = offset;
        while !rest.is_empty() {
            let (device_offset, run_bytes) =
                self.stored_at(&entry, at).map_err(|e| e.in_inode(inode))?;
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
    pub(crate) fn stored_at(&self, entry: &ShortEntry, at: u64) -> Result<(u64, u64)> {
        let cluster_bytes = u64::from(self.boot.cluster_bytes);
        let nth = at.checked_div(cluster_bytes).unwrap_or(0);
        let within = at.checked_rem(cluster_bytes).unwrap_or(0);
        let chain = self.chain_of(entry)?;
        let run = u32::try_from(nth).ok().and_then(|nth| chain.run_from(nth));
        let run = run.ok_or_else(|| Corrupt::ShortChain {
            first: entry.cluster(),
            clusters: chain.clusters(),
        })?;
        Ok((
            self.boot.offset_of(run.first).saturating_add(within),
            self.boot.bytes_of(run.count).saturating_sub(within),
        ))
    }

    pub(crate) fn read_dir(&self, dir: InodeNumber, cookie: u64) -> Result<Vec<DirEntry>> {
        /// The cookies of the first two; those behind are 3 above the slot of the short entry.
        const DOT: u64 = 1;
        const DOT_DOT: u64 = 2;
        const FIRST: u64 = 3;
        let start = self.start_of(dir)?;
        let directory = self.directory(start)?;
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
            let above = self.number_of(self.above(start)?)?;
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
            entry(&name.shown, self.numbers.of(name.place), file_type, cookie)
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
        let entry = self.file(inode)?;
        let size = u64::from(entry.size.get());
        let mut extents = Vec::new();
        let mut at = offset;
        while at < size {
            let (device_offset, run_bytes) =
                self.stored_at(&entry, at).map_err(|e| e.in_inode(inode))?;
            let len_bytes = run_bytes.min(size.saturating_sub(at));
            extents.push(FileExtent {
                offset: at,
                len_bytes,
                kind: FileExtentKind::Stored { device_offset },
            });
            at = at.saturating_add(len_bytes.max(1));
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

/// The name that `name` finds, and the slot of its short entry.
pub(crate) fn find<'a>(
    directory: &'a Directory,
    name: &[u8],
) -> Option<(u32, &'a crate::directory::Name)> {
    // What is shown with replacement characters is found by them, too.
    match LongName::to_find(name) {
        Some(name) => directory.find(&name.key()),
        None => None,
    }
}
