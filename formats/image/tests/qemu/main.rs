//! Comparison of our reading with QEMU's: images are made by qemu-img, written at random by
//! qemu-io, and compared with the results of `qemu-img convert` and `qemu-img map`.
//!
//! `DISKFS_QEMU_ROUNDS=500 cargo test -p diskfs-image --test qemu` for a long run;
//! `DISKFS_QEMU_SEED` selects other images, and a failure prints its seed.

mod amend;
mod backups;
mod bad_input;
mod bitmap_copies;
mod bitmap_edits;
mod bitmaps;
mod case;
mod check;
mod compare;
mod cost;
mod crash;
mod create;
mod describe;
mod encryption;
mod full_disk;
mod gate;
mod hand_made;
mod hand_made_vhd;
mod hand_made_vhdx;
mod interleavings;
mod into_existing;
mod locks;
mod mapped;
mod matrix;
mod model;
mod overlays;
mod parallel;
mod parents;
mod random_writes;
mod repair;
mod resize;
mod snapshots;
mod tools;
mod vdi_parents;
mod vmdk;
mod writable;
