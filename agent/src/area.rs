//! The area: memory of the host that this machine sees as a disk.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use diskfs_remote::protocol::BULK_AREA_SERIAL;
use diskfs_remote::server::BulkArea;
use rustix::fs::{Mode, OFlags, open};

use crate::disks;

/// The area, accessed without this kernel's page cache: each access is a request to the disk, and
/// the host copies directly from and to the buffer.
#[derive(Debug)]
pub(crate) struct DiskArea(File);

impl DiskArea {
    /// Finds the area, if this machine has one.
    pub(crate) fn find() -> Option<Self> {
        let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
        let disk = open(disks::by_serial(BULK_AREA_SERIAL)?, flags, Mode::empty()).ok()?;
        Some(Self(File::from(disk)))
    }
}

impl BulkArea for DiskArea {
    fn read(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(to, offset)
    }

    fn write(&self, offset: u64, from: &[u8]) -> io::Result<()> {
        self.0.write_all_at(from, offset)
    }
}
