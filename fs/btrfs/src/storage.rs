//! Reads of logical addresses: chunks mapped to devices, with all copies that there are.

mod rebuild;

use std::sync::Arc;

use crate::bytes::{index, len_u64};
use crate::chunk::{Chunk, Stripe};
use crate::chunk_map::ChunkMap;
use crate::device_set::{DeviceSet, Member};
use crate::error::{Error, ErrorKind, Result, corrupt_at};
use crate::logical::Logical;
use crate::placement::Placement;

/// The largest number of ways to read a piece of RAID6. Each reads a whole row.
const MAX_REBUILDS: usize = 34;

/// The devices of a filesystem, and the chunks on them.
#[derive(Debug)]
pub(crate) struct Storage {
    pub(crate) devices: DeviceSet,
    pub(crate) chunks: ChunkMap,
}

/// The place of a copy: a device and a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DevicePlace {
    /// The index among the present devices.
    pub(crate) member: usize,
    pub(crate) offset: u64,
}

impl Storage {
    /// Returns the number of ways to read an address: its copies, and those from parity.
    pub(crate) fn copies(&self, logical: Logical) -> Result<usize> {
        let chunk = self.chunks.find(logical, 1)?;
        let placement = chunk.place(logical.since(chunk.start));
        Ok(match placement.row {
            // The piece itself, with the others, and with each other piece presumed wrong.
            Some(row) if row.parity > 1 => row.stripes().saturating_add(1).min(MAX_REBUILDS),
            Some(_) => 2,
            None => placement.copies,
        })
    }

    /// Returns the place of the first copy, if that is on a present device, and the length of its
    /// contiguous run.
    pub(crate) fn place(&self, logical: Logical) -> Result<(Option<DevicePlace>, u64)> {
        let chunk = self.chunks.find(logical, 1)?;
        let placement = chunk.place(logical.since(chunk.start));
        let place = self.place_of(chunk, placement.stripe, placement.offset);
        Ok((place.ok(), placement.len_bytes))
    }

    /// Fills `buf` from one copy of the addresses from `logical` on, which must be in one chunk.
    /// Returns the byte of the device where the first byte is.
    pub(crate) fn read_copy(&self, logical: Logical, buf: &mut [u8], copy: usize) -> Result<u64> {
        let mut place = None;
        self.each_piece(logical, buf, |chunk, placement, piece| {
            let at = self.read_piece(chunk, placement, piece, copy)?;
            place.get_or_insert(at);
            Ok(())
        })?;
        Ok(place.unwrap_or(0))
    }

    /// Fills `buf` from any copies that can be read.
    pub(crate) fn read_any(&self, logical: Logical, buf: &mut [u8]) -> Result<()> {
        let copies = self.copies(logical)?;
        self.each_piece(logical, buf, |chunk, placement, piece| {
            let mut first = None;
            for copy in 0..copies {
                match self.read_piece(chunk, placement, piece, copy) {
                    Ok(_) => return Ok(()),
                    Err(error) => first = first.or(Some(error)),
                }
            }
            Err(first.unwrap_or_else(|| no_copy(logical)))
        })
    }

    /// Calls `read` for each piece of `buf` that is contiguous on a device.
    fn each_piece(
        &self,
        logical: Logical,
        buf: &mut [u8],
        mut read: impl FnMut(&Chunk, &Placement, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let chunk = Arc::clone(self.chunks.find(logical, len_u64(buf.len()))?);
        let mut offset = logical.since(chunk.start);
        let mut rest = buf;
        while !rest.is_empty() {
            let placement = chunk.place(offset);
            let len = index(placement.len_bytes).min(rest.len());
            let Some((piece, after)) = rest.split_at_mut_checked(len).filter(|_| len > 0) else {
                return Err(no_copy(logical));
            };
            read(&chunk, &placement, piece)?;
            offset = offset.saturating_add(len_u64(len));
            rest = after;
        }
        Ok(())
    }

    fn read_piece(
        &self,
        chunk: &Chunk,
        placement: &Placement,
        piece: &mut [u8],
        copy: usize,
    ) -> Result<u64> {
        if copy > 0
            && let Some(row) = placement.row
        {
            return self.rebuild(chunk, placement, row, piece, copy);
        }
        if copy >= placement.copies {
            return Err(no_copy(chunk.start));
        }
        let stripe = placement.stripe.saturating_add(copy);
        let place = self.place_of(chunk, stripe, placement.offset)?;
        self.member(place)?.read(place.offset, piece)?;
        Ok(place.offset)
    }

    /// Returns the place of a byte of a stripe.
    fn place_of(&self, chunk: &Chunk, stripe: usize, offset: u64) -> Result<DevicePlace> {
        let stripe = chunk
            .stripes
            .get(stripe)
            .ok_or_else(|| no_copy(chunk.start))?;
        let position = self.devices.position(stripe.devid, stripe.dev_uuid);
        Ok(DevicePlace {
            member: position.ok_or_else(|| missing_device(stripe))?,
            offset: stripe.offset.saturating_add(offset),
        })
    }

    /// Announces reads of a range of addresses within one chunk.
    pub(crate) fn will_need(&self, logical: Logical, len_bytes: u64) -> Result<()> {
        let chunk = self.chunks.find(logical, len_bytes)?;
        let mut offset = logical.since(chunk.start);
        let end = offset.saturating_add(len_bytes);
        while offset < end {
            let placement = chunk.place(offset);
            let len = placement.len_bytes.min(end.saturating_sub(offset)).max(1);
            if let Ok(place) = self.place_of(chunk, placement.stripe, placement.offset) {
                self.member(place)?.device.will_need(place.offset, len);
            }
            offset = offset.saturating_add(len);
        }
        Ok(())
    }

    pub(crate) fn member(&self, place: DevicePlace) -> Result<&Member> {
        let member = self.devices.members.get(place.member);
        member.ok_or_else(|| Error::new(ErrorKind::Io, "missing device of btrfs"))
    }
}

/// Returns the error for an address that no device has.
pub(crate) fn no_copy(logical: Logical) -> Error {
    corrupt_at("invalid address of btrfs: it has no copy", logical)
}

/// Returns the error for a stripe on a device that is not present.
fn missing_device(stripe: &Stripe) -> Error {
    let uuid = crate::bytes::uuid_text(stripe.dev_uuid);
    let reason = format!("missing device {} of btrfs (UUID {uuid})", stripe.devid);
    let hint = "open the filesystem with all of its devices; on the command line, use --add";
    Error::new(ErrorKind::Io, reason).with_hint(hint)
}
