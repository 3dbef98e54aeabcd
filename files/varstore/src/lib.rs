//! UEFI variable stores in the flash files of OVMF and AAVMF (`OVMF_VARS_4M.fd`). The crate lists
//! and edits variables as the firmware does, reads and creates boot entries, and sets the boot
//! order.
//!
//! [`VariableStore::open`] takes the contents of the file. Each edit changes the store in memory,
//! and returns the changed bytes as an [`Edit`]. The caller writes these, or all of
//! [`VariableStore::bytes`].
//!
//! ```
//! use diskfs_varstore::{BootPosition, Guid, HardDrive, LoadOption, VariableStore};
//! # use diskfs_varstore::testing::Template;
//! # let file = Template { variable_blocks: 4, is_authenticated: true }.build();
//!
//! let mut store = VariableStore::open(file)?;
//! let esp = HardDrive {
//!     partition_number: 1,
//!     start_lba: 2048,
//!     size_lba: 262_144,
//!     guid: "5f2a6ab8-0d4c-4a41-a1b4-0f0b2ab1c6b4".parse()?,
//! };
//! let debian = LoadOption::file("debian", &esp, r"\EFI\debian\shimx64.efi");
//! let (number, edit) = store.add_boot_entry(&debian, BootPosition::First)?;
//! assert_eq!((number, store.boot_order()?), (0, vec![0]));
//! assert!(!edit.reclaimed);
//! for write in edit.writes {
//!     // file.write_all_at(&write.bytes, write.offset)?;
//! }
//! # Ok::<(), diskfs_block::Error>(())
//! ```
//!
//! The formats are those of the UEFI and PI specifications and of edk2's headers; structures and
//! fields have their names.
//!
//! # Hostile files
//!
//! No value in the file is trusted. The volume must be within the file, the store within the
//! volume, and each variable within the store. Memory depends on the size of the file only.
//!
//! # Errors
//!
//! `Corrupt` with the byte of the file; `Unsupported` for files of another type, and for edits
//! while a write of the firmware is interrupted; `NoSpace` with numbers; `Denied` for variables
//! whose changes must be signed.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

mod boot;
mod device_path;
mod edit;
mod firmware_volume;
mod guid;
mod load_option;
mod record;
mod store;
#[cfg(feature = "testing")]
pub mod testing;
mod time;
mod ucs2;
mod variable;
mod variable_header;
mod variable_store_header;
mod working_block;

pub use boot::{BootDevice, BootEntry, BootPosition, DeviceBootOrder, DeviceKind, DeviceLocation};
pub use device_path::{DevicePath, HardDrive, Node};
pub use edit::{Edit, Write};
pub use guid::Guid;
pub use load_option::LoadOption;
pub use store::{Usage, VariableStore};
pub use time::Time;
pub use variable::{Attributes, Variable};
pub use variable_header::Authentication;
pub use working_block::FaultTolerantWrite;
