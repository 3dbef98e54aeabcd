//! An HTTP server of disk images.
//!
//! A [`Server`] offers the files of one directory, read-only: `GET /` lists them as JSON, and `GET
//! /NAME` and `HEAD /NAME` send one of them, whole or by ranges (RFC 9110). `GET
//! /NAME?bytes=FIRST-LAST` sends a part that may be compressed. Each version of a file has a strong
//! `ETag`, and an answer has bytes of one version only.
//!
//! # Limits
//!
//! `DESIGN.md` has them, and says what a client cannot do.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

mod access;
mod answer;
mod body;
mod conditions;
mod connection;
mod frame;
mod images;
mod listing;
mod pattern;
mod range;
mod response;
mod server;
mod slice;
mod version;

pub use access::Access;
pub use images::{Image, Images};
pub use listing::{Describe, Described};
pub use server::{Listeners, Options, Server};
pub use version::Version;
