//! A file of the host as a device.

mod write_back;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{self, Advice, FallocateFlags, FileType, Mode, OFlags, SeekFrom};
use rustix::io::Errno;

use crate::device::len_of;
use crate::{BlockRead, BlockWrite, Error, ErrorKind, Extent, ExtentKind, Result, check_bounds};

/// A regular file or a block device of the host, read and written at positions.
///
/// Opening never blocks: a FIFO, a socket, a character device or a directory is refused.
#[derive(Debug)]
pub struct File {
    fd: OwnedFd,
    path: PathBuf,
    size_bytes: AtomicU64,
    kind: FileKind,
    /// True if [`flush`](BlockWrite::flush) does nothing.
    unflushed: bool,
    /// The bytes written since the host was last told to write them back; `None` if it isn't told.
    written_bytes: Option<AtomicU64>,
}

/// The number of written bytes after which the host is told to write them back.
const WRITE_BACK_BYTES: u64 = 8 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileKind {
    Regular,
    BlockDevice,
}

impl File {
    /// Opens `path` for reading.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::Denied`]; [`ErrorKind::Unsupported`] for any other type
    /// than a regular file or a block device; [`ErrorKind::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path.as_ref(), OFlags::RDONLY)
    }

    /// Opens `path` for reading and writing. The file is neither created nor truncated.
    ///
    /// # Errors
    /// As for [`open`](Self::open), and [`ErrorKind::ReadOnly`].
    pub fn open_read_write(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path.as_ref(), OFlags::RDWR)
    }

    fn open_with(path: &Path, access: OFlags) -> Result<Self> {
        // Non-blocking: otherwise opening a FIFO would wait until another process opens it for
        // writing.
        let flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = fs::open(path, flags, Mode::empty()).map_err(|e| in_file(e, path))?;
        Self::from_fd(fd, path)
    }

    /// Takes over an open file; `path` is used in messages.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn from_fd(fd: OwnedFd, path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let stat = fs::fstat(&fd).map_err(|e| in_file(e, &path))?;
        let (kind, size_bytes) = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => (FileKind::Regular, u64::try_from(stat.st_size).unwrap_or(0)),
            FileType::BlockDevice => {
                let end = fs::seek(&fd, SeekFrom::End(0)).map_err(|e| in_file(e, &path))?;
                (FileKind::BlockDevice, end)
            }
            other => {
                let reason = format!(
                    "is {}, not a regular file or a block device",
                    name_of(other)
                );
                return Err(Error::unsupported(reason).in_file(&path));
            }
        };
        Ok(Self {
            fd,
            path,
            size_bytes: AtomicU64::new(size_bytes),
            kind,
            unflushed: false,
            written_bytes: None,
        })
    }

    /// Makes [`flush`](BlockWrite::flush) do nothing. This is for a new file that is removed unless
    /// it is completed, which is when it is made durable, once.
    #[must_use]
    pub fn unflushed(self) -> Self {
        Self {
            unflushed: true,
            ..self
        }
    }

    /// Lets the host write changes to its disk while more are made, so that little is left for the
    /// next [`flush`](BlockWrite::flush). This is for a file whose parts are written once between
    /// two flushes: what is written twice may go to the disk twice.
    #[must_use]
    pub fn written_back_early(self) -> Self {
        Self {
            written_bytes: Some(AtomicU64::new(0)),
            ..self
        }
    }

    /// Counts written bytes, and tells the host to write them back if they are many.
    fn count_written(&self, bytes: u64) {
        let Some(written) = &self.written_bytes else {
            return;
        };
        let before = written.fetch_add(bytes, Ordering::Relaxed);
        if before < WRITE_BACK_BYTES && before.saturating_add(bytes) >= WRITE_BACK_BYTES {
            write_back::begin(self.as_fd());
            written.store(0, Ordering::Relaxed);
        }
    }

    /// Returns the path by which the file was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true for a block device of the host.
    pub fn is_block_device(&self) -> bool {
        self.kind == FileKind::BlockDevice
    }

    /// Returns the number of bytes that the host has allocated for the file; for a block device,
    /// its size.
    ///
    /// # Errors
    /// [`ErrorKind::Io`].
    pub fn allocated_bytes(&self) -> Result<u64> {
        if self.is_block_device() {
            return Ok(self.size_bytes());
        }
        let stat = fs::fstat(&self.fd).map_err(|e| in_file(e, &self.path))?;
        // st_blocks counts units of 512 bytes on every filesystem (stat(2)).
        Ok(u64::try_from(stat.st_blocks)
            .unwrap_or(0)
            .saturating_mul(512))
    }

    fn advise(&self, offset: u64, len_bytes: u64, advice: Advice) {
        if let Some(len) = std::num::NonZeroU64::new(len_bytes) {
            // This is only advice: if it fails, so does the following read, and that error has a
            // place.
            let _ = fs::fadvise(&self.fd, offset, Some(len), advice);
        }
    }

    fn fallocate(&self, mode: FallocateFlags, offset: u64, len_bytes: u64) -> Result<bool> {
        check_bounds(offset, len_bytes, self.size_bytes())?;
        if len_bytes == 0 {
            return Ok(true);
        }
        match fs::fallocate(
            &self.fd,
            mode | FallocateFlags::KEEP_SIZE,
            offset,
            len_bytes,
        ) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::NODEV) => Ok(false),
            Err(e) => Err(in_file(e, &self.path).at(offset)),
        }
    }
}

fn in_file(e: Errno, path: &Path) -> Error {
    Error::from(e).in_file(path)
}

fn name_of(file_type: FileType) -> &'static str {
    match file_type {
        FileType::Directory => "a directory",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        _ => "something else",
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl BlockRead for File {
    fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Acquire)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_bounds(offset, len_of(buf), self.size_bytes()).map_err(|e| e.in_file(&self.path))?;
        let mut at = offset;
        let mut rest = buf;
        while !rest.is_empty() {
            match rustix::io::pread(&self.fd, &mut *rest, at) {
                Ok(0) => {
                    let reason = "the file became shorter while it was open";
                    return Err(Error::new(ErrorKind::Io, reason).at(at).in_file(&self.path));
                }
                Ok(n) => {
                    rest = rest.get_mut(n..).unwrap_or_default();
                    at = at.saturating_add(u64::try_from(n).unwrap_or(0));
                }
                Err(Errno::INTR) => {}
                Err(e) => return Err(in_file(e, &self.path).at(at)),
            }
        }
        Ok(())
    }

    /// Finds holes by `SEEK_DATA` and `SEEK_HOLE`. A host filesystem without holes reports only
    /// data.
    fn extent_at(&self, offset: u64) -> Result<Extent> {
        check_bounds(offset, 1, self.size_bytes()).map_err(|e| e.in_file(&self.path))?;
        let left = self.size_bytes().saturating_sub(offset);
        let all_data = Ok(Extent {
            len_bytes: left,
            kind: ExtentKind::Data,
        });
        if self.is_block_device() {
            return all_data;
        }
        let (end, kind) = match fs::seek(&self.fd, SeekFrom::Data(offset)) {
            Ok(data) if data > offset => (data, ExtentKind::Zero),
            Ok(_) => match fs::seek(&self.fd, SeekFrom::Hole(offset)) {
                Ok(hole) => (hole, ExtentKind::Data),
                Err(_) => return all_data,
            },
            // ENXIO from SEEK_DATA: no data from here to the end (lseek(2)).
            Err(Errno::NXIO) => (self.size_bytes(), ExtentKind::Zero),
            Err(_) => return all_data,
        };
        let len_bytes = end.saturating_sub(offset).clamp(1, left);
        Ok(Extent { len_bytes, kind })
    }

    fn block_size(&self) -> u32 {
        4096
    }

    fn will_need(&self, offset: u64, len_bytes: u64) {
        self.advise(offset, len_bytes, Advice::WillNeed);
    }
}

impl BlockWrite for File {
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        check_bounds(offset, len_of(buf), self.size_bytes()).map_err(|e| e.in_file(&self.path))?;
        let mut at = offset;
        let mut rest = buf;
        while !rest.is_empty() {
            match rustix::io::pwrite(&self.fd, rest, at) {
                Ok(n) => {
                    rest = rest.get(n..).unwrap_or_default();
                    at = at.saturating_add(u64::try_from(n).unwrap_or(0));
                }
                Err(Errno::INTR) => {}
                Err(Errno::BADF) => {
                    let reason = "opened read-only";
                    return Err(Error::new(ErrorKind::ReadOnly, reason).in_file(&self.path));
                }
                Err(e) => return Err(in_file(e, &self.path).at(at)),
            }
        }
        self.count_written(len_of(buf));
        Ok(())
    }

    fn write_zeroes(&self, offset: u64, len_bytes: u64) -> Result<()> {
        const CHUNK_BYTES: u64 = 1 << 20;
        if self.fallocate(FallocateFlags::ZERO_RANGE, offset, len_bytes)? {
            return Ok(());
        }
        let zeroes = vec![0; usize::try_from(CHUNK_BYTES.min(len_bytes)).unwrap_or(0)];
        let mut done = 0;
        while done < len_bytes {
            let n = CHUNK_BYTES.min(len_bytes.saturating_sub(done));
            let piece = zeroes
                .get(..usize::try_from(n).unwrap_or(0))
                .unwrap_or_default();
            self.write_at(offset.saturating_add(done), piece)?;
            done = done.saturating_add(n);
        }
        Ok(())
    }

    /// Punches a hole, which reads as zeroes, on a block device too.
    fn unmap(&self, offset: u64, len_bytes: u64) -> Result<()> {
        if self.fallocate(FallocateFlags::PUNCH_HOLE, offset, len_bytes)? {
            return Ok(());
        }
        self.write_zeroes(offset, len_bytes)
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.fallocate(FallocateFlags::PUNCH_HOLE, offset, len_bytes)
            .map(|_| ())
    }

    fn flush(&self) -> Result<()> {
        if self.unflushed {
            return Ok(());
        }
        fs::fdatasync(&self.fd).map_err(|e| in_file(e, &self.path))
    }

    fn set_size(&self, size_bytes: u64) -> Result<()> {
        if self.is_block_device() && size_bytes != self.size_bytes() {
            let reason = "cannot resize a block device of the host";
            return Err(Error::unsupported(reason).in_file(&self.path));
        }
        fs::ftruncate(&self.fd, size_bytes).map_err(|e| in_file(e, &self.path))?;
        self.size_bytes.store(size_bytes, Ordering::Release);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(len_bytes: u64) -> tempfile::NamedTempFile {
        let f = tempfile::NamedTempFile::new().unwrap();
        f.as_file().set_len(len_bytes).unwrap();
        f
    }

    #[test]
    fn reads_writes_and_keeps_its_bounds() {
        let host = scratch(10_000);
        let file = File::open_read_write(host.path()).unwrap();
        file.write_at(9_990, &[5; 10]).unwrap();
        file.flush().unwrap();
        assert_eq!(
            file.write_at(9_991, &[5; 10]).unwrap_err().kind(),
            ErrorKind::OutOfBounds
        );
        let reader = File::open(host.path()).unwrap();
        let mut bytes = [0; 20];
        reader.read_at(9_980, &mut bytes).unwrap();
        assert_eq!(bytes[10..], [5; 10]);
        let e = reader.read_at(9_981, &mut bytes).unwrap_err();
        assert_eq!(
            (e.kind(), e.path()),
            (ErrorKind::OutOfBounds, Some(host.path()))
        );
        let e = reader.write_at(0, &[1]).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::ReadOnly);
    }

    #[test]
    fn tells_holes_from_data() {
        let t = scratch(1 << 20);
        let f = File::open_read_write(t.path()).unwrap();
        f.write_at(512 << 10, &[1; 4096]).unwrap();
        let hole = f.extent_at(0).unwrap();
        if hole.kind == ExtentKind::Data {
            return; // A host filesystem without holes.
        }
        assert_eq!((hole.len_bytes, hole.kind), (512 << 10, ExtentKind::Zero));
        assert_eq!(f.extent_at(512 << 10).unwrap().kind, ExtentKind::Data);
        let tail = f.extent_at((1 << 20) - 1).unwrap();
        assert_eq!(
            tail,
            Extent {
                len_bytes: 1,
                kind: ExtentKind::Zero
            }
        );
        assert!(f.extent_at(1 << 20).is_err());
    }

    #[test]
    fn zeroes_and_discards() {
        let t = scratch(1 << 20);
        let f = File::open_read_write(t.path()).unwrap();
        f.write_at(0, &[1; 8192]).unwrap();
        f.write_zeroes(1, 8000).unwrap();
        f.discard(4096, 4096).unwrap();
        let mut b = vec![9; 8192];
        f.read_at(0, &mut b).unwrap();
        assert_eq!((b[0], &b[1..]), (1, &vec![0; 8191][..]));
        assert!(f.write_zeroes(1, 1 << 20).is_err());
        f.write_at(0, &[1; 8192]).unwrap();
        f.unmap(1, 8000).unwrap();
        f.read_at(0, &mut b).unwrap();
        assert_eq!((b[0], &b[1..8001]), (1, &vec![0; 8000][..]));
        assert_eq!(b[8001..], [1; 191]);
        assert!(f.unmap(1, 1 << 20).is_err());
    }

    #[test]
    fn refuses_what_is_no_disk_and_does_not_hang_on_it() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        fs::mknodat(fs::CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let e = File::open(&fifo).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        assert!(e.to_string().contains("is a FIFO"), "{e}");
        assert_eq!(
            File::open(dir.path()).unwrap_err().kind(),
            ErrorKind::Unsupported
        );
        assert_eq!(
            File::open("/dev/zero").unwrap_err().kind(),
            ErrorKind::Unsupported
        );
        assert_eq!(
            File::open(dir.path().join("no")).unwrap_err().kind(),
            ErrorKind::NotFound
        );
    }

    #[test]
    fn grows_and_shrinks() {
        let t = scratch(100);
        let f = File::open_read_write(t.path()).unwrap();
        f.write_at(0, &[1; 100]).unwrap();
        f.set_size(50).unwrap();
        f.set_size(10_000).unwrap();
        let mut b = vec![9; 10_000];
        f.read_at(0, &mut b).unwrap();
        assert_eq!((&b[..50], &b[50..]), (&[1; 50][..], &[0; 9950][..]));
        assert!(f.read_at(1, &mut b).is_err());
    }

    /// Returns the number of extents of a file that the host has not begun to write to its disk, as
    /// far as the host's filesystem tells.
    fn delayed_extents(path: &Path) -> usize {
        let script = "PATH=$PATH:/usr/sbin:/sbin; filefrag -v \"$0\"";
        let mut shell = std::process::Command::new("sh");
        let output = shell.args(["-c", script]).arg(path).output().unwrap();
        let is_missing = output.status.code() == Some(127);
        let is_ci = std::env::var_os("CI").is_some();
        assert!(!is_missing || !is_ci, "filefrag of e2fsprogs is missing");
        let said = String::from_utf8_lossy(&output.stdout);
        said.matches("delalloc").count()
    }

    #[test]
    fn much_is_written_back_before_the_flush() {
        const PIECE_BYTES: usize = 1 << 20;
        let piece = vec![1; PIECE_BYTES];
        let delayed_after = |open: &dyn Fn(&Path) -> File| {
            let host = scratch(WRITE_BACK_BYTES);
            let file = open(host.path());
            for at in (0..WRITE_BACK_BYTES).step_by(PIECE_BYTES) {
                file.write_at(at, &piece).unwrap();
            }
            delayed_extents(host.path())
        };
        let plain = |path: &Path| File::open_read_write(path).unwrap();
        if delayed_after(&plain) == 0 {
            return; // A host filesystem that delays nothing, or does not tell.
        }
        assert_eq!(delayed_after(&|path| plain(path).written_back_early()), 0);
    }

    #[test]
    fn a_file_cut_while_open_is_an_error_with_its_place() {
        let t = scratch(8192);
        let f = File::open(t.path()).unwrap();
        t.as_file().set_len(4096).unwrap();
        let e = f.read_at(0, &mut [0; 8192]).unwrap_err();
        assert_eq!((e.kind(), e.offset()), (ErrorKind::Io, Some(4096)));
    }
}
