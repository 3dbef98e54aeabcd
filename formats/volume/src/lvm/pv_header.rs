//! `pv_header`: what a physical volume is and where its metadata areas are. LVM2,
//! `lib/format_text/layout.h`.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::LvmId;
use super::label_header::Label;

/// The fixed part as it is on disk. Lists of [`RawDiskLocn`] follow, each ended by an offset of
/// zero: data areas, metadata areas. (An extension with boot areas follows, which nothing needs.)
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawPvHeader {
    pv_uuid: [u8; 32],
    device_size: U64,
}

const _: () = assert!(size_of::<RawPvHeader>() == 40);

/// `disk_locn`: an area of the device, in bytes.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDiskLocn {
    offset: U64,
    size: U64,
}

const _: () = assert!(size_of::<RawDiskLocn>() == 16);

/// An area of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DiskLocn {
    pub(super) offset: u64,
    /// Zero: to the end of the device.
    pub(super) size_bytes: u64,
}

/// What the header says. A label's sector bounds the lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PvHeader {
    pub(super) id: LvmId,
    pub(super) device_bytes: u64,
    pub(super) metadata_areas: Vec<DiskLocn>,
}

impl PvHeader {
    pub(super) fn from_label(label: &Label) -> std::result::Result<Self, String> {
        let bytes = label.sector.get(label.header_offset..).unwrap_or_default();
        let Ok((raw, rest)) = RawPvHeader::ref_from_prefix(bytes) else {
            return Err("the header of the LVM physical volume is cut off".to_owned());
        };
        let id = LvmId::from_disk(raw.pv_uuid)
            .ok_or("the header of the LVM physical volume has no UUID")?;
        let (_data_areas, rest) = areas(rest).ok_or("its list of data areas does not end")?;
        let (metadata_areas, _) = areas(rest).ok_or("its list of metadata areas does not end")?;
        Ok(Self {
            id,
            device_bytes: raw.device_size.get(),
            metadata_areas,
        })
    }
}

/// A list of areas up to its end, and what follows.
fn areas(bytes: &[u8]) -> Option<(Vec<DiskLocn>, &[u8])> {
    let mut areas = Vec::new();
    let mut rest = bytes;
    loop {
        let (raw, after) = RawDiskLocn::ref_from_prefix(rest).ok()?;
        rest = after;
        if raw.offset.get() == 0 {
            return Some((areas, rest));
        }
        areas.push(DiskLocn {
            offset: raw.offset.get(),
            size_bytes: raw.size.get(),
        });
    }
}
