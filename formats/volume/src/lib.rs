//! Partition tables and volumes as block devices:
//!
//! * GPT, MBR, and hybrids of the two;
//! * disklabels of BSD, Sun and SGI, and Apple's partition map;
//! * the logical volumes of LVM2 ([`lvm`]) and the arrays of md ([`md`]).
//!
//! [`read_table()`] reads the partition table of a disk, and [`Partition::open`] opens one
//! partition as a device. A disk without a table (a filesystem directly on it) is `None`, not an
//! error. [`edit`] changes a GPT or an MBR.
//!
//! ```
//! use std::sync::Arc;
//! use diskfs_block::{BlockRead, BlockWrite, Memory};
//!
//! // An MBR with one Linux partition: sectors 1 and 2 of a disk of three.
//! let mut disk = vec![0; 3 * 512];
//! disk[440..444].copy_from_slice(&0x1234_abcd_u32.to_le_bytes());
//! disk[446 + 4] = 0x83;
//! disk[446 + 8] = 1;
//! disk[446 + 12] = 2;
//! disk[510..512].copy_from_slice(&[0x55, 0xaa]);
//! let disk = Arc::new(Memory::new(disk));
//!
//! let table = diskfs_volume::read_table(&*disk)?.expect("it has a table");
//! let partition = &table.partitions[0];
//! assert_eq!(partition.type_name(), "Linux");
//! assert_eq!(partition.uuid().as_deref(), Some("1234abcd-01"));
//! assert_eq!(partition.open(disk)?.size_bytes(), 1024);
//! # Ok::<(), diskfs_block::Error>(())
//! ```
//!
//! # Trust
//!
//! Tables are not trusted. Counts and sizes have limits, and a chain of extended boot records ends
//! at a loop. An entry that extends past the disk or overlaps another one is listed with its
//! [`Problem`], and cannot be opened. Faults that do not prevent reading are reported in
//! [`PartitionTable::warnings`].
//!
//! # Errors
//!
//! [`read_table()`] fails if the device does, and with
//! [`ErrorKind::Corrupt`](diskfs_block::ErrorKind::Corrupt) if there is a GPT of which neither
//! copy can be used.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

mod apm;
mod attributes;
mod boot_sector;
mod bsd;
mod cache;
mod check;
mod cow;
pub mod edit;
mod gpt;
mod guid;
pub mod lvm;
mod map;
mod mbr;
pub mod md;
mod partition;
mod persistent;
mod read_table;
mod sector;
mod sgi;
mod sun;
pub mod swap;
mod table;
mod thin;
mod type_name;
mod warnings;

pub use attributes::Attributes;
pub use guid::Guid;
pub use map::{Mapped, Writable};
pub use partition::{Partition, PartitionKind, Problem};
pub use read_table::{read_table, read_table_with};
pub use sector::SectorSize;
pub use table::{PartitionTable, TableKind};
