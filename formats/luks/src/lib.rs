//! LUKS1 and LUKS2 volumes as block devices, without device-mapper.
//!
//! * [`Header::read`] finds and parses a header.
//! * [`Header::unlock`] returns a [`VolumeKey`] for a passphrase, a key file's bytes or the volume
//!   key itself.
//! * [`Unlocked`] is the decrypted data as a device. It can be written if the device below can.
//! * [`format()`] creates a LUKS2 volume, [`Luks1Options::create`] the header of a LUKS1 volume.
//! * [`Luks1Keyslots`] adds and removes the keys of a LUKS1 volume.
//!
//! ```no_run
//! use std::sync::Arc;
//! use diskfs_block::{BlockRead, File};
//! use diskfs_luks::{Header, Key, Limits, Unlocked};
//!
//! let disk: Arc<dyn BlockRead> = Arc::new(File::open("disk.img")?);
//! let header = Header::read(&*disk)?.expect("it is a LUKS volume");
//! let key = header.unlock(&*disk, &Key::passphrase(b"secret"), &Limits::default())?;
//! let plain = Unlocked::new(disk, &header, &key)?;
//! let mut sector = [0; 512];
//! plain.read_at(0, &mut sector)?;
//! # Ok::<(), diskfs_block::Error>(())
//! ```
//!
//! A header in a file of its own (*detached*) is read and unlocked from that file's device;
//! [`Unlocked::new`] then gets the device with the data.
//!
//! # Trust
//!
//! The header is not trusted. Offsets, sizes, stripes and key lengths have limits and must agree
//! with each other. The caller sets the limits on key derivation in [`Limits`]. A key slot that is
//! damaged or unsupported does not prevent the others from being tried.
//!
//! # Errors
//!
//! * `Denied` if no key slot opens with the key.
//! * `Unsupported`, with the name of the feature: authenticated encryption, an unfinished
//!   reencryption, unknown requirements.
//! * `Corrupt` if the header is invalid.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

mod af;
mod cbc;
mod cipher_spec;
mod digest;
mod format;
mod hash;
mod header;
mod iv;
mod kdf;
mod key;
mod keyslot;
mod limits;
mod luks1;
mod luks2;
mod problem;
mod read_header;
mod sector_cipher;
mod segment;
mod unlocked;
mod xts;

pub use format::{FormatOptions, NewKdf, device_bytes, format};
pub use header::{Header, KeyslotState, Version};
pub use key::{Key, Secret, VolumeKey};
pub use keyslot::Priority;
pub use limits::Limits;
pub use luks1::{
    KeyslotGuard, Luks1Details, Luks1Keyslots, Luks1Options, Luks1Slot, NewKeyslot, NewLuks1,
};
pub use unlocked::Unlocked;
