//! A filesystem with one image in it, which records the writes to the image and when they became
//! durable: all that any program does to a disk.

use std::sync::{Arc, OnceLock};

use diskfs::block::{BlockWrite, Faulty, Memory, WriteLog};
use diskfs::vfs::testing::WritableMemoryFs;
use diskfs::vfs::{
    DirEntries, Error, ErrorKind, Fallocate, FileExtents, FsRead, FsWrite, Identity, InodeNumber,
    Metadata, NewAttributes, NewKind, RenameMode, Result, SetMetadata, SetXattr, Statistics,
    SyncFile,
};

/// The name of the image.
pub(super) const IMAGE: &str = "disk.img";

#[derive(Debug, Default)]
pub(super) struct Tape {
    fs: WritableMemoryFs,
    recording: OnceLock<Recording>,
}

#[derive(Debug)]
struct Recording {
    image: InodeNumber,
    device: Faulty<Memory>,
}

impl Tape {
    /// Starts to record the changes of the image, which contains `bytes`.
    pub(super) fn start(&self, bytes: &[u8]) {
        let image = self.fs.lookup(self.fs.root(), IMAGE.as_bytes());
        let recording = Recording {
            image: image.expect("find the image"),
            device: Faulty::new(Arc::new(Memory::new(bytes)), []),
        };
        self.recording
            .set(recording)
            .expect("start only one recording");
    }

    /// Returns the events since the last call.
    pub(super) fn take(&self) -> WriteLog {
        let recording = self.recording.get().expect("start the recording first");
        recording.device.take_log()
    }

    fn device_of(&self, inode: InodeNumber) -> Option<&Faulty<Memory>> {
        let recording = self.recording.get()?;
        (recording.image == inode).then_some(&recording.device)
    }

    fn flush(&self) -> Result<()> {
        match self.recording.get() {
            Some(recording) => within(recording.device.flush()),
            None => Ok(()),
        }
    }
}

/// The only possible error of the recording device is a request beyond its end.
fn within(result: diskfs::block::Result<()>) -> Result<()> {
    result.map_err(|error| Error::new(ErrorKind::NoSpace, error.to_string()))
}

impl FsRead for Tape {
    fn identity(&self) -> Identity {
        self.fs.identity()
    }

    fn root(&self) -> InodeNumber {
        self.fs.root()
    }

    fn lookup(&self, dir: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        self.fs.lookup(dir, name)
    }

    fn metadata(&self, inode: InodeNumber) -> Result<Metadata> {
        self.fs.metadata(inode)
    }

    fn read_at(&self, inode: InodeNumber, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.fs.read_at(inode, offset, buf)
    }

    fn read_dir(&self, dir: InodeNumber, cookie: u64) -> Result<DirEntries<'_>> {
        self.fs.read_dir(dir, cookie)
    }

    fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>> {
        self.fs.read_link(inode)
    }

    fn xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.fs.xattr(inode, name)
    }

    fn list_xattrs(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>> {
        self.fs.list_xattrs(inode)
    }

    fn statistics(&self) -> Result<Statistics> {
        self.fs.statistics()
    }

    fn extents_of(&self, inode: InodeNumber, offset: u64) -> Result<FileExtents<'_>> {
        self.fs.extents_of(inode, offset)
    }
}

impl FsWrite for Tape {
    fn create(
        &self,
        dir: InodeNumber,
        name: &[u8],
        kind: NewKind<'_>,
        attributes: &NewAttributes,
    ) -> Result<InodeNumber> {
        self.fs.create(dir, name, kind, attributes)
    }

    fn create_unnamed(&self, dir: InodeNumber, attributes: &NewAttributes) -> Result<InodeNumber> {
        self.fs.create_unnamed(dir, attributes)
    }

    fn link(&self, inode: InodeNumber, dir: InodeNumber, name: &[u8]) -> Result<()> {
        self.fs.link(inode, dir, name)
    }

    fn unlink(&self, dir: InodeNumber, name: &[u8]) -> Result<()> {
        self.fs.unlink(dir, name)
    }

    fn rmdir(&self, dir: InodeNumber, name: &[u8]) -> Result<()> {
        self.fs.rmdir(dir, name)
    }

    fn rename(
        &self,
        dir: InodeNumber,
        name: &[u8],
        to_dir: InodeNumber,
        to_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        self.fs.rename(dir, name, to_dir, to_name, mode)
    }

    fn write_at(&self, inode: InodeNumber, offset: u64, data: &[u8]) -> Result<usize> {
        if let Some(device) = self.device_of(inode) {
            within(device.write_at(offset, data))?;
        }
        self.fs.write_at(inode, offset, data)
    }

    fn set_len(&self, inode: InodeNumber, size_bytes: u64) -> Result<()> {
        if self.device_of(inode).is_some() {
            return Err(Error::new(ErrorKind::NotPermitted, "a disk keeps its size"));
        }
        self.fs.set_len(inode, size_bytes)
    }

    fn fallocate(
        &self,
        inode: InodeNumber,
        offset: u64,
        len_bytes: u64,
        what: Fallocate,
    ) -> Result<()> {
        match (self.device_of(inode), what) {
            (None, _) | (_, Fallocate::Allocate | Fallocate::AllocateKeepSize) => {}
            (Some(device), Fallocate::PunchHole) => {
                within(device.discard(offset, len_bytes))?;
            }
            (Some(device), Fallocate::ZeroRange | Fallocate::ZeroRangeKeepSize) => {
                within(device.write_zeroes(offset, len_bytes))?;
            }
            (Some(_), _) => {
                return Err(Error::new(ErrorKind::Unsupported, "a disk keeps its size"));
            }
        }
        self.fs.fallocate(inode, offset, len_bytes, what)
    }

    fn set_metadata(&self, inode: InodeNumber, change: &SetMetadata) -> Result<()> {
        self.fs.set_metadata(inode, change)
    }

    fn set_xattr(
        &self,
        inode: InodeNumber,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<()> {
        self.fs.set_xattr(inode, name, value, how)
    }

    fn remove_xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<()> {
        self.fs.remove_xattr(inode, name)
    }

    fn hold(&self, inode: InodeNumber) {
        self.fs.hold(inode);
    }

    fn release(&self, inode: InodeNumber) -> Result<()> {
        self.fs.release(inode)
    }

    /// The kernel has sent its cached data of the file before it requests this.
    fn sync_file(&self, inode: InodeNumber, what: SyncFile) -> Result<()> {
        if self.device_of(inode).is_some() {
            self.flush()?;
        }
        self.fs.sync_file(inode, what)
    }

    fn sync(&self) -> Result<()> {
        self.flush()?;
        self.fs.sync()
    }

    fn close(&self) -> Result<()> {
        self.fs.close()
    }
}
