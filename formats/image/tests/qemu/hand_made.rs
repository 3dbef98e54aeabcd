//! Images that are built byte by byte, for cases that qemu-img does not produce.

use std::path::Path;

/// Builds an image of version 3 with 64 KiB clusters, whose bytes can be changed.
///
/// Cluster 0 is the header, 1 the refcount table, 2 its block, 3 the L1 table, 4 an L2 table, 5 and
/// 6 data: guest clusters 0 (`0x11`) and 2 (`0x22`).
#[derive(Debug, Clone)]
pub(crate) struct HandMade {
    pub(crate) bytes: Vec<u8>,
}

pub(crate) const CLUSTER: usize = 65536;
pub(crate) const L1: usize = 3 * CLUSTER;
pub(crate) const L2: usize = 4 * CLUSTER;
pub(crate) const DATA: usize = 5 * CLUSTER;
/// The size of the disk: 16 clusters.
pub(crate) const DISK: u64 = 16 * 65536;

impl HandMade {
    pub(crate) fn new() -> Self {
        let mut image = Self {
            bytes: vec![0; 7 * CLUSTER],
        };
        image.bytes[..4].copy_from_slice(b"QFI\xfb");
        image.set32(4, 3);
        image.set32(20, 16);
        image.set64(24, DISK);
        image.set32(36, 1);
        image.set64(40, L1 as u64);
        image.set64(48, CLUSTER as u64);
        image.set32(56, 1);
        image.set32(96, 4);
        image.set32(100, 112);
        image.set64(CLUSTER, 2 * CLUSTER as u64);
        for cluster in 0..7 {
            image.bytes[2 * CLUSTER + cluster * 2 + 1] = 1;
        }
        image.set64(L1, (1 << 63) | L2 as u64);
        image.set64(L2, (1 << 63) | DATA as u64);
        image.set64(L2 + 16, (1 << 63) | (DATA + CLUSTER) as u64);
        image.bytes[DATA..DATA + CLUSTER].fill(0x11);
        image.bytes[DATA + CLUSTER..].fill(0x22);
        image
    }

    pub(crate) fn set32(&mut self, at: usize, value: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn set64(&mut self, at: usize, value: u64) {
        self.bytes[at..at + 8].copy_from_slice(&value.to_be_bytes());
    }

    /// Sets the name of a backing file, stored at byte 4096, and optionally its format.
    pub(crate) fn set_backing(&mut self, name: &str, format: Option<&str>) {
        self.set64(8, 4096);
        self.set32(16, u32::try_from(name.len()).unwrap());
        self.bytes[4096..4096 + name.len()].copy_from_slice(name.as_bytes());
        if let Some(format) = format {
            self.add_extension(0xe279_2aca, format.as_bytes());
        }
    }

    /// Adds a header extension directly after the header, as the only one.
    pub(crate) fn add_extension(&mut self, kind: u32, data: &[u8]) {
        self.set32(112, kind);
        self.set32(116, u32::try_from(data.len()).unwrap());
        self.bytes[120..120 + data.len()].copy_from_slice(data);
    }

    pub(crate) fn write(&self, path: &Path) {
        std::fs::write(path, &self.bytes).unwrap();
    }
}
