//! The databases of installed packages that rpm keeps, read without rpm: as SQLite (`rpmdb.sqlite`),
//! as rpm's own ndb (`Packages.db`), and as Berkeley DB (`Packages`).
//!
//! [`Database::open`] tells from the first bytes which of them a file is; [`Database::packages`]
//! goes through the packages, with the facts of each ([`Package`]). Nothing is ever written, and no
//! database is held in memory: of each package only what is asked is read.
//!
//! ```no_run
//! use diskfs_block::File;
//! use diskfs_rpm::Database;
//!
//! let file = File::open("var/lib/rpm/rpmdb.sqlite")?;
//! let wal = File::open("var/lib/rpm/rpmdb.sqlite-wal").ok();
//! let database = Database::open(&file, wal.as_ref().map(|wal| wal as _))?;
//! for package in database.packages() {
//!     match package {
//!         Ok(package) => println!("{} {}", package.name, package.evr()),
//!         Err(error) => eprintln!("a package is left out: {error}"),
//!     }
//! }
//! # Ok::<(), diskfs_block::Error>(())
//! ```
//!
//! # What is trusted
//!
//! Nothing. Each page of a database is used once at most, so that what points in a circle ends;
//! counts and lengths have limits and must agree with the file's size.
//!
//! # Errors
//!
//! `Corrupt` and `Unsupported` when the database cannot be read at all. An error among the packages
//! costs what lies behind it (a package, or those of a page), and the others follow; after a hundred
//! of them the list ends with an error.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

mod bdb;
mod blob;
mod byte_order;
mod chain;
mod database;
mod header;
mod ndb;
mod package;
mod sqlite;
mod visited;
mod window;

pub use database::{Database, Form, Packages};
pub use package::Package;
