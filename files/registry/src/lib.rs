//! A read-only reader for Windows registry hives (`regf` files), with their transaction logs
//! applied in memory.
//!
//! [`Hive::open`] opens a hive and its logs, [`Hive::root`] returns the root [`Key`], and
//! [`Key::subkey`] follows a path. Cells are read on demand through a small page cache: a few
//! lookups in a hive of 100 MiB read some dozens of pages.
//!
//! ```
//! use std::sync::Arc;
//! use diskfs_block::{BlockRead, Memory};
//! use diskfs_registry::{Hive, Value};
//! # use diskfs_registry::testing::HiveBuilder;
//! # let mut builder = HiveBuilder::new();
//! # builder.string(r"ControlSet001\Control\ComputerName\ComputerName", "ComputerName", "WIN10");
//! # let system: Arc<dyn BlockRead> = Arc::new(Memory::new(builder.build()));
//!
//! let hive = Hive::open(system, &[])?;
//! let root = hive.root()?;
//! let key = root.subkey(r"controlset001\Control\ComputerName\ComputerName")?;
//! let key = key.expect("every Windows has this key");
//! assert_eq!(key.value("ComputerName")?, Some(Value::String("WIN10".to_owned())));
//! # Ok::<(), diskfs_block::Error>(())
//! ```
//!
//! The format is that of Maxim Suhanov, "Windows registry file format specification"
//! (<https://github.com/msuhanov/regf>); structures and fields have its names.
//!
//! # Hostile files
//!
//! No value in the file is trusted. Cells must be allocated and within the hive bins data, and
//! lists within their cell. Each key must name its parent, so that no walk reaches a key twice.
//! Depth, counts and lengths have limits.
//!
//! # Errors
//!
//! `Corrupt` with the byte of the file; `Unsupported` for versions before Windows NT 4 and for
//! anything that exceeds a limit.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

mod base_block;
mod big_data;
mod bins;
mod filetime;
mod hive;
mod key;
mod key_node;
mod key_security;
mod key_value;
mod log;
mod marvin32;
mod name;
mod subkeys_list;
#[cfg(feature = "testing")]
pub mod testing;
mod upcase;
mod value;

pub use filetime::Filetime;
pub use hive::Hive;
pub use key::{Key, Subkeys, Values};
pub use key_value::NamedValue;
pub use log::Recovery;
pub use value::{DataType, Value};
