//! The header of a physical volume, `pv_header`, with the locations of its metadata areas. LVM2,
//! `lib/format_text/layout.h`.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::LvmId;
use super::label_header::Label;

/// The fixed part of the on-disk structure. Lists of [`RawDiskLocn`] follow, each ended by an
/// offset of zero: data areas, metadata areas. (An extension with boot areas follows, which is only
/// written.)
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RawPvHeader {
    pv_uuid: [u8; 32],
    device_size: U64,
}

const _: () = assert!(size_of::<RawPvHeader>() == 40);

/// An area of the device, in bytes: `disk_locn`.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
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

/// The version of the extension (`PV_HEADER_EXTENSION_VSN`).
const EXTENSION_VERSION: u32 = 2;

/// The flag of a physical volume that is in a group (`PV_EXT_USED`).
const EXTENSION_USED: u32 = 1;

/// Returns the header of a new physical volume in a group, with one metadata area, extents from
/// `data_start` on, and an extension without boot areas.
pub(super) fn new_header(
    id: LvmId,
    device_bytes: u64,
    metadata_area: DiskLocn,
    data_start: u64,
) -> Vec<u8> {
    let raw = RawPvHeader {
        pv_uuid: *id.as_bytes(),
        device_size: device_bytes.into(),
    };
    let locn = |offset: u64, size: u64| {
        let (offset, size) = (offset.into(), size.into());
        RawDiskLocn { offset, size }
    };
    let lists = [
        locn(data_start, 0),
        locn(0, 0),
        locn(metadata_area.offset, metadata_area.size_bytes),
        locn(0, 0),
    ];
    let extension = [
        EXTENSION_VERSION.to_le_bytes(),
        EXTENSION_USED.to_le_bytes(),
    ]
    .concat();
    [
        raw.as_bytes(),
        lists.as_bytes(),
        &extension,
        locn(0, 0).as_bytes(),
    ]
    .concat()
}

/// Changes the bytes of a header: the size of the device, and the offset of a metadata area that
/// moves, if any (old and new).
pub(super) fn resize(bytes: &mut [u8], device_bytes: u64, moved: Option<(u64, u64)>) {
    let Ok((raw, rest)) = RawPvHeader::mut_from_prefix(bytes) else {
        return;
    };
    raw.device_size = device_bytes.into();
    let Some((from, to)) = moved else { return };
    let mut rest = rest;
    let mut lists_ended = 0;
    while lists_ended < 2 {
        let Ok((raw, after)) = RawDiskLocn::mut_from_prefix(rest) else {
            return;
        };
        rest = after;
        if raw.offset.get() == 0 {
            lists_ended = i32::saturating_add(lists_ended, 1);
        } else if lists_ended == 1 && raw.offset.get() == from {
            raw.offset = to.into();
        }
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
