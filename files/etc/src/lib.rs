//! The text files of `/etc`: texts in, texts out.
//!
//! Nothing here opens a file: whoever has the text of one passes it in. A parser that follows includes gets a
//! [`Files`], which reads for it.
//!
//! Every parser is lossless. Each type keeps the text as it is, parses lines when they are asked for, and an
//! edit replaces, adds or removes whole lines: comments, blank lines, spaces, a missing last newline and lines
//! with too few or too many fields come out as they went in. [`text::decode`] makes the text of any bytes, and
//! [`text::encode`] gives the same bytes back.
//!
//! ```
//! use diskfs_etc::fstab::Fstab;
//!
//! let mut fstab = Fstab::new("# static\nUUID=1 / ext4\nUUID=2 /srv ext4");
//! fstab.remove(|entry| entry.path == "/");
//! assert_eq!(fstab.text(), "# static\nUUID=2 /srv ext4");
//! ```
//!
//! # What is trusted
//!
//! Nothing. No text makes a parser panic, time and memory grow with the text alone, and includes have limits.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

pub mod authorized_keys;
pub mod crypttab;
mod fields;
mod files;
pub mod fstab;
pub mod group;
pub mod gshadow;
pub mod os_release;
pub mod passwd;
pub mod shadow;
pub mod shell;
pub mod sshd_config;
pub mod sudoers;
pub mod table;
pub mod text;

pub use files::Files;
