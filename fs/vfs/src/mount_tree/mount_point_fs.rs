//! Directories in memory that serve as mount points when several systems or volumes are shown side
//! by side.

use std::collections::BTreeMap;

use crate::{
    DirEntries, DirEntry, Error, ErrorKind, FileExtents, FileFlags, FileType, FsRead, Identity,
    InodeNumber, Metadata, Result, Statistics, Timestamp,
};

/// A filesystem in memory with only directories, to mount on.
#[derive(Debug)]
pub struct MountPointFs {
    /// The directories, the root first.
    dirs: Vec<MountPointDir>,
}

#[derive(Debug, Default)]
struct MountPointDir {
    above: usize,
    names: BTreeMap<Vec<u8>, usize>,
}

impl Default for MountPointFs {
    fn default() -> Self {
        Self {
            dirs: vec![MountPointDir::default()],
        }
    }
}

impl MountPointFs {
    /// Creates the missing directories of a path.
    pub fn add(&mut self, path: impl AsRef<[u8]>) {
        let mut at = 0;
        let names = path.as_ref().split(|&byte| byte == b'/');
        for name in names.filter(|name| !matches!(*name, b"" | b"." | b"..")) {
            let next = self.dirs.len();
            let Some(directory) = self.dirs.get_mut(at) else {
                return;
            };
            let found = *directory.names.entry(name.to_vec()).or_insert(next);
            if found == next {
                self.dirs.push(MountPointDir {
                    above: at,
                    names: BTreeMap::new(),
                });
            }
            at = found;
        }
    }

    fn directory(&self, inode: InodeNumber) -> Result<&MountPointDir> {
        let index = usize::try_from(inode.0.wrapping_sub(1)).unwrap_or(usize::MAX);
        let directory = self.dirs.get(index);
        directory.ok_or_else(|| Error::from(ErrorKind::NotFound).in_inode(inode))
    }
}

/// Returns the inode number of a directory. Numbers start at 1.
fn number(index: usize) -> InodeNumber {
    InodeNumber(u64::try_from(index).map_or(0, |index| index.wrapping_add(1)))
}

impl FsRead for MountPointFs {
    fn identity(&self) -> Identity {
        Identity::default()
    }

    fn root(&self) -> InodeNumber {
        number(0)
    }

    fn lookup(&self, dir: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        let directory = self.directory(dir)?;
        match name {
            b"." => Ok(dir),
            b".." => Ok(number(directory.above)),
            name => {
                let found = directory.names.get(name);
                found
                    .map(|&index| number(index))
                    .ok_or_else(|| ErrorKind::NotFound.into())
            }
        }
    }

    fn metadata(&self, inode: InodeNumber) -> Result<Metadata> {
        let directory = self.directory(inode)?;
        let epoch = Timestamp::default();
        Ok(Metadata {
            inode,
            generation: 0,
            file_type: FileType::Directory,
            permissions: 0o755,
            links: u32::try_from(directory.names.len())
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
        self.directory(inode)?;
        Err(ErrorKind::IsADirectory.into())
    }

    fn read_dir(&self, dir: InodeNumber, cookie: u64) -> Result<DirEntries<'_>> {
        let directory = self.directory(dir)?;
        let dots = [
            (b".".as_slice(), dir),
            (b"..".as_slice(), number(directory.above)),
        ];
        let names = directory.names.iter();
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
        self.directory(inode)?;
        Err(ErrorKind::Invalid.into())
    }

    fn xattr(&self, inode: InodeNumber, _name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.directory(inode).map(|_| None)
    }

    fn list_xattrs(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        self.directory(inode).map(|_| Vec::new())
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
        self.directory(inode)?;
        Err(ErrorKind::IsADirectory.into())
    }
}
