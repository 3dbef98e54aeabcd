//! ndb, rpm's own format (rpm, `lib/backend/ndb/rpmpkg.c`): slots that say where each header is, then the
//! headers, each between a head and a tail. Little-endian, in blocks of 16 bytes.

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

/// What offsets and lengths count.
const BLOCK_BYTES: u64 = 16;

/// Read at once at least: most of what is wanted of a header.
const READ_BYTES: usize = 4096;

/// A database.
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

/// Goes through the slots.
#[derive(Debug)]
pub(crate) struct Packages<'a> {
    header: Header,
    slots: Window<'a>,
    blobs: Window<'a>,
    next_slot: u64,
    /// Of the file's blocks, those that no header has taken: slots that share one, or lie on each other, are
    /// more than the file holds.
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
        let too_many = || Error::corrupt("headers take more than the whole file");
        self.blocks_left = left.ok_or_else(|| slot.name_in(&too_many()))?;
        self.header.check(slot)?;
        let package = HeaderBlob::open(&mut self.blobs, slot);
        let package = package.and_then(|mut blob| read_package(&mut blob));
        package.map_err(|error| slot.name_in(&error))
    }
}
