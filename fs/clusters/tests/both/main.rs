//! Tests of the common behaviour of FAT and exFAT, checked by their checkers and, for FAT, by
//! mtools.

#[path = "../common/mod.rs"]
mod common;
mod crash;
mod hostile;
mod kind;
mod model;
mod write;
