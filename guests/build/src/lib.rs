//! Whole disk images from declarative plans: partition table, LVM, LUKS2, filesystems, files and a
//! UEFI boot loader, in one process, without root and without loop devices. No program of the image
//! is run.
//!
//! [`Plan::parse`] reads a plan, [`Sources::open`] the headers of its files, and
//! [`Prepared::new`] computes the layout. Until then nothing is written. [`Prepared::build`] creates
//! the image, which gets its name only when it is complete.
//!
//! ```
//! use std::ops::ControlFlow;
//! use diskfs_build::{BuildOptions, Plan, Prepared, SourceOptions, Sources};
//! # let directory = tempfile::tempdir()?;
//!
//! let plan = Plan::parse(
//!     "disk: {size: 32M}
//! seed: an example
//! time: 1700000000
//! partitions:
//!   - {type: linux, size: rest, filesystem: {type: ext4, label: root, mount: /}}
//! sources:
//!   - {text: hello, to: /etc/motd}",
//! )?;
//! let options = BuildOptions::default();
//! let from = SourceOptions { directory: directory.path(), time: None };
//! let sources = Sources::open(&plan.sources, from, &mut |_| ControlFlow::Continue(()))?;
//! let prepared = Prepared::new(plan, sources)?;
//! let image = directory.path().join("disk.qcow2");
//! prepared.build(&image, &options, &mut |_| ControlFlow::Continue(()))?;
//!
//! let disk = diskfs_disk::Disk::open(&image)?;
//! let root = disk.volume("p1")?.filesystem()?;
//! assert_eq!(root.read("/etc/motd")?, b"hello");
//! # Ok::<(), diskfs_disk::Error>(())
//! ```

mod boot;
mod filesystem;
mod fill;
mod fstab;
mod ids;
mod layout;
mod make;
mod new_image;
mod plan;
mod prepared;
mod problem;
mod report;
mod scan;
#[cfg(test)]
mod schema;
mod secrets;
mod slot;
mod sources;

pub use filesystem::{FormatByTool, ToolFilesystem};
pub use make::{BuildOptions, Built};
pub use new_image::NewImageFile;
pub use plan::{
    BootloaderKind, BootloaderPlan, ContentsPlan, DiskPlan, Extra, FilesystemKind, FilesystemPlan,
    ImageFormat, KeySource, LogicalVolumePlan, LuksPlan, LvmPlan, PartitionPlan, PbkdfPlan, Plan,
    Size, SourcePlan, TablePlan,
};
pub use prepared::Prepared;
pub use report::{Layout, LayoutRow};
pub use sources::{SourceOptions, Sources};
