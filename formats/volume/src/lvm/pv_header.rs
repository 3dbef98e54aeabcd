//! The header of a physical volume, `pv_header`, with the locations of its metadata areas. LVM2,
//! `lib/format_text/layout.h`.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::LvmId;
use super::label_header::Label;

/// The fixed part of the on-disk structure. Lists of [`RawDiskLocn`] follow, each ended by an
/// offset of zero: data areas, metadata areas. (An extension with boot areas follows, which is not
/// needed.)
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawPvHeader {
    pv_uuid: [u8; 32],
    device_size: U64,
}

const _: () = assert!(size_of::<RawPvHeader>() == 40);

/// An area of the device, in bytes: `disk_locn`.
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
    /// The size in bytes; zero means up to the end of the device.
    pub(super) size_bytes: u64,
}

/// The parsed header. The label's sector bounds the lists.
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
            return Err("the header of the LVM physical volume is truncated".to_owned());
        };
        let id = LvmId::from_disk(raw.pv_uuid)
            .ok_or("the header of the LVM physical volume has no valid UUID")?;
        let (_data_areas, rest) = areas(rest).ok_or("its list of data areas does not end")?;
        let (metadata_areas, _) = areas(rest).ok_or("its list of metadata areas does not end")?;
        Ok(Self {
            id,
            device_bytes: raw.device_size.get(),
            metadata_areas,
        })
    }
}

/// Parses a list of areas up to its end marker; returns the rest, too.
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
