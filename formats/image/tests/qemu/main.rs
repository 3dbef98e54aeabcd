//! Our reading against QEMU's: images made by qemu-img, written at random by qemu-io, and compared
//! with what `qemu-img convert` and `qemu-img map` say.
//!
//! `DISKFS_QEMU_ROUNDS=500 cargo test -p diskfs-image --test qemu` for a long run;
//! `DISKFS_QEMU_SEED` picks other images, and a failure names its seed.

mod bad_input;
mod bitmaps;
mod case;
mod compare;
mod cost;
mod crash;
mod create;
mod describe;
mod encryption;
mod full_disk;
mod gate;
mod hand_made;
mod locks;
mod matrix;
mod model;
mod overlays;
mod parallel;
mod random_writes;
mod repair;
mod snapshots;
mod tools;
mod writable;
