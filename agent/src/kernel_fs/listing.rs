//! Directory listings with the metadata of the entries.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use diskfs_remote::server::{Listed, ListedEntries};
use diskfs_vfs::{DirEntry, ErrorKind, FileType, InodeNumber, Metadata, Result};
use rustix::fs::{Mode, OFlags, RawDir, SeekFrom, openat, seek};

use super::KernelFs;
use super::errors::failed;
use super::node::Node;

/// The size of the buffer for getdents; about 1000 entries.
const BUFFER_BYTES: usize = 32 << 10;

/// A listing in progress.
struct Listing<'f> {
    fs: &'f KernelFs,
    dir: InodeNumber,
    node: Arc<Node>,
    fd: OwnedFd,
    batch: std::vec::IntoIter<(CString, u64)>,
    is_over: bool,
}

impl KernelFs {
    pub(super) fn listing(&self, dir: InodeNumber, cookie: u64) -> Result<ListedEntries<'_>> {
        let open = self.open();
        let node = open.node(dir)?;
        if node.file_type()? != FileType::Directory {
            return Err(ErrorKind::NotADirectory.into());
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(node.fd(), c".", flags, Mode::empty()).map_err(failed)?;
        if cookie != 0 {
            seek(&fd, SeekFrom::Start(cookie)).map_err(failed)?;
        }
        Ok(Box::new(Listing {
            fs: self,
            dir,
            node,
            fd,
            batch: Vec::new().into_iter(),
            is_over: false,
        }))
    }
}

impl Listing<'_> {
    fn next_listed(&mut self) -> Result<Option<Listed>> {
        loop {
            let Some((name, cookie)) = self.batch.next() else {
                self.batch = read_batch(&self.fd)?.into_iter();
                if self.batch.as_slice().is_empty() {
                    return Ok(None);
                }
                continue;
            };
            match self.list(&name, cookie) {
                // The entry was removed after it was listed.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                // Another filesystem is mounted on the entry.
                Err(error) if error.kind() == ErrorKind::CrossesDevices => {}
                listed => return listed.map(Some),
            }
        }
    }

    fn list(&self, name: &CStr, cookie: u64) -> Result<Listed> {
        let open = self.fs.open();
        let inodes = open.inodes()?;
        let (inode, metadata) = match name.to_bytes() {
            b"." => (self.dir, None),
            b".." if self.dir == inodes.root() => (self.dir, None),
            b".." => (inodes.lookup(&self.node, name)?.inode, None),
            _ => {
                let metadata = inodes.lookup(&self.node, name)?;
                (metadata.inode, Some(metadata))
            }
        };
        let of_metadata = |metadata: &Metadata| metadata.file_type;
        let entry = DirEntry {
            name: name.to_bytes().to_vec(),
            inode,
            file_type: Some(metadata.as_ref().map_or(FileType::Directory, of_metadata)),
            cookie,
        };
        Ok((entry, metadata))
    }
}

/// Reads the next entries: names, each with the cookie of the next entry.
fn read_batch(fd: &OwnedFd) -> Result<Vec<(CString, u64)>> {
    let mut buffer = vec![MaybeUninit::uninit(); BUFFER_BYTES];
    let mut entries = RawDir::new(fd, &mut buffer);
    let mut batch = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(failed)?;
        batch.push((entry.file_name().to_owned(), entry.next_entry_cookie()));
        if entries.is_buffer_empty() {
            break;
        }
    }
    Ok(batch)
}

impl Iterator for Listing<'_> {
    type Item = Result<Listed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.next_listed().transpose();
        self.is_over = !matches!(next, Some(Ok(_)));
        next
    }
}
