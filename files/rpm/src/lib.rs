//! A reader for rpm's databases of installed packages, without rpm: SQLite (`rpmdb.sqlite`), rpm's
//! own format ndb (`Packages.db`) and Berkeley DB (`Packages`).
//!
//! [`Database::open`] detects the format from the first bytes of a file, and [`Database::packages`]
//! iterates over the packages and reads the fields of [`Package`]. Nothing is ever written. No
//! database is loaded into memory: only the needed parts of each package's header are read.
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
//!         Err(error) => eprintln!("cannot read a package: {error}"),
//!     }
//! }
//! # Ok::<(), diskfs_block::Error>(())
//! ```
//!
//! # Hostile files
//!
//! No value in the file is trusted. Each page of a database is used at most once, which rules out
//! loops. Counts and lengths have limits and must fit into the file.
//!
//! # Errors
//!
//! `Corrupt` and `Unsupported` if the database cannot be read. An error of the iterator means that
//! a package, or those of a page, could not be read; the following ones are still returned. After a
//! hundred errors the iteration ends with a final error.
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

pub use database::{Database, Format, Packages};
pub use package::Package;
