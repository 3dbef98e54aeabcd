//! What FAT and exFAT must both do, proved by their checkers and, for FAT, mtools.

#[path = "../common/mod.rs"]
mod common;
mod crash;
mod hostile;
mod kind;
mod model;
mod write;
