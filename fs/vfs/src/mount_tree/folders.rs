//! Directories that are on no device: where several systems or volumes are shown side by side.

use std::collections::BTreeMap;

use crate::{
    DirEntries, DirEntry, Error, ErrorKind, FileExtents, FileFlags, FileType, FsRead, Identity,
    InodeNumber, Metadata, Result, Statistics, Timestamp,
};

/// Nothing but directories, to mount on.
#[derive(Debug)]
pub struct Folders {
    /// The root first.
    folders: Vec<Folder>,
}

#[derive(Debug, Default)]
struct Folder {
    above: usize,
    names: BTreeMap<Vec<u8>, usize>,
}

impl Default for Folders {
    fn default() -> Self {
        Self {
            folders: vec![Folder::default()],
        }
    }
}

impl Folders {
    /// Makes the directories of a path, as far as they aren't there.
    pub fn add(&mut self, path: impl AsRef<[u8]>) {
        let mut at = 0;
        let names = path.as_ref().split(|&byte| byte == b'/');
        for name in names.filter(|name| !matches!(*name, b"" | b"." | b"..")) {
            let next = self.folders.len();
            let Some(folder) = self.folders.get_mut(at) else {
                return;
            };
            let found = *folder.names.entry(name.to_vec()).or_insert(next);
            if found == next {
                self.folders.push(Folder {
                    above: at,
                    names: BTreeMap::new(),
                });
            }
            at = found;
        }
    }

    fn folder(&self, inode: InodeNumber) -> Result<&Folder> {
        let index = usize::try_from(inode.0.wrapping_sub(1)).unwrap_or(usize::MAX);
        let folder = self.folders.get(index);
        folder.ok_or_else(|| Error::from(ErrorKind::NotFound).in_inode(inode))
    }
}

/// They begin at 1.
fn number(index: usize) -> InodeNumber {
    InodeNumber(u64::try_from(index).map_or(0, |index| index.wrapping_add(1)))
}

impl FsRead for Folders {
    fn identity(&self) -> Identity {
        Identity::default()
    }

    fn root(&self) -> InodeNumber {
        number(0)
    }

    fn lookup(&self, dir: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        let folder = self.folder(dir)?;
        match name {
            b"." => Ok(dir),
            b".." => Ok(number(folder.above)),
            name => {
                let found = folder.names.get(name);
                found
                    .map(|&index| number(index))
                    .ok_or_else(|| ErrorKind::NotFound.into())
            }
        }
    }

    fn metadata(&self, inode: InodeNumber) -> Result<Metadata> {
        let folder = self.folder(inode)?;
        let epoch = Timestamp::default();
        Ok(Metadata {
            inode,
            generation: 0,
            file_type: FileType::Directory,
            permissions: 0o755,
            links: u32::try_from(folder.names.len())
                .unwrap_or(u32::MAX)
                .saturating_add(2),
            uid: 0,
            gid: 0,
            size_bytes: 0,
            allocated_bytes: 0,
            accessed: epoch,
            modified: epoch,
            changed: epoch,
            created: None,
            device: None,
            block_size: 4096,
            flags: FileFlags::default(),
        })
    }

    fn read_at(&self, inode: InodeNumber, _offset: u64, _buf: &mut [u8]) -> Result<usize> {
        self.folder(inode)?;
        Err(ErrorKind::IsADirectory.into())
    }

    fn read_dir(&self, dir: InodeNumber, cookie: u64) -> Result<DirEntries<'_>> {
        let folder = self.folder(dir)?;
        let dots = [
            (b".".as_slice(), dir),
            (b"..".as_slice(), number(folder.above)),
        ];
        let names = folder.names.iter();
        let names = names.map(|(name, &index)| (name.as_slice(), number(index)));
        let entries = dots.into_iter().chain(names).zip(1_u64..);
        let entries = entries.map(|((name, inode), cookie)| {
            Ok(DirEntry {
                name: name.to_vec(),
                inode,
                file_type: Some(FileType::Directory),
                cookie,
            })
        });
        let seen = usize::try_from(cookie).unwrap_or(usize::MAX);
        Ok(Box::new(entries.skip(seen)))
    }

    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        self.folder(inode)?;
        Err(ErrorKind::Invalid.into())
    }

    fn xattr(&self, inode: InodeNumber, _name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.folder(inode).map(|_| None)
    }

    fn list_xattrs(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        self.folder(inode).map(|_| Vec::new())
    }

    fn statistics(&self) -> Result<Statistics> {
        Ok(Statistics {
            block_size: 4096,
            allocation_size: 4096,
            name_max: 255,
            ..Statistics::default()
        })
    }

    fn extents_of(&self, inode: InodeNumber, _offset: u64) -> Result<FileExtents<'_>> {
        self.folder(inode)?;
        Err(ErrorKind::IsADirectory.into())
    }
}
