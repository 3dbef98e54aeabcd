//! `copy_file_range(2)`: copying between files without passing the contents through the kernel
//! twice.

use diskfs_vfs::{ErrorKind, Fallocate, FileExtentKind, FsWrite, InodeNumber, Result};

use super::super::reading::with_buffer;
use super::write_all;

/// The number of bytes that are copied at once.
const PIECE_BYTES: u64 = 1 << 20;

/// The largest number of bytes per request. A program that asks for more gets a short count and
/// asks again; meanwhile the thread that copies answers nobody else.
const REQUEST_BYTES: u64 = 64 << 20;

/// An offset in a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileOffset {
    pub(super) inode: InodeNumber,
    pub(super) offset: u64,
}

impl FileOffset {
    fn plus(self, len_bytes: u64) -> Self {
        Self {
            offset: self.offset + len_bytes,
            ..self
        }
    }
}

/// Copies `len_bytes`, or less at the end of the file. Holes stay holes, and no extent is shared.
/// Returns the number of copied bytes; after an error, the number copied before it.
pub(super) fn copy(
    fs: &dyn FsWrite,
    from: FileOffset,
    to: FileOffset,
    len_bytes: u64,
) -> Result<u64> {
    let size = fs.metadata(from.inode)?.size_bytes;
    let left = size.saturating_sub(from.offset);
    let len_bytes = len_bytes.min(left).min(REQUEST_BYTES);
    let mut done = 0;
    while done < len_bytes {
        match copy_run(fs, from.plus(done), to.plus(done), len_bytes - done) {
            Ok(0) => break,
            Ok(copied) => done += copied,
            Err(_) if done > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Copies at most up to the end of the current data extent or hole.
fn copy_run(fs: &dyn FsWrite, from: FileOffset, to: FileOffset, len_bytes: u64) -> Result<u64> {
    let run = fs.extents_of(from.inode, from.offset)?.next().transpose()?;
    let Some(run) = run else {
        return Ok(0);
    };
    let len_bytes = len_bytes.min(run.len_bytes);
    if run.kind == FileExtentKind::Hole && make_hole(fs, to, len_bytes)? {
        return Ok(len_bytes);
    }
    let piece = usize::try_from(len_bytes.min(PIECE_BYTES)).unwrap_or_default();
    with_buffer(piece, |buffer| {
        let read = fs.read_at(from.inode, from.offset, buffer)?;
        match write_all(fs, to.inode, to.offset, &buffer[..read]) {
            (0, Err(error)) => Err(error),
            (written, _) => Ok(written as u64),
        }
    })
}

/// Punches a hole. Returns true if that was possible.
fn make_hole(fs: &dyn FsWrite, at: FileOffset, len_bytes: u64) -> Result<bool> {
    let size = fs.metadata(at.inode)?.size_bytes;
    let end = at.offset + len_bytes;
    if at.offset < size {
        match fs.fallocate(at.inode, at.offset, len_bytes, Fallocate::PunchHole) {
            Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(false),
            punched => punched?,
        }
    }
    if end > size {
        fs.set_len(at.inode, end)?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use diskfs_vfs::testing::WritableMemoryFs;
    use diskfs_vfs::{FsRead, NewAttributes, NewKind};

    use super::*;

    #[test]
    fn holes_stay_holes_and_data_stays_where_it_was() {
        let fs = WritableMemoryFs::new();
        let make = |name: &[u8]| {
            let attributes = NewAttributes::for_root(0o644);
            fs.create(fs.root(), name, NewKind::Regular, &attributes)
                .unwrap()
        };
        let (a, b) = (make(b"a"), make(b"b"));
        fs.write_at(a, 8192, &[7; 5000]).unwrap();
        fs.set_len(a, 3 << 20).unwrap();
        fs.write_at(b, 0, &vec![9; 30_000]).unwrap();
        let at = |inode, offset| FileOffset { inode, offset };
        let copied = copy(&fs, at(a, 0), at(b, 4096), 1 << 40).unwrap();
        assert_eq!(copied, 3 << 20);
        let mut found = vec![0; (3 << 20) + 4096];
        assert_eq!(fs.read_at(b, 0, &mut found).unwrap(), found.len());
        let mut wanted = vec![0; found.len()];
        wanted[..4096].fill(9);
        wanted[4096 + 8192..4096 + 8192 + 5000].fill(7);
        assert!(found == wanted);
        assert_eq!(fs.metadata(b).unwrap().allocated_bytes, 3 * 4096);
        assert_eq!(copy(&fs, at(a, 3 << 20), at(b, 0), 1).unwrap(), 0);
    }
}
