//! RAID of Linux's md: members, the arrays that they form, and arrays as devices.
//!
//! [`Member::read`] reads the superblock on a device, [`arrays`] combines the members, and
//! [`Array::open`] opens an array as a device, [`Array::open_writable`] for writing.

mod array;
mod plan;
mod superblock;
mod superblock_0;

pub use array::{Array, arrays};
pub use superblock::Member;
