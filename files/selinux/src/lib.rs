//! The SELinux labels that a guest's own policy assigns to paths. A file that is created while the
//! guest is off can so get its label at once, and no boot has to relabel.
//!
//! [`Config`] parses `/etc/selinux/config` for the selected policy and the directory of its texts.
//! [`Labels::parse`] parses the texts, and [`Labels::label_for`] returns the same labels as
//! libselinux's `selabel_lookup`. The crate opens no files.
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
//! The texts are described in `file_contexts(5)`, their meaning in `selabel_file(5)`.
//!
//! # Hostile policies
//!
//! No text is trusted. Texts, lines, specifications and patterns have limits. Patterns are matched
//! in time that is linear in the length of the path. PCRE features that are not regular are
//! refused.
//!
//! # Errors
//!
//! [`Error`] if a policy as a whole exceeds a limit, because a part of it would give wrong labels.
//! An invalid line is a [`Problem`], and the other lines are used.
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
