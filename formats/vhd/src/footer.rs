//! The footer: specification, "Hard Disk Footer Format".

use diskfs_block::{BlockRead, Error, Result};
use uuid::Uuid;
use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::checksum;
use crate::geometry::Geometry;

/// The size of the footer in bytes.
pub(crate) const FOOTER_BYTES: u64 = 512;
const COOKIE: [u8; 8] = *b"conectix";
const CHECKSUM_AT: usize = 64;
/// Version 1.0, the only one.
const VERSION: u32 = 0x0001_0000;
pub(crate) const SECTOR_BYTES: u64 = 512;
/// The bit of the features that is always set.
const FEATURE_RESERVED: u32 = 2;
/// The program that has created the disk, as this crate writes it: of another than
/// [`CREATORS_WITH_GEOMETRY`], so the stored size counts.
const CREATOR: &[u8; 4] = b"dsfs";
const CREATOR_VERSION: u32 = 0x0001_0000;
/// The programs whose disks have the size of their geometry, as in QEMU 10: Virtual PC, and QEMU
/// without `force_size`. All others store the size itself.
const CREATORS_WITH_GEOMETRY: [&[u8; 4]; 2] = [b"vpc ", b"qemu"];

/// The footer's 512 bytes, with the names of the specification.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawFooter {
    cookie: [u8; 8],
    features: U32,
    file_format_version: U32,
    data_offset: U64,
    time_stamp: U32,
    creator_application: [u8; 4],
    creator_version: U32,
    creator_host_os: [u8; 4],
    original_size: U64,
    current_size: U64,
    cylinders: U16,
    heads: u8,
    sectors_per_track: u8,
    disk_type: U32,
    checksum: U32,
    unique_id: [u8; 16],
    saved_state: u8,
    reserved: [u8; 427],
}

const _: () = assert!(size_of::<RawFooter>() == 512);

/// The type of a VHD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskType {
    /// The guest's bytes, followed by a footer.
    Fixed,
    /// Blocks are allocated when they are written.
    Dynamic,
    /// Sectors that are not stored are those of the parent.
    Differencing,
}

impl DiskType {
    /// Returns the name of the type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Dynamic => "dynamic",
            Self::Differencing => "differencing",
        }
    }
}

/// A footer whose fields are in range.
#[derive(Debug, Clone)]
pub(crate) struct Footer {
    pub(crate) disk_type: DiskType,
    /// The size of the guest's disk in bytes.
    pub(crate) size_bytes: u64,
    /// The offset of the dynamic disk header in bytes.
    pub(crate) header_at: u64,
    pub(crate) creator: String,
    pub(crate) id: Uuid,
}

impl Footer {
    /// Reads the footer of the image in `file`: the copy at the start that dynamic and differencing
    /// disks have, or the footer at the end if there is none or it is damaged.
    pub(crate) fn read(file: &dyn BlockRead) -> Result<Self> {
        let end = file.size_bytes().checked_sub(FOOTER_BYTES);
        let Some(end) = end else {
            return Err(Error::corrupt("truncated VHD footer").at(0));
        };
        let copy = read_at(file, 0)?;
        if copy.check().is_ok() && copy.disk_type.get() != FIXED {
            return copy.footer(0, end);
        }
        let last = read_at(file, end)?;
        last.check().map_err(|reason| {
            Error::corrupt(format!("not a VHD, or its footer is damaged: {reason}")).at(end)
        })?;
        last.footer(end, end)
    }
}

/// A footer to write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewFooter {
    pub(crate) disk_type: DiskType,
    pub(crate) size_bytes: u64,
    pub(crate) geometry: Geometry,
    pub(crate) id: Uuid,
    /// The time of creation in seconds since 2000-01-01.
    pub(crate) created: u32,
}

impl NewFooter {
    /// Returns the footer as it is stored.
    pub(crate) fn encode(&self) -> [u8; size_of::<RawFooter>()] {
        let (disk_type, header_at) = match self.disk_type {
            DiskType::Fixed => (FIXED, u64::MAX),
            DiskType::Dynamic => (DYNAMIC, FOOTER_BYTES),
            DiskType::Differencing => (DIFFERENCING, FOOTER_BYTES),
        };
        let mut raw = RawFooter {
            cookie: COOKIE,
            features: U32::new(FEATURE_RESERVED),
            file_format_version: U32::new(VERSION),
            data_offset: U64::new(header_at),
            time_stamp: U32::new(self.created),
            creator_application: *CREATOR,
            creator_version: U32::new(CREATOR_VERSION),
            creator_host_os: *b"Wi2k",
            original_size: U64::new(self.size_bytes),
            current_size: U64::new(self.size_bytes),
            cylinders: U16::new(self.geometry.cylinders),
            heads: self.geometry.heads,
            sectors_per_track: self.geometry.sectors_per_track,
            disk_type: U32::new(disk_type),
            checksum: U32::ZERO,
            unique_id: self.id.into_bytes(),
            saved_state: 0,
            reserved: [0; 427],
        };
        raw.checksum = U32::new(checksum(raw.as_bytes(), CHECKSUM_AT));
        let mut bytes = [0; size_of::<RawFooter>()];
        bytes.copy_from_slice(raw.as_bytes());
        bytes
    }
}

/// Returns true if `file` ends with the footer of a fixed disk, which has no structure at its
/// start. A guest that writes to a raw disk can write one, so it must not decide a format.
///
/// # Errors
/// The errors of reading.
pub fn ends_with_footer(file: &dyn BlockRead) -> Result<bool> {
    let Some(end) = file.size_bytes().checked_sub(FOOTER_BYTES) else {
        return Ok(false);
    };
    let footer = read_at(file, end)?;
    Ok(footer.check().is_ok() && footer.disk_type.get() == FIXED)
}

const FIXED: u32 = 2;
const DYNAMIC: u32 = 3;
const DIFFERENCING: u32 = 4;

/// The footer with its computed checksum.
struct StoredFooter {
    raw: RawFooter,
    computed: u32,
}

impl std::ops::Deref for StoredFooter {
    type Target = RawFooter;

    fn deref(&self) -> &RawFooter {
        &self.raw
    }
}

fn read_at(file: &dyn BlockRead, at: u64) -> Result<StoredFooter> {
    let mut bytes = [0; size_of::<RawFooter>()];
    file.read_at(at, &mut bytes)?;
    let computed = checksum(&bytes, CHECKSUM_AT);
    let raw = RawFooter::read_from_bytes(&bytes)
        .map_err(|_| Error::corrupt("truncated VHD footer").at(at))?;
    Ok(StoredFooter { raw, computed })
}

impl StoredFooter {
    /// Fails with the reason unless these bytes are a footer.
    fn check(&self) -> std::result::Result<(), String> {
        if self.cookie != COOKIE {
            return Err("its cookie is missing".to_owned());
        }
        let (stored, computed) = (self.checksum.get(), self.computed);
        if stored != computed {
            return Err(format!(
                "its checksum is {stored:#x}, and should be {computed:#x}"
            ));
        }
        Ok(())
    }
}

impl RawFooter {
    /// Validates the footer at `at`, of a file whose last footer is at `end`.
    fn footer(&self, at: u64, end: u64) -> Result<Footer> {
        let place = |field: u64| at.saturating_add(field);
        if self.file_format_version.get() != VERSION {
            let version = self.file_format_version.get();
            let reason = format!("unsupported version {version:#x} of VHD");
            return Err(Error::unsupported(reason).at(place(12)));
        }
        let disk_type = match self.disk_type.get() {
            FIXED => DiskType::Fixed,
            DYNAMIC => DiskType::Dynamic,
            DIFFERENCING => DiskType::Differencing,
            other => {
                let reason = format!("unsupported type {other} of VHD");
                return Err(Error::unsupported(reason).at(place(60)));
            }
        };
        let size_bytes = self.size_bytes();
        if disk_type == DiskType::Fixed && size_bytes > end {
            let reason = format!("disk of {size_bytes} bytes does not fit into the file");
            return Err(Error::corrupt(reason).at(place(48)));
        }
        Ok(Footer {
            disk_type,
            size_bytes,
            header_at: self.data_offset.get(),
            creator: creator(self.creator_application),
            id: Uuid::from_bytes(self.unique_id),
        })
    }

    /// Returns the size of the guest's disk, by QEMU's rule: the geometry for some creators, else
    /// the stored size.
    fn size_bytes(&self) -> u64 {
        let geometry = Geometry {
            cylinders: self.cylinders.get(),
            heads: self.heads,
            sectors_per_track: self.sectors_per_track,
        };
        let sectors = geometry.sectors();
        let has_geometry = CREATORS_WITH_GEOMETRY.contains(&&self.creator_application);
        if has_geometry && sectors != Geometry::MAX.sectors() {
            return sectors.saturating_mul(SECTOR_BYTES);
        }
        let current = self.current_size.get();
        current.saturating_sub(current % SECTOR_BYTES)
    }
}

/// Returns the name of the creating program, which fills four bytes with spaces or NULs.
fn creator(name: [u8; 4]) -> String {
    let text = String::from_utf8_lossy(&name);
    text.trim_end_matches([' ', '\0']).to_owned()
}
