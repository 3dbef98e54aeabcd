//! The checksums of an ext4 filesystem with `metadata_csum`.
//!
//! A mutation gets no further than the first wrong checksum, so those of all structures that a
//! reader checks are corrected. Source: kernel documentation, "ext4 Data Structures and
//! Algorithms", section "Checksums".

use diskfs_block::BlockRead;

use crate::Sparse;

/// The maximum number of inodes to seal.
const MAX_INODES: u64 = 4096;

/// The maximum number of blocks to seal: directories, extent trees, attributes.
const MAX_BLOCKS: usize = 600;

/// The offset of the superblock, and its length without its checksum.
const SUPERBLOCK: (u64, u64) = (1024, 0x3fc);

/// The places of the structures with checksums: offset and length in bytes.
pub type Places = Vec<(u64, u64)>;

/// Corrects the checksums, if the filesystem has them. Returns the places of the structures.
pub fn seal(image: &mut Sparse) -> Places {
    let Some(mut sealing) = Sealing::new(image) else {
        return Vec::new();
    };
    sealing.groups();
    sealing.superblock();
    sealing.places
}

/// Returns the checksum of `bytes`, continued from `seed`, without inversions.
fn crc(seed: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!seed, bytes)
}

/// Returns the CRC-16 (polynomial 0x8005, reflected) of `bytes`, continued from `sum`.
fn crc16(sum: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(sum, |sum, &byte| {
        (0..8).fold(sum ^ u16::from(byte), |sum, _| {
            (sum >> 1) ^ (0xa001 * (sum & 1))
        })
    })
}

/// The filesystem, as far as the places of its checksums depend on it.
#[derive(Debug)]
struct Sealing<'a> {
    image: &'a mut Sparse,
    has_checksums: bool,
    /// True if only the group descriptors have checksums.
    has_crc16: bool,
    uuid: [u8; 16],
    seed: u32,
    block_bytes: u64,
    places: Places,
    blocks: usize,
}

/// The owner of a block, and its seed.
#[derive(Debug, Clone, Copy)]
struct Owner {
    seed: u32,
    is_directory: bool,
}

impl<'a> Sealing<'a> {
    fn new(image: &'a mut Sparse) -> Option<Self> {
        let field = |at: u64| u64_of(image, 1024 + at, 4);
        if u64_of(image, 1080, 2) != 0xef53 {
            return None;
        }
        let mut uuid = [0; 16];
        image.read_at(1024 + 0x68, &mut uuid).ok()?;
        let has_seed = field(0x60) & 0x2000 != 0;
        let seed = if has_seed {
            u32::try_from(field(0x270)).unwrap_or(0)
        } else {
            crc(u32::MAX, &uuid)
        };
        Some(Self {
            seed,
            has_checksums: field(0x64) & 0x400 != 0,
            has_crc16: field(0x64) & 0x410 == 0x10,
            uuid,
            block_bytes: 1024 << field(0x18).min(6),
            image,
            places: Vec::new(),
            blocks: 0,
        })
    }

    fn superblock_field(&self, at: u64, len: u64) -> u64 {
        u64_of(self.image, 1024 + at, len)
    }

    fn bytes(&self, at: u64, len: u64) -> Option<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(len).ok()?];
        self.image.read_at(at, &mut bytes).ok()?;
        Some(bytes)
    }

    fn set(&mut self, at: u64, bytes: &[u8]) {
        if self.has_checksums {
            self.image.write(at, bytes);
        }
    }

    fn superblock(&mut self) {
        let (at, len) = SUPERBLOCK;
        self.places.push((at, len));
        if let Some(bytes) = self.bytes(at, len) {
            self.set(at + len, &crc(u32::MAX, &bytes).to_le_bytes());
        }
    }

    /// Seals the descriptors of all groups, and their inodes. The blocks of descriptors of `meta_bg`
    /// are elsewhere; these filesystems have a superblock with a checksum only.
    fn groups(&mut self) {
        let incompat = self.superblock_field(0x60, 4);
        let per_group = self.superblock_field(0x28, 4);
        if incompat & 0x10 != 0 || per_group == 0 {
            return;
        }
        let is_64bit = incompat & 0x80 != 0;
        let len = if is_64bit {
            self.superblock_field(0xfe, 2).clamp(32, 1024)
        } else {
            32
        };
        let table = (self.superblock_field(0x14, 4) + 1).saturating_mul(self.block_bytes);
        let inodes = self.superblock_field(0, 4).min(MAX_INODES);
        for group in 0..inodes.div_ceil(per_group) {
            let at = table.saturating_add(group * len);
            let Some(descriptor) = self.bytes(at, len) else {
                return;
            };
            self.descriptor(at, group, &descriptor);
            let high = if len >= 64 {
                number(&descriptor, 0x28, 4)
            } else {
                0
            };
            let inode_table = (high << 32) | number(&descriptor, 8, 4);
            let first = group * per_group + 1;
            for index in 0..per_group.min(inodes - first + 1) {
                self.inode(inode_table, index, first + index);
            }
        }
    }

    fn descriptor(&mut self, at: u64, group: u64, descriptor: &[u8]) {
        self.places.push((at, descriptor.len() as u64));
        let group = u32::try_from(group).unwrap_or(0);
        let mut bytes = descriptor.to_vec();
        if self.has_crc16 {
            let uuid = self.uuid;
            let parts = [
                &uuid[..],
                &group.to_le_bytes(),
                &bytes[..0x1e],
                &bytes[0x20..],
            ];
            let sum = parts.iter().fold(u16::MAX, |sum, part| crc16(sum, part));
            self.image.write(at + 0x1e, &sum.to_le_bytes());
        }
        bytes[0x1e..0x20].fill(0);
        let sum = crc(crc(self.seed, &group.to_le_bytes()), &bytes);
        self.set(at + 0x1e, &sum.to_le_bytes()[..2]);
    }

    fn inode(&mut self, table: u64, index: u64, inode: u64) {
        let len = match self.superblock_field(0x4c, 4) {
            0 => 128,
            _ => self.superblock_field(0x58, 2).clamp(128, self.block_bytes),
        };
        let at = table
            .saturating_mul(self.block_bytes)
            .saturating_add(index * len);
        let Some(mut bytes) = self.bytes(at, len) else {
            return;
        };
        if bytes.iter().all(|byte| *byte == 0) {
            return;
        }
        self.places.push((at, len));
        let inode = u32::try_from(inode).unwrap_or(0);
        let seed = crc(crc(self.seed, &inode.to_le_bytes()), &bytes[0x64..0x68]);
        let has_high = len > 128 && number(&bytes, 0x80, 2) >= 4;
        let owner = Owner {
            seed,
            is_directory: number(&bytes, 0, 2) & 0xf000 == 0x4000,
        };
        self.data(owner, &bytes);
        self.attributes(&bytes);
        bytes[0x7c..0x7e].fill(0);
        if has_high {
            bytes[0x82..0x84].fill(0);
        }
        let sum = crc(seed, &bytes).to_le_bytes();
        self.set(at + 0x7c, &sum[..2]);
        if has_high {
            self.set(at + 0x82, &sum[2..]);
        }
    }

    /// Seals the extent tree of an inode, and the blocks of a directory.
    fn data(&mut self, owner: Owner, inode: &[u8]) {
        let flags = number(inode, 0x20, 4);
        if flags & 0x1000_0000 != 0 {
            // The contents are in the inode.
        } else if flags & 0x8_0000 != 0 {
            self.extents(owner, &inode[0x28..0x64], 5);
        } else if owner.is_directory {
            for pointer in 0..12 {
                let block = number(inode, 0x28 + pointer * 4, 4);
                if block != 0 {
                    self.directory(owner, block);
                }
            }
        }
    }

    /// Seals what a node of an extent tree refers to.
    fn extents(&mut self, owner: Owner, node: &[u8], depth_left: u32) {
        let entries = usize::try_from(number(node, 2, 2)).unwrap_or(0);
        let is_leaf = number(node, 6, 2) == 0;
        for entry in node[12..].chunks_exact(12).take(entries) {
            if is_leaf {
                let start = (number(entry, 6, 2) << 32) | number(entry, 8, 4);
                for block in 0..number(entry, 4, 2).min(64) {
                    if owner.is_directory {
                        self.directory(owner, start + block);
                    }
                }
            } else if depth_left > 0 {
                let block = (number(entry, 8, 2) << 32) | number(entry, 4, 4);
                self.extent_block(owner, block, depth_left - 1);
            }
        }
    }

    fn extent_block(&mut self, owner: Owner, block: u64, depth_left: u32) {
        let Some((at, node)) = self.block(block) else {
            return;
        };
        self.extents(owner, &node, depth_left);
        let tail = 12 + 12 * number(&node, 4, 2);
        if let Some(covered) = node.get(..usize::try_from(tail).unwrap_or(usize::MAX))
            && tail + 4 <= self.block_bytes
        {
            let sum = crc(owner.seed, covered);
            self.set(at + tail, &sum.to_le_bytes());
        }
    }

    /// Returns the offset of a block and its bytes, until there were too many.
    fn block(&mut self, block: u64) -> Option<(u64, Vec<u8>)> {
        self.blocks += 1;
        let at = block.checked_mul(self.block_bytes)?;
        if self.blocks > MAX_BLOCKS {
            return None;
        }
        let bytes = self.bytes(at, self.block_bytes)?;
        self.places.push((at, self.block_bytes));
        Some((at, bytes))
    }

    /// Seals a block of a directory: the tail of a linear block, or that of an index node.
    fn directory(&mut self, owner: Owner, block: u64) {
        let Some((at, bytes)) = self.block(block) else {
            return;
        };
        let end = bytes.len() - 12;
        if bytes[end..end + 8] == *b"\0\0\0\0\x0c\0\0\xde" {
            let sum = crc(owner.seed, &bytes[..end]);
            self.set(at + end as u64 + 8, &sum.to_le_bytes());
            return;
        }
        let limit_at = match number(&bytes, 4, 2) {
            12 => 32,
            _ => 8,
        };
        let limit = usize::try_from(number(&bytes, limit_at, 2)).unwrap_or(0);
        let count = usize::try_from(number(&bytes, limit_at + 2, 2)).unwrap_or(0);
        let (covered, tail) = (limit_at + count * 8, limit_at + limit * 8);
        if let (Some(covered), Some(tail_bytes)) = (bytes.get(..covered), bytes.get(tail..tail + 8))
        {
            let mut sum = crc(owner.seed, covered);
            sum = crc(crc(sum, &tail_bytes[..4]), &[0; 4]);
            self.set(at + tail as u64 + 4, &sum.to_le_bytes());
        }
    }

    /// Seals the block of extended attributes of an inode.
    fn attributes(&mut self, inode: &[u8]) {
        let block = (number(inode, 0x76, 2) << 32) | number(inode, 0x68, 4);
        if block == 0 {
            return;
        }
        let Some((at, mut bytes)) = self.block(block) else {
            return;
        };
        bytes[0x10..0x14].fill(0);
        let sum = crc(crc(self.seed, &block.to_le_bytes()), &bytes);
        self.set(at + 0x10, &sum.to_le_bytes());
    }
}

fn u64_of(image: &Sparse, at: u64, len: u64) -> u64 {
    let bytes = (0..len).rev().map(|n| image.byte(at + n));
    bytes.fold(0, |value, byte| (value << 8) | u64::from(byte))
}

fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    let bytes = bytes.get(at..at + len).unwrap_or_default();
    let bytes = bytes.iter().rev();
    bytes.fold(0, |value, byte| (value << 8) | u64::from(*byte))
}
