//! The description of an image.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::Format;

/// The properties of an image, for `info`.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Description {
    /// The path of the file, as the caller gave it.
    pub path: PathBuf,
    /// The device and inode number of the file on the host; `None` for a device that is not a file.
    pub file_id: Option<(u64, u64)>,
    /// The version of an image on another machine, if its server names one.
    pub version: Option<String>,
    /// The format; `None` only in a description that was never filled in.
    pub format: Option<Format>,
    /// True if the format was probed from the content, not given. A probed raw image must never get
    /// another format's magic written into its first sector.
    pub probed: bool,
    /// The size of the guest's disk (of the snapshot's, if one is opened) in bytes.
    pub virtual_size_bytes: u64,
    /// The length of the file in bytes.
    pub file_size_bytes: u64,
    /// The number of bytes that the host has allocated for the file.
    pub allocated_bytes: u64,
    /// The properties that only qcow2 has.
    pub qcow2: Option<Qcow2Details>,
    /// The properties of an image that is neither raw nor qcow2.
    pub mapped: Option<MappedDetails>,
    /// The backing file, or the parent.
    pub backing: Option<Box<Description>>,
    /// Problems that do not prevent reading.
    pub warnings: Vec<String>,
}

/// The properties of an image of one of the formats that are only read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MappedDetails {
    /// The variant of the format, as its specification names it: `dynamic`, `fixed`,
    /// `differencing`, `streamOptimized`.
    pub variant: Option<String>,
    /// The unit of allocation in bytes.
    pub block_size_bytes: Option<u64>,
    /// The name of the program that created the image.
    pub creator: Option<String>,
    /// The identifier by which other images refer to this one. In some formats it changes with the
    /// data.
    pub id: Option<String>,
    /// The name of the parent or backing file as the image spells it.
    pub parent_name: Option<String>,
    /// The disks of a package (OVA, OVF) that have a file, in its order.
    pub disks: Vec<PackagedDisk>,
}

/// A disk of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackagedDisk {
    /// The name of its file.
    pub name: String,
    /// The identifier that the package gives it.
    pub id: String,
    /// The size that the package states.
    pub capacity_bytes: Option<u64>,
    /// True for the disk that is open.
    pub is_open: bool,
}

/// The properties of a qcow2 image beyond its size.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are independent flags of the header, as `qemu-img info` lists them"
)]
pub struct Qcow2Details {
    /// The version of the format: 2 or 3.
    pub version: u32,
    /// The cluster size in bytes.
    pub cluster_size_bytes: u64,
    /// The compression of compressed clusters.
    pub compression: Compression,
    /// The width of a reference count in bits.
    pub refcount_bits: u32,
    /// True if clusters are divided into 32 subclusters.
    pub extended_l2: bool,
    /// True if refcounts may be written late.
    pub lazy_refcounts: bool,
    /// True if the image was not closed properly. Refcounts may then be wrong, which does not
    /// affect reading.
    pub dirty: bool,
    /// True if a program found the image corrupt and marked it so.
    pub corrupt: bool,
    /// The names of the set feature bits, from all three fields.
    pub features: Vec<String>,
    /// The name of the backing file as the image spells it.
    pub backing_name: Option<String>,
    /// The format of the backing file as the image spells it.
    pub backing_format_name: Option<String>,
    /// The path of the external data file.
    pub data_file: Option<PathBuf>,
    /// True if the external data file is a raw image by itself.
    pub data_file_raw: bool,
    /// The internal snapshots.
    pub snapshots: Vec<Snapshot>,
    /// The index in `snapshots` of the opened snapshot, if any.
    pub opened_snapshot: Option<usize>,
    /// The persistent bitmaps.
    pub bitmaps: Vec<Bitmap>,
    /// The encryption of the data, if any.
    pub encryption: Option<Encryption>,
}

impl Qcow2Details {
    /// Returns the version as `qemu-img create -o compat=` spells it.
    pub const fn compat(&self) -> &'static str {
        if self.version < 3 { "0.10" } else { "1.1" }
    }
}

/// The encryption of an image: LUKS, with a header in the image file. Compressed clusters and
/// tables are not encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Encryption {
    /// The offset of the LUKS header in the file, in bytes.
    pub header_offset_bytes: u64,
    /// The length of the LUKS header with all key slots, in bytes.
    pub header_len_bytes: u64,
    /// True if a matching key was given.
    pub is_unlocked: bool,
}

/// The compression of compressed clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// Raw deflate, which QEMU calls zlib.
    Zlib,
    /// Zstandard, which QEMU calls zstd.
    Zstd,
}

impl Compression {
    /// Returns the name as QEMU spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
        }
    }
}

/// An internal snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The id, unique within the image; QEMU counts from 1.
    pub id: String,
    /// The name that the user gave.
    pub name: String,
    /// The size of the guest's disk in the snapshot, in bytes; `None` in old images that do not
    /// store it, where it is the current size.
    pub virtual_size_bytes: Option<u64>,
    /// The size of the saved machine state in bytes; 0 for a snapshot of the disk only.
    pub vm_state_bytes: u64,
    /// The time at which the snapshot was taken.
    pub taken_at: SystemTime,
    /// The time that the guest had run.
    pub vm_clock: Duration,
    /// The instruction count, if the machine was being recorded.
    pub icount: Option<u64>,
}

/// A persistent dirty bitmap.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bitmap {
    /// The name that the user gave.
    pub name: String,
    /// The number of bytes of the disk that one bit covers.
    pub granularity_bytes: u64,
    /// The state according to the bitmap's flags.
    pub state: BitmapState,
    /// True if every write to the disk must be marked in the bitmap (the `auto` flag; QEMU: not
    /// disabled).
    pub recording: bool,
}

/// The state of a bitmap, which tells whether it can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BitmapState {
    /// The bitmap was saved properly.
    Consistent,
    /// Not saved properly, or the image was written by a program without support for bitmaps.
    Inconsistent,
}
