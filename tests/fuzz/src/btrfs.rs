//! Btrfs filesystems.

use std::sync::Arc;

use diskfs_block::{BlockRead, Result};
use diskfs_btrfs::{Btrfs, Options};
use diskfs_vfs::{FsRead, InodeNumber};

/// The maximum number of files to visit; the fixtures have fewer.
const MAX_FILES: usize = 400;

/// The byte of the superblock, and its length.
const SUPERBLOCK: (u64, usize) = (64 << 10, 4096);

/// The length of a checksum, which structures begin with.
const CHECKSUM_BYTES: usize = 32;

/// The place of the filesystem's UUID in the superblock and in tree blocks.
const FSID: std::ops::Range<usize> = 32..48;

/// Reads the whole tree: metadata, targets, attributes, contents.
pub(crate) fn walk(device: &Arc<dyn BlockRead>) {
    let mut buf = vec![0; 32 << 10];
    visit(device, |fs, inode| {
        for offset in [0, 5000, u64::MAX - 1] {
            let _ = fs.read_at(inode, offset, &mut buf);
        }
    });
}

/// Reads the tree without contents.
pub(crate) fn survey(device: &Arc<dyn BlockRead>) {
    visit(device, |_, _| ());
}

fn visit(device: &Arc<dyn BlockRead>, mut contents: impl FnMut(&Btrfs, InodeNumber)) {
    let _ = diskfs_btrfs::device_info(&**device);
    let sealed = Arc::new(Sealed::new(Arc::clone(device)));
    let Ok(fs) = Btrfs::open(vec![sealed], &Options::default()) else {
        return;
    };
    let _ = (format!("{:?}", fs.identity()), fs.statistics());
    let _ = fs.subvolumes();
    for entry in diskfs_vfs::walk(&fs, fs.root()).take(MAX_FILES).flatten() {
        let _ = fs.read_link(entry.inode);
        let _ = fs.lookup(entry.inode, b"no such name");
        let _ = fs.lookup(entry.inode, b"..");
        let extents = fs.extents_of(entry.inode, 0);
        let _ = extents.map(|extents| extents.take(1000).count());
        for name in fs.list_xattrs(entry.inode).unwrap_or_default() {
            let _ = fs.xattr(entry.inode, &name);
        }
        fs.will_need_metadata(&[entry.inode]);
        contents(&fs, entry.inode);
    }
    // Inode numbers that no name leads to.
    for number in [0, 1, 256, (1 << 47) | 256, 1 << 48, u64::MAX] {
        let _ = fs.metadata(InodeNumber(number));
    }
}

/// A device whose superblock and tree blocks have valid checksums. Otherwise a mutation would get
/// no further than the first checksum.
#[derive(Debug)]
struct Sealed {
    device: Arc<dyn BlockRead>,
    fsid: [u8; 16],
    node_bytes: usize,
}

impl Sealed {
    fn new(device: Arc<dyn BlockRead>) -> Self {
        let mut superblock = vec![0; SUPERBLOCK.1];
        let _ = device.read_at(SUPERBLOCK.0, &mut superblock);
        let node_bytes = u32::from_le_bytes([148, 149, 150, 151].map(|at| superblock[at]));
        Self {
            device,
            fsid: superblock[FSID].try_into().unwrap_or_default(),
            node_bytes: usize::try_from(node_bytes).unwrap_or(0).max(4096),
        }
    }
}

/// Writes the CRC-32C of a structure at its start.
fn seal(bytes: &mut [u8]) {
    let (stored, data) = bytes.split_at_mut(CHECKSUM_BYTES);
    stored[..4].copy_from_slice(&crc32c::crc32c(data).to_le_bytes());
}

impl BlockRead for Sealed {
    fn size_bytes(&self) -> u64 {
        self.device.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.device.read_at(offset, buf)?;
        if offset == SUPERBLOCK.0 && buf.len() == SUPERBLOCK.1 {
            seal(buf);
            return Ok(());
        }
        for block in buf.chunks_exact_mut(self.node_bytes) {
            if block[FSID] == self.fsid {
                seal(block);
            }
        }
        Ok(())
    }
}
