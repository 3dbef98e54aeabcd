//! Parsers and editors for the text files of `/etc`. They convert texts to texts.
//!
//! This crate opens no files: the caller passes in the text of a file. A parser that follows
//! includes gets a [`Files`], through which it reads.
//!
//! Every parser is lossless. Each type keeps the text, and parses lines on demand. An edit
//! replaces, adds or removes whole lines. Everything else stays byte for byte: comments, blank
//! lines, spaces, a missing last newline, and lines with too few or too many fields.
//! [`text::decode`] converts any bytes to text, and [`text::encode`] converts the text back to the
//! same bytes.
//!
//! ```
//! use diskfs_etc::fstab::Fstab;
//!
//! let mut fstab = Fstab::new("# static\nUUID=1 / ext4\nUUID=2 /srv ext4");
//! fstab.remove(|entry| entry.path == "/");
//! assert_eq!(fstab.text(), "# static\nUUID=2 /srv ext4");
//! ```
//!
//! # Untrusted input
//!
//! No input is trusted. No text makes a parser panic, time and memory are proportional to the size
//! of the text, and includes have limits.
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
