//! Editing of partition tables, compared with sfdisk, sgdisk and parted.

mod crash;
mod hostile;
mod hybrid;
mod random;
mod refused;
mod rig;
mod tools;
