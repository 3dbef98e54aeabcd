//! Opens a virtual machine's disk image in userspace, down to its files.
//!
//! Image format, partition table and filesystem are read in this process: no root, no kernel
//! module, no loop or nbd device, no mount. Everything that is read from an image is validated
//! before it is used, and a disk that was opened for reading is never written to.
//!
//! ```
//! use diskfs::Disk;
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("demo.qcow2");
//! # let bundled = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/images/demo.qcow2.zst");
//! # zstd::stream::copy_decode(std::fs::File::open(bundled)?, std::fs::File::create(&path)?)?;
//!
//! let disk = Disk::open(&path)?;
//! for volume in disk.volumes()? {
//!     let kind = volume.content()?.map_or("nothing known", |content| content.kind);
//!     println!("{}: {} MiB, {kind}", volume.name(), volume.size_bytes() >> 20);
//! }
//!
//! // The only filesystem, or the one that contains an operating system.
//! let root = disk.filesystem()?;
//! let release = String::from_utf8(root.read("/etc/os-release")?)?;
//! assert!(release.contains("NAME="));
//!
//! // All files below a directory, with their metadata.
//! for entry in root.walk("/etc")? {
//!     let entry = entry?;
//!     println!("{} bytes in {}", entry.metadata.size_bytes, entry.path.escape_ascii());
//! }
//!
//! // A large file as a stream.
//! let mut file = root.open("/etc/os-release")?;
//! let copied = std::io::copy(&mut file, &mut std::io::sink())?;
//! assert_eq!(copied, file.size_bytes());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Layers
//!
//! [`Disk`] -> [`Volume`] -> [`Filesystem`] -> [`File`]. Each gives access to the layer below it:
//! [`Disk::device`] and [`Volume::device`] are [`block::BlockRead`]s, [`Filesystem::driver`] is a
//! [`vfs::FsRead`].
//!
//! # Errors
//!
//! All layers share one [`Error`], with a small stable [`ErrorKind`] to branch on, the place (file,
//! path, inode, byte), and a hint at the next step if there is one.

/// The README's example, compiled as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(feature = "documents")]
pub mod document;

pub use diskfs_block as block;
pub use diskfs_image as image;
pub use diskfs_luks as luks;
pub use diskfs_vfs as vfs;
pub use diskfs_volume as volume;

pub use diskfs_disk::{
    BackgroundCopy, CancellationToken, ChangedKeys, ChosenDriver, CodePage, Commits, Content,
    ContentClass, Disk, DiskId, DiskOptions, Error, ErrorKind, ExfatOptions, ExtKind, ExtOptions,
    Fallback, FallbackRequest, FatKind, FatOptions, File, FileDevice, Filesystem, Format,
    FreeSpace, Gate, Group, KeyChange, KeyProof, KeyRemoval, Keys, LvmId, MdArray, NewFilesystem,
    NewIds, NewSpace, Node, OpenOptions, OverlaidImage, RemoteImage, RemoteImages, ResizeLayer,
    ResizeProgress, ResizeReport, ResizeRequest, ResizeStep, ResizeTool, ResizeVolume, Resized,
    Result, RootReserve, Share, ShrinkTo, SortedEntry, SortedWalk, StaleBase, SwapOptions, ToolUse,
    TreeUsage, UuidChange, Volume, Walk, WritableFile, WritableFilesystem, WriteOptions, check,
    create_overlay, fitting_size, guest, new_encryption, parse_bytes, time,
};

#[cfg(feature = "deploy")]
pub use diskfs_archive::{self as archive, unpack};
#[cfg(feature = "build")]
pub use diskfs_build as build;
#[cfg(feature = "deploy")]
pub use diskfs_deploy as deploy;
#[cfg(any(feature = "fuse", feature = "vhost-user"))]
pub use diskfs_export as export;
#[cfg(feature = "inspect")]
pub use diskfs_inspect as inspect;
#[cfg(feature = "logs")]
pub use diskfs_logs as logs;
#[cfg(feature = "nbd")]
pub use diskfs_nbd as nbd;
#[cfg(feature = "objects")]
pub use diskfs_objects as objects;
#[cfg(feature = "serve")]
pub use diskfs_service as service;
#[cfg(feature = "cli")]
pub use diskfs_varstore as varstore;
#[cfg(feature = "microvm")]
pub use diskfs_vm as vm;
