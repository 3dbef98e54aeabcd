//! Disk image formats as block devices: raw, qcow2, and for reading VDI, VHD, VHDX, QED, Parallels,
//! qcow and DMG.
//!
//! [`Image::open`] takes a path and returns the guest's disk as a [`BlockRead`]. Whatever the image
//! consists of (clusters, compressed clusters, a chain of backing files, an external data file, an
//! internal snapshot), a read at a guest offset returns the guest's bytes. Any number of threads
//! can read at once. [`WritableImage::open`] returns a [`BlockWrite`](diskfs_block::BlockWrite)
//! instead.
//!
//! * [`Format`], [`probe`]: the formats, and their detection by the first bytes;
//! * [`Gate`]: the policy for files that an image names;
//! * [`Share`]: the locks that prevent conflicts between diskfs and a running QEMU;
//! * [`Unlock`]: the interface that the caller implements for encrypted images;
//! * [`ImageSpec`]: an image as the user spells it, `disk.qcow2,snapshot=before`;
//! * [`create()`]: new images; [`convert()`]: copies in another format; [`snapshots`] and
//!   [`bitmaps`] of existing ones; [`commit`] and [`rebase`] of overlays; [`resize()`]; [`amend`]; [`repair()`];
//! * [`validate::validate`]: the check of images from strangers;
//! * [`Description`], [`Image::map`]: the information of `qemu-img info` and `qemu-img map`.
//!
//! ```
//! use diskfs_image::{Format, Image, OpenOptions};
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("disk.raw");
//! # std::fs::write(&path, vec![7; 4096])?;
//! let image = Image::open(&path, &OpenOptions { format: Some(Format::Raw), ..Default::default() })?;
//! let disk = image.device();
//! let mut sector = [0; 512];
//! disk.read_at(1024, &mut sector)?;
//! assert_eq!(sector, [7; 512]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Errors
//!
//! [`diskfs_block::Error`] with the file and the byte:
//!
//! * [`Corrupt`] for an image that contradicts its specification;
//! * [`Unsupported`] for unsupported formats and features;
//! * [`Denied`] for a file that the gate refuses;
//! * [`Locked`] for an image that another process writes.
//!
//! # Limits
//!
//! Images are not trusted: every count and size in an image is checked against its file and a limit
//! before anything is allocated. Each limit is a constant in the module that uses it, with its
//! reason.
//!
//! [`BlockRead`]: diskfs_block::BlockRead
//! [`Corrupt`]: diskfs_block::ErrorKind::Corrupt
//! [`Unsupported`]: diskfs_block::ErrorKind::Unsupported
//! [`Denied`]: diskfs_block::ErrorKind::Denied
//! [`Locked`]: diskfs_block::ErrorKind::Locked
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

pub mod amend;
mod background_copy;
mod backing_runs;
mod base;
pub mod bitmaps;
pub mod commit;
pub mod convert;
pub mod create;
mod description;
mod disguise;
mod encryption;
mod files;
mod format;
mod gate;
mod image;
mod layer;
mod lock;
mod map;
mod mapped;
mod node;
mod numbers;
mod oci;
mod ofd;
mod open;
mod options;
#[cfg(test)]
mod power_cut_tests;
pub mod probe;
mod qcow2;
mod raw;
pub mod rebase;
mod remote;
pub mod repair;
pub mod resize;
mod shared;
pub mod snapshots;
mod source;
mod spec;
mod spool;
mod uri;
pub mod validate;
mod writable;
mod zero_runs;

pub use background_copy::{BackgroundCopy, has_copied};
pub use convert::{ConvertOptions, convert};
pub use create::{CreateOptions, create};
pub use description::{
    Bitmap, BitmapState, Compression, Description, Encryption, MappedDetails, PackagedDisk,
    Qcow2Details, Snapshot,
};
pub use disguise::is_named_compressed;
pub use encryption::{Decrypt, Unlock};
pub use files::{DirectOpener, FileOpener};
pub use format::Format;
pub use gate::{Access, Gate, NamedFile, NamedFor, Policy};
pub use image::Image;
pub use map::{Map, MapEntry};
pub use oci::{host_file, is_oci};
pub use open::{LayoutImage, RegistryDisk};
pub use options::{OpenOptions, ProbedFormats, Share, StaleBase};
pub use qcow2::check::{CheckReport, CheckStatistics, Finding, FindingKind};
pub use remote::{RemoteImage, RemoteImages};
pub use repair::{Repair, Repaired, repair};
pub use resize::{ResizeOptions, Resized, Shrink, resize};
pub use spec::ImageSpec;
pub use writable::WritableImage;
