//! Disks in OCI images: KubeVirt's containerDisks, and artifacts whose blob is a disk.
//!
//! An image is an index, a manifest, a configuration and layers, each a blob that is named by its
//! digest. [`Image::open`] selects the manifest of a layout, and [`Image::contents`] says where a
//! disk can be: in a file of the layers ([`DiskFiles`]), or in a blob by itself ([`DiskBlob`]).
//! Where blobs are stored is up to the caller, which implements [`Blobs`]; and the caller unpacks
//! the layers, whose files it gives to [`DiskFiles::apply`].
//!
//! [`write_layer`] writes the layer of a new image, and [`NewImage`] makes its documents.
//!
//! # Errors
//!
//! `Corrupt` for a wrong digest or size and for invalid JSON; `Unsupported` for unknown media
//! types and for what exceeds a limit; `NotFound` and `Invalid` for a selection that matches
//! nothing, or too much, with a list.
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

mod artifact;
mod blobs;
mod config;
mod descriptor;
mod digest;
mod disk_files;
mod document;
mod image;
mod index;
mod layer;
mod layout;
mod manifest;
mod message;
mod platform;
mod registry;
mod seek_table;
mod select;
mod tar_header;

pub use artifact::{DiskBlob, DiskFormat};
pub use blobs::{Blobs, open_blob};
pub use config::NewConfig;
pub use descriptor::Descriptor;
pub use digest::{Digest, Hasher};
pub use disk_files::{DiskFile, DiskFiles};
pub use document::{Document, NewImage, NewLayer};
pub use image::{Contents, Image};
pub use layer::{LayerCompression, NewDisk, write_layer};
pub use layout::{INDEX_NAME, LAYOUT_NAME};
pub use platform::host_architecture;
pub use registry::{RegistryName, RegistryPart, RegistryReference};
pub use tar_header::TarMember;
