//! Tests of changing the size of FAT and exFAT filesystems, checked by their checkers and, for FAT,
//! by mtools.

#[path = "../common/mod.rs"]
mod common;
mod crash;
mod foreign;
mod forms;
mod hostile;
mod large;
mod limits;
mod sizes;
