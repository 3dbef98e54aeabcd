//! An area in memory that both sides share.

use std::io;
use std::sync::{Arc, Mutex};

use diskfs_remote::protocol::BULK_AREA_BYTES;
use diskfs_remote::{client, server};

/// The bytes of the area, and the number of accesses.
#[derive(Debug, Clone)]
pub(crate) struct Area(Arc<Mutex<Shared>>);

#[derive(Debug)]
struct Shared {
    bytes: Vec<u8>,
    uses: usize,
}

impl Area {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Shared {
            bytes: vec![0; BULK_AREA_BYTES],
            uses: 0,
        })))
    }

    /// Returns the number of reads and writes since the last call.
    #[allow(dead_code, reason = "not every test asks")]
    pub(crate) fn take_uses(&self) -> usize {
        std::mem::take(&mut self.0.lock().unwrap().uses)
    }

    fn copy(&self, offset: u64, len: usize, copy: impl FnOnce(&mut [u8])) {
        let mut shared = self.0.lock().unwrap();
        shared.uses += 1;
        let offset = usize::try_from(offset).unwrap();
        copy(&mut shared.bytes[offset..offset + len]);
    }

    fn read(&self, offset: u64, to: &mut [u8]) {
        self.copy(offset, to.len(), |bytes| to.copy_from_slice(bytes));
    }

    fn write(&self, offset: u64, from: &[u8]) {
        self.copy(offset, from.len(), |bytes| bytes.copy_from_slice(from));
    }
}

impl client::BulkArea for Area {
    fn read(&self, offset: u64, to: &mut [u8]) -> diskfs_vfs::Result<()> {
        self.read(offset, to);
        Ok(())
    }

    fn write(&self, offset: u64, from: &[u8]) -> diskfs_vfs::Result<()> {
        self.write(offset, from);
        Ok(())
    }
}

impl server::BulkArea for Area {
    fn read(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        check_alignment(offset, to);
        self.read(offset, to);
        Ok(())
    }

    fn write(&self, offset: u64, from: &[u8]) -> io::Result<()> {
        check_alignment(offset, from);
        self.write(offset, from);
        Ok(())
    }
}

/// Checks that offset, address and length are aligned to blocks, as a disk requires.
fn check_alignment(offset: u64, bytes: &[u8]) {
    assert!(offset.is_multiple_of(4096), "{offset}");
    assert!(bytes.len().is_multiple_of(4096), "{}", bytes.len());
    assert!(bytes.as_ptr().addr().is_multiple_of(4096));
}
