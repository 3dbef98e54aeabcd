//! RAID of Linux's md: members, the arrays they form, and those as devices.
//!
//! [`Member::read`] looks at a device, [`arrays`] puts together what several say, and
//! [`Array::open`] makes a device of one, [`Array::open_writable`] one to write.

mod array;
mod plan;
mod superblock;
mod superblock_0;

pub use array::{Array, arrays};
pub use superblock::Member;
