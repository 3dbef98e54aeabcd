//! Windows registry hives (`regf` files), read-only, with their transaction logs applied in memory.
//!
//! [`Hive::open`] takes a hive and its logs as devices; [`Hive::root`] is its first [`Key`], from which
//! [`Key::subkey`] goes by path. Cells are read when they are asked for, through a small cache of pages: a
//! few look-ups in a hive of 100 MiB read some dozens of pages of it.
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
//! let key = key.expect("each Windows has it");
//! assert_eq!(key.value("ComputerName")?, Some(Value::String("WIN10".to_owned())));
//! # Ok::<(), diskfs_block::Error>(())
//! ```
//!
//! The format is that of Maxim Suhanov, "Windows registry file format specification"
//! (<https://github.com/msuhanov/regf>); sections and fields are named as there.
//!
//! # What is trusted
//!
//! Nothing. A cell lies within the hive bins data and is allocated; a list is read as far as its cell
//! goes; a key says itself which key it is below, so that no walk comes to a key twice; depth, counts and
//! lengths have limits.
//!
//! # Errors
//!
//! `Corrupt`, with the byte of the file; `Unsupported` for versions before Windows NT 4 and for what is
//! larger than a limit.
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
