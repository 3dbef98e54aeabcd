//! Filesystems that `format` creates, compared with those of mke2fs, and judged by e2fsck.

#[path = "../common/mod.rs"]
mod common;
mod crash;
mod filled;
mod fitting;
mod mke2fs;
mod options;
mod random;
mod refused;
mod sizes;
