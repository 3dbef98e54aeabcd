//! VMDK disk images, mapped for reading and written: those of VMware's products, and those of other
//! programs.
//!
//! A disk is one file, or a descriptor file that names others. [`Descriptor::read`] parses the
//! descriptor, and [`Descriptor::extent_files`] lists the names of the files. The crate opens no
//! file: the caller opens those that its policy allows. [`Vmdk::open`] then returns the disk as an
//! [`ImageMap`](diskfs_block::ImageMap), which any number of threads can use.
//!
//! ```no_run
//! use std::sync::Arc;
//! use diskfs_block::{BlockRead, File, ImageMap};
//! use diskfs_vmdk::{Descriptor, Vmdk};
//!
//! let image: Arc<dyn BlockRead> = Arc::new(File::open("disk.vmdk")?);
//! let descriptor = Descriptor::read(&*image)?;
//! let mut files: Vec<Arc<dyn BlockRead>> = Vec::new();
//! for name in descriptor.extent_files()? {
//!     files.push(Arc::new(File::open(name)?)); // after a check of the name
//! }
//! let disk = Vmdk::open(image, &files)?;
//! let run = disk.run_at(0, disk.size_bytes())?;
//! println!("the first {} bytes: {:?}", run.len_bytes, run.storage);
//! # Ok::<(), diskfs_block::Error>(())
//! ```
//!
//! [`StreamWriter`] writes a stream-optimised image to anything that can be written in order,
//! [`SparseWriter`] a sparse one to a device, [`SparseLayout`] is the layout of such an image for
//! callers that write themselves, and [`StreamReader`] reads a stream in order.
//!
//! # Errors
//!
//! `Corrupt` has the byte of the file, and the file's name if it is not the image itself.
//! `Unsupported` names the feature: devices, unknown versions and flags, journals to replay.
//!
//! # Limits
//!
//! `DESIGN.md` has all limits: what is read and what is refused.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

mod check;
mod compressed_grain;
mod cowd_header;
mod create_type;
mod descriptor;
mod entry;
mod extent;
mod footer;
mod grain_map;
mod inflate;
mod layout;
mod magic;
mod marker;
mod se_sparse_header;
mod sectors;
mod sparse_header;
mod stream_reader;
mod tables;
mod vmdk;
mod write;

pub use create_type::CreateType;
pub use descriptor::{
    Access, Descriptor, DescriptorPlace, ExtentDescriptor, ExtentType, MAX_EXTENTS, Parent,
};
pub use magic::is_vmdk;
pub use stream_reader::{StreamGrain, StreamReader};
pub use vmdk::Vmdk;
pub use write::{
    ADAPTER_TYPES, GRAIN_BYTES, GrainCompressor, SparseLayout, SparseWriter, StreamWriter,
    WriteOptions, compress_grain,
};
