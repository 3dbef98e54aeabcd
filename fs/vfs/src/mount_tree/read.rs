//! The read operations of a [`MountTree`].

use std::time::Duration;

use super::{Mount, MountSource, MountTree, OpenedMount, join, split};
use crate::{
    DirEntries, DirEntry, FileAttributes, FileExtents, FileType, FsRead, Identity, InodeNumber,
    Metadata, Result, Statistics,
};

impl MountTree {
    /// Returns the inode number in the tree for an entry of a directory.
    fn listed(
        &self,
        (at, mount, dir): (usize, &OpenedMount, InodeNumber),
        entry: &DirEntry,
    ) -> Result<InodeNumber> {
        if entry.name == b"." {
            return join(at, dir);
        }
        if entry.name == b".." && dir == mount.root {
            return Ok(self.above(at)?.unwrap_or(join(at, dir)?));
        }
        match self.cross(at, entry.inode) {
            Ok(Some(crossed)) => return Ok(crossed),
            Ok(None) => {}
            // The error is reported when the entry itself is accessed.
            Err(_) => {
                let child = mount.mounted_on(entry.inode).unwrap_or(at);
                return join(child, InodeNumber(0));
            }
        }
        self.number(at, entry.inode, || match entry.file_type {
            Some(file_type) => Ok(file_type == FileType::Directory),
            None => Ok(mount.reader().metadata(entry.inode)?.is_dir()),
        })
    }
}

impl FsRead for MountTree {
    fn identity(&self) -> Identity {
        self.opened(0)
            .map(|root| root.reader().identity())
            .unwrap_or_default()
    }

    fn root(&self) -> InodeNumber {
        let root = self.opened(0).map_or(InodeNumber(0), |root| root.root);
        self.cross(0, root).ok().flatten().unwrap_or(root)
    }

    fn lookup(&self, dir: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        let (at, mount, inner) = self.find(dir)?;
        if name == b"." {
            // Fails unless it is a directory.
            mount.reader().lookup(inner, name)?;
            return Ok(dir);
        }
        if name == b".." && inner == mount.root {
            return Ok(self.above(at)?.unwrap_or(dir));
        }
        let found = mount.reader().lookup(inner, name)?;
        if let Some(crossed) = self.cross(at, found)? {
            return Ok(crossed);
        }
        self.number(at, found, || Ok(mount.reader().metadata(found)?.is_dir()))
    }

    fn metadata(&self, inode: InodeNumber) -> Result<Metadata> {
        let (_, mount, inner) = self.find(inode)?;
        let metadata = mount.reader().metadata(inner)?;
        Ok(Metadata { inode, ..metadata })
    }

    fn file_attributes(&self, inode: InodeNumber) -> Result<FileAttributes> {
        let (_, mount, inner) = self.find(inode)?;
        mount.reader().file_attributes(inner)
    }

    /// Returns the granularity of the root filesystem: the tree has only one value.
    fn time_granularity(&self) -> Duration {
        let finest = Duration::from_nanos(1);
        self.opened(0)
            .map_or(finest, |root| root.reader().time_granularity())
    }

    fn read_at(&self, inode: InodeNumber, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let (_, mount, inner) = self.find(inode)?;
        mount.reader().read_at(inner, offset, buf)
    }

    fn read_dir(&self, dir: InodeNumber, cookie: u64) -> Result<DirEntries<'_>> {
        let here = self.find(dir)?;
        let entries = here.1.reader().read_dir(here.2, cookie)?;
        Ok(Box::new(entries.map(move |entry| {
            let entry = entry?;
            let inode = self.listed(here, &entry)?;
            Ok(DirEntry { inode, ..entry })
        })))
    }

    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        let (_, mount, inner) = self.find(inode)?;
        mount.reader().read_link(inner)
    }

    fn xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Option<Vec<u8>>> {
        let (_, mount, inner) = self.find(inode)?;
        mount.reader().xattr(inner, name)
    }

    fn list_xattrs(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        let (_, mount, inner) = self.find(inode)?;
        mount.reader().list_xattrs(inner)
    }

    fn statistics(&self) -> Result<Statistics> {
        self.opened(0)?.reader().statistics()
    }

    fn statistics_at(&self, inode: InodeNumber) -> Result<Statistics> {
        let (_, mount, _) = self.find(inode)?;
        mount.reader().statistics()
    }

    fn mount_of(&self, inode: InodeNumber) -> usize {
        let at = split(inode).0;
        self.opened(at).map_or(at, |mount| mount.owner)
    }

    fn extents_of(&self, inode: InodeNumber, offset: u64) -> Result<FileExtents<'_>> {
        let (_, mount, inner) = self.find(inode)?;
        mount.reader().extents_of(inner, offset)
    }

    /// Returns the path in the root filesystem.
    fn subvolume(&self, id: Option<u64>) -> Result<Vec<u8>> {
        self.opened(0)?.reader().subvolume(id)
    }

    fn has_aliases(&self) -> bool {
        let is_alias = |(index, mount): (usize, &Mount)| match &mount.source {
            MountSource::SameAs(_) => true,
            MountSource::Opened => index > 0,
            MountSource::Open(_) => false,
        };
        self.mounts.iter().enumerate().any(is_alias)
    }

    fn will_need_metadata(&self, inodes: &[InodeNumber]) {
        let mut rest: Vec<(usize, InodeNumber)> =
            inodes.iter().map(|&inode| split(inode)).collect();
        rest.sort_by_key(|(mount, _)| *mount); // Stable: hints of a mount keep their order.
        for of_one in rest.chunk_by(|a, b| a.0 == b.0) {
            let Some(&(mount, _)) = of_one.first() else {
                continue;
            };
            if let Ok(mount) = self.opened(mount) {
                let inner: Vec<InodeNumber> = of_one.iter().map(|(_, inner)| *inner).collect();
                mount.reader().will_need_metadata(&inner);
            }
        }
    }

    fn will_need(&self, inode: InodeNumber, offset: u64, len_bytes: u64) {
        if let Ok((_, mount, inner)) = self.find(inode) {
            mount.reader().will_need(inner, offset, len_bytes);
        }
    }
}
