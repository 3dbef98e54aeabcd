//! The SELinux label that a guest's own policy gives a path, so that a file made while the guest is off
//! has it at once, and no boot has to relabel.
//!
//! [`Config`] tells from `/etc/selinux/config` which policy counts and where its texts are;
//! [`Labels::parse`] takes the texts, and [`Labels::label_for`] answers as libselinux's
//! `selabel_lookup` does. The crate opens no file.
//!
//! ```
//! use diskfs_selinux::{Config, FileKind, Labels, Texts};
//!
//! let config = Config::parse(b"SELINUX=enforcing\nSELINUXTYPE=targeted\n");
//! assert_eq!(
//!     config.contexts_directory().as_deref(),
//!     Some("/etc/selinux/targeted/contexts/files")
//! );
//!
//! let labels = Labels::parse(&Texts {
//!     file_contexts: b"/etc/.*  system_u:object_r:etc_t:s0\n\
//!         /etc/shadow.*  --  system_u:object_r:shadow_t:s0\n\
//!         /tmp/.*  <<none>>\n",
//!     ..Texts::default()
//! })?;
//! let label = labels.label_for(b"/etc/shadow", FileKind::Regular).unwrap();
//! assert_eq!(label.type_name(), "shadow_t");
//! assert_eq!(label.xattr_value(), b"system_u:object_r:shadow_t:s0\0");
//! assert!(labels.label_for(b"/tmp/x", FileKind::Regular).is_none());
//! # Ok::<(), diskfs_selinux::Error>(())
//! ```
//!
//! The texts are those of `file_contexts(5)`, the rules those of `selabel_file(5)`.
//!
//! # What is trusted
//!
//! Nothing. Texts, lines, specifications and patterns have limits; patterns are matched in time that is
//! linear in the path; what a pattern of PCRE has beyond regular languages is refused.
//!
//! # Errors
//!
//! [`Error`], when a policy as a whole is beyond a limit: half of it would give wrong labels. A line
//! that says nothing sensible is a [`Problem`], and the others count.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

mod config;
mod context;
mod error;
mod file_kind;
mod labels;
mod lines;
mod path;
mod pattern;
mod problem;
mod spec;
mod spec_line;
mod stem;
mod subs;

pub use config::{Config, Mode};
pub use context::Context;
pub use error::{Error, Result};
pub use file_kind::FileKind;
pub use labels::{Labels, Texts};
pub use problem::{Problem, Text};
