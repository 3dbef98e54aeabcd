//! ndb, rpm's own format (rpm, `lib/backend/ndb/rpmpkg.c`): slots with the location of each header,
//! then the headers, each between a head and a tail. Little-endian, in blocks of 16 bytes.

mod blob;
mod header;
mod slot;

use diskfs_block::{BlockRead, Error, Result};

use crate::header::read_package;
use crate::package::Package;
use crate::window::Window;
use blob::HeaderBlob;
use header::Header;
use slot::Slot;

pub(crate) use header::is_ndb;

/// The unit of offsets and lengths in bytes.
const BLOCK_BYTES: u64 = 16;

/// The minimum number of bytes to read at once: enough for most headers.
const READ_BYTES: usize = 4096;

/// An open ndb database.
#[derive(Debug)]
pub(crate) struct Ndb<'d> {
    device: &'d dyn BlockRead,
    header: Header,
}

impl<'d> Ndb<'d> {
    pub(crate) fn open(device: &'d dyn BlockRead) -> Result<Self> {
        let header = Header::read(device)?;
        Ok(Self { device, header })
    }

    pub(crate) fn packages(&self) -> Packages<'_> {
        let blocks = self.device.size_bytes().checked_div(BLOCK_BYTES);
        Packages {
            header: self.header,
            slots: Window::new(self.device, READ_BYTES),
            blobs: Window::new(self.device, READ_BYTES),
            next_slot: slot::FIRST,
            blocks_left: blocks.unwrap_or(0),
        }
    }
}

/// An iterator over the packages of all slots.
#[derive(Debug)]
pub(crate) struct Packages<'a> {
    header: Header,
    slots: Window<'a>,
    blobs: Window<'a>,
    next_slot: u64,
    /// The number of the file's blocks that no header has used. If slots share blocks or overlap,
    /// this number runs out.
    blocks_left: u64,
}

impl Packages<'_> {
    pub(crate) fn next(&mut self) -> Option<Result<Package>> {
        while self.next_slot < self.header.slot_count() {
            let number = self.next_slot;
            self.next_slot = number.saturating_add(1);
            match Slot::read(&mut self.slots, number) {
                Ok(None) => {}
                Ok(Some(slot)) => return Some(self.package(&slot)),
                Err(error) => return Some(Err(error)),
            }
        }
        None
    }

    fn package(&mut self, slot: &Slot) -> Result<Package> {
        let left = self.blocks_left.checked_sub(slot.blocks.into());
        let too_many = || Error::corrupt("headers need more blocks than the whole file has");
        self.blocks_left = left.ok_or_else(|| slot.name_in(&too_many()))?;
        self.header.check(slot)?;
        let package = HeaderBlob::open(&mut self.blobs, slot);
        let package = package.and_then(|mut blob| read_package(&mut blob));
        package.map_err(|error| slot.name_in(&error))
    }
}
