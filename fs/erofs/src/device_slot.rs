//! The device table: one slot for each device besides the primary one.

use std::sync::Arc;

use diskfs_block::{BlockRead, read_within};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::error::{Error, ErrorKind, Result, corrupt, device_failed};
use crate::features::INCOMPAT_48BIT;
use crate::superblock::Superblock;

#[derive(Debug, Clone, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDeviceSlot {
    tag: [u8; 64],
    blocks_lo: U32,
    uniaddr_lo: U32,
    blocks_hi: U16,
    uniaddr_hi: U16,
    reserved: [u8; 52],
}

const _: () = assert!(size_of::<RawDeviceSlot>() == 128);

/// The devices of a filesystem.
#[derive(Debug)]
pub(crate) struct Devices {
    primary: Arc<dyn BlockRead>,
    extra: Vec<ExtraDevice>,
}

/// A device besides the primary one.
#[derive(Debug)]
struct ExtraDevice {
    device: Arc<dyn BlockRead>,
    blocks: u64,
    /// The address of its first byte among those of the primary device; 0 for none.
    start: u64,
    len_bytes: u64,
}

impl Devices {
    /// Reads the device table, for devices that are given in its order.
    ///
    /// # Errors
    /// `Unsupported` if another number of devices is given.
    pub(crate) fn read(
        superblock: &Superblock,
        primary: Arc<dyn BlockRead>,
        given: Vec<Arc<dyn BlockRead>>,
    ) -> Result<Self> {
        if given.len() != usize::from(superblock.extra_devices) {
            let reason = format!(
                "erofs with {} extra devices is not supported, unless they are given",
                superblock.extra_devices
            );
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        let mut extra = Vec::new();
        let mut at = superblock.device_table;
        for device in given {
            extra.push(ExtraDevice::read(superblock, &*primary, at, device)?);
            at = at.saturating_add(128);
        }
        Ok(Self { primary, extra })
    }

    /// Returns the number of blocks of the devices besides the primary one.
    pub(crate) fn extra_blocks(&self) -> u64 {
        let blocks = self.extra.iter().map(|extra| extra.blocks);
        blocks.fold(0, u64::saturating_add)
    }

    /// Returns the device of an address, and the byte there. `number` is 0 for an address among
    /// those of the primary device.
    ///
    /// # Errors
    /// `Corrupt` if there is no such device.
    pub(crate) fn resolve(&self, number: u16, at: u64) -> Result<(&dyn BlockRead, u64)> {
        if let Some(nth) = usize::from(number).checked_sub(1) {
            let Some(extra) = self.extra.get(nth) else {
                let reason = format!("invalid chunk: unknown device {number}");
                return Err(corrupt(reason, at));
            };
            return Ok((&*extra.device, at));
        }
        for extra in self.extra.iter().filter(|extra| extra.start != 0) {
            let offset = at.checked_sub(extra.start);
            if let Some(offset) = offset.filter(|offset| *offset < extra.len_bytes) {
                return Ok((&*extra.device, offset));
            }
        }
        Ok((&*self.primary, at))
    }

    /// Reads bytes of a device.
    ///
    /// # Errors
    /// `Corrupt` if they lie outside of the device.
    pub(crate) fn read_at(&self, number: u16, at: u64, buf: &mut [u8]) -> Result<()> {
        let (device, start) = self.resolve(number, at)?;
        let len = diskfs_block::len_of(buf);
        if diskfs_block::check_bounds(start, len, device.size_bytes()).is_err() {
            let reason = "invalid address: outside of the device";
            return Err(corrupt(reason, start).with_hint("the image may be truncated"));
        }
        device.read_at(start, buf).map_err(device_failed)
    }

    /// Returns true if there is only the primary device.
    pub(crate) fn is_single(&self) -> bool {
        self.extra.is_empty()
    }
}

impl ExtraDevice {
    fn read(
        superblock: &Superblock,
        primary: &dyn BlockRead,
        at: u64,
        device: Arc<dyn BlockRead>,
    ) -> Result<Self> {
        let bytes = read_within(primary, at, size_of::<RawDeviceSlot>()).map_err(device_failed)?;
        let raw = bytes.and_then(|bytes| RawDeviceSlot::read_from_bytes(&bytes).ok());
        let missing = || corrupt("invalid device table: outside of the device", at);
        let raw = raw.ok_or_else(missing)?;
        let is_long = superblock.features.has_incompat(INCOMPAT_48BIT);
        let number = |low: U32, high: U16| {
            let high = if is_long { high.get() } else { 0 };
            u64::from(low.get()) | u64::from(high).wrapping_shl(32)
        };
        let blocks = number(raw.blocks_lo, raw.blocks_hi);
        Ok(Self {
            device,
            blocks,
            start: superblock.byte_of(number(raw.uniaddr_lo, raw.uniaddr_hi)),
            len_bytes: superblock.byte_of(blocks),
        })
    }
}
