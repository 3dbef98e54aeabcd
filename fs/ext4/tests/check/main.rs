//! The check of whole filesystems, compared with e2fsck: healthy filesystems have no findings, and
//! each kind of damage is found where e2fsck finds something, too.

#[path = "../common/mod.rs"]
mod common;
mod damage;
mod e2fsprogs;
mod healthy;
mod image;
mod limits;
mod patches;
mod random;
