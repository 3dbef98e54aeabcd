//! The metadata of an image, found by its magic, and changes of it with a valid checksum.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Memory, Overlay};
use diskfs_fixtures::image;

/// A structure in an image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Structure {
    pub(crate) offset: usize,
    pub(crate) len: usize,
    /// The offset of the checksum, which version 4 has not.
    crc: Option<usize>,
}

/// An image with the places of its metadata.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) bytes: Vec<u8>,
    device: Arc<Memory>,
    pub(crate) structures: Vec<Structure>,
    block: usize,
    directory_block: usize,
    inode: usize,
    has_checksums: bool,
}

impl Image {
    /// Loads a fixture.
    pub(crate) fn of(name: &str) -> Self {
        let bytes = std::fs::read(image(name).path()).unwrap();
        let be = |at: usize, len: usize| {
            let number = &bytes[at..at + len];
            number
                .iter()
                .fold(0, |n: usize, byte| n << 8 | usize::from(*byte))
        };
        let mut image = Self {
            block: be(4, 4),
            directory_block: be(4, 4) << be(192, 1),
            inode: be(104, 2),
            has_checksums: be(101, 1) & 0xf == 5,
            device: Arc::new(Memory::new(bytes.clone())),
            bytes,
            structures: Vec::new(),
        };
        let offsets = (0..image.bytes.len()).step_by(256);
        image.structures = offsets
            .filter_map(|offset| image.structure(offset))
            .collect();
        assert!(image.structures.len() > 10, "{name}");
        image
    }

    fn structure(&self, offset: usize) -> Option<Structure> {
        let magic: [u8; 4] = self.bytes[offset..offset + 4].try_into().unwrap();
        let (crc, lens) = match &magic {
            b"XFSB" => (224, [512, 512]),
            b"XAGF" => (216, [512, 512]),
            b"XAGI" => (312, [512, 512]),
            [b'I', b'N', ..] if offset.is_multiple_of(self.inode) => (100, [self.inode; 2]),
            b"XDB3" | b"XDD3" | b"XD2B" | b"XD2D" => (4, [self.directory_block; 2]),
            b"BMA3" | b"BMAP" => (64, [self.block; 2]),
            b"AB3B" | b"ABTB" | b"IAB3" | b"IABT" => (52, [self.block; 2]),
            b"XSLM" | b"XARM" => (12, [self.block, 2 * self.block]),
            _ => match self.bytes[offset + 8..offset + 10] {
                [0x3d, 0xf1 | 0xff] | [0x3e, 0xbe] | [0x3b, 0xee] => {
                    (12, [self.block, self.directory_block])
                }
                [0xd2, 0xf1 | 0xff] | [0xfe, 0xbe] | [0xfb, 0xee] => (12, [self.block; 2]),
                _ => return None,
            },
        };
        lens.into_iter().find_map(|len| {
            let structure = Structure {
                offset,
                len,
                crc: self.has_checksums.then_some(crc),
            };
            let bytes = self.bytes.get(offset..offset + len)?;
            let valid = structure
                .crc
                .is_none_or(|crc| bytes[crc..crc + 4] == checksum(bytes, crc).to_le_bytes());
            valid.then_some(structure)
        })
    }

    /// Returns the structures that start with these bytes.
    pub(crate) fn with_magic(&self, magic: &[u8]) -> impl Iterator<Item = Structure> {
        let all = self.structures.iter().copied();
        all.filter(move |found| self.bytes[found.offset..].starts_with(magic))
    }

    /// Returns the image with one structure changed; its checksum fits the change.
    pub(crate) fn changed(
        &self,
        structure: Structure,
        change: impl FnOnce(&mut [u8]),
    ) -> Arc<dyn BlockRead> {
        let mut bytes = self.bytes[structure.offset..structure.offset + structure.len].to_vec();
        change(&mut bytes);
        if let Some(crc) = structure.crc {
            let sum = checksum(&bytes, crc);
            bytes[crc..crc + 4].copy_from_slice(&sum.to_le_bytes());
        }
        self.patched(structure.offset, &bytes)
    }

    /// Returns the image with other bytes at an offset.
    pub(crate) fn patched(&self, offset: usize, bytes: &[u8]) -> Arc<dyn BlockRead> {
        let overlay = Overlay::in_memory(self.device.clone(), 1 << 20);
        overlay.write_at(offset as u64, bytes).unwrap();
        Arc::new(overlay)
    }

    /// Returns the first bytes of the image.
    pub(crate) fn cut(&self, len: usize) -> Arc<dyn BlockRead> {
        Arc::new(Memory::new(&self.bytes[..len]))
    }
}

/// CRC-32C with the checksum's own bytes as zero.
fn checksum(bytes: &[u8], crc: usize) -> u32 {
    let mut copy = bytes.to_vec();
    copy[crc..crc + 4].fill(0);
    crc32c::crc32c(&copy)
}
