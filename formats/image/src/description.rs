//! What an image says about itself.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::Format;

/// What an image says about itself, for `info`.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Description {
    /// The file, as it was named.
    pub path: PathBuf,
    /// The file's device and inode on the host; `None` for what is no file.
    pub file_id: Option<(u64, u64)>,
    /// Its format; `None` only in a description that was never filled in.
    pub format: Option<Format>,
    /// The format was found by looking at the content, not given. A raw image that was probed must
    /// never get another format's magic written into its first sector.
    pub probed: bool,
    /// Size of the guest's disk (of the snapshot's, when one is opened).
    pub virtual_size_bytes: u64,
    /// Length of the file.
    pub file_size_bytes: u64,
    /// What the host has allocated for it.
    pub allocated_bytes: u64,
    /// What only qcow2 has.
    pub qcow2: Option<Qcow2Details>,
    /// The file behind it.
    pub backing: Option<Box<Description>>,
    /// Oddities that do not keep it from being read.
    pub warnings: Vec<String>,
}

/// What a qcow2 image says about itself beyond its size.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are independent flags of the header, as `qemu-img info` lists them"
)]
pub struct Qcow2Details {
    /// 2 or 3.
    pub version: u32,
    /// Cluster size in bytes.
    pub cluster_size_bytes: u64,
    /// How compressed clusters are compressed.
    pub compression: Compression,
    /// Width of a reference count.
    pub refcount_bits: u32,
    /// Clusters are divided into 32 subclusters.
    pub extended_l2: bool,
    /// Refcounts may be written late.
    pub lazy_refcounts: bool,
    /// It was not closed properly: refcounts may be wrong. No matter for reading.
    pub dirty: bool,
    /// A program found it corrupt and marked it so.
    pub corrupt: bool,
    /// The names of the feature bits that are set, from all three fields.
    pub features: Vec<String>,
    /// The name of the backing file as the image spells it.
    pub backing_name: Option<String>,
    /// The format of the backing file as the image spells it.
    pub backing_format_name: Option<String>,
    /// The external data file.
    pub data_file: Option<PathBuf>,
    /// The external data file is a raw image by itself.
    pub data_file_raw: bool,
    /// Internal snapshots.
    pub snapshots: Vec<Snapshot>,
    /// The snapshot that was opened: its index in `snapshots`.
    pub opened_snapshot: Option<usize>,
    /// Persistent bitmaps.
    pub bitmaps: Vec<Bitmap>,
    /// How its data is encrypted, if it is.
    pub encryption: Option<Encryption>,
}

impl Qcow2Details {
    /// The version as `qemu-img create -o compat=` spells it.
    pub const fn compat(&self) -> &'static str {
        if self.version < 3 { "0.10" } else { "1.1" }
    }
}

/// An image's encryption: LUKS, with a header in the image file. Compressed clusters are not
/// encrypted, nor are tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Encryption {
    /// Where the LUKS header is in the file.
    pub header_offset_bytes: u64,
    /// Its length, with all key slots.
    pub header_len_bytes: u64,
    /// A key was there that fits.
    pub is_unlocked: bool,
}

/// How compressed clusters are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// Raw deflate; QEMU calls it zlib.
    Zlib,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// The name as QEMU spells it.
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
    /// Unique within the image; QEMU counts from 1.
    pub id: String,
    /// The name that the user gave.
    pub name: String,
    /// Size of the guest's disk then; `None` in old images that do not say: the current size.
    pub virtual_size_bytes: Option<u64>,
    /// Size of the saved state of the machine; 0 for a snapshot of the disk only.
    pub vm_state_bytes: u64,
    /// When it was taken.
    pub taken_at: SystemTime,
    /// How long the guest had run.
    pub vm_clock: Duration,
    /// Instruction count, when the machine was being recorded.
    pub icount: Option<u64>,
}

/// A persistent dirty bitmap.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bitmap {
    /// The name that the user gave.
    pub name: String,
    /// Bytes of the disk that one bit stands for.
    pub granularity_bytes: u64,
    /// What its flags say.
    pub state: BitmapState,
    /// Every write to the disk must be marked in it (the `auto` flag; QEMU: not disabled).
    pub recording: bool,
}

/// Whether a bitmap can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BitmapState {
    /// It was saved properly.
    Consistent,
    /// It was not saved properly, or the image was written to by a program that knows no bitmaps.
    Inconsistent,
}
