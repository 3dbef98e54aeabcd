//! The databases of all formats, behind one type.

use diskfs_block::bytes::index;
use diskfs_block::{BlockRead, Error, Result};

use crate::bdb::{self, Bdb};
use crate::ndb::{self, Ndb};
use crate::package::Package;
use crate::sqlite::{self, Sqlite};

/// The number of bytes that identify each format.
const MAGIC_BYTES: u64 = 16;

/// The maximum number of errors. Listing a database with more damage is not worth the time.
const MAX_ERRORS: u32 = 100;

/// The format of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// `rpmdb.sqlite`: SQLite, since rpm 4.16.
    Sqlite,
    /// `Packages.db`: rpm's own format ndb, on SUSE.
    Ndb,
    /// `Packages`: a hash of Berkeley DB, before rpm 4.16.
    Bdb,
}

impl Format {
    /// Returns the name of the format in rpm's configuration (`%_db_backend`).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Ndb => "ndb",
            Self::Bdb => "bdb",
        }
    }
}

/// An open database of packages, in any of the formats.
#[derive(Debug)]
pub struct Database<'d> {
    kind: AnyDatabase<'d>,
}

#[derive(Debug)]
enum AnyDatabase<'d> {
    Sqlite(Sqlite<'d>),
    Ndb(Ndb<'d>),
    Bdb(Bdb<'d>),
}

impl<'d> Database<'d> {
    /// Opens the database in the file `main`, whose format is detected from its first bytes. `wal`
    /// is the file beside it with the suffix `-wal`, if there is one: the changes that a running or
    /// crashed system has not yet written back. Only SQLite has this file; it is ignored with other
    /// formats.
    ///
    /// # Errors
    /// `Corrupt` and `Unsupported`, with the reason; `NotFound` if there is no table of packages;
    /// the errors of the device.
    pub fn open(main: &'d dyn BlockRead, wal: Option<&'d dyn BlockRead>) -> Result<Self> {
        let mut start = vec![0; index(main.size_bytes().min(MAGIC_BYTES))];
        main.read_at(0, &mut start)?;
        let kind = match () {
            () if sqlite::is_sqlite(&start) => AnyDatabase::Sqlite(Sqlite::open(main, wal)?),
            () if ndb::is_ndb(&start) => AnyDatabase::Ndb(Ndb::open(main)?),
            () if bdb::is_bdb(&start) => AnyDatabase::Bdb(Bdb::open(main)?),
            () => return Err(Error::corrupt("not an rpm database")),
        };
        Ok(Self { kind })
    }

    /// Returns the format.
    pub fn format(&self) -> Format {
        match self.kind {
            AnyDatabase::Sqlite(_) => Format::Sqlite,
            AnyDatabase::Ndb(_) => Format::Ndb,
            AnyDatabase::Bdb(_) => Format::Bdb,
        }
    }

    /// Returns the packages in the order of the database. Each error is about a package or several
    /// that could not be read. The list is complete if there are no errors.
    pub fn packages(&self) -> Packages<'_> {
        let walk = match &self.kind {
            AnyDatabase::Sqlite(sqlite) => sqlite.packages().map(Walk::Sqlite),
            AnyDatabase::Ndb(ndb) => Ok(Walk::Ndb(ndb.packages())),
            AnyDatabase::Bdb(bdb) => bdb.packages().map(Walk::Bdb),
        };
        Packages {
            walk: walk.unwrap_or_else(Walk::Failed),
            errors: 0,
        }
    }
}

#[derive(Debug)]
enum Walk<'a> {
    Sqlite(sqlite::Packages<'a>),
    Ndb(ndb::Packages<'a>),
    Bdb(bdb::Packages<'a>),
    Failed(Error),
    Ended,
}

/// An iterator over the packages of a [`Database`].
#[derive(Debug)]
#[must_use = "iterators are lazy: nothing is read before `next` is called"]
pub struct Packages<'a> {
    walk: Walk<'a>,
    errors: u32,
}

impl Iterator for Packages<'_> {
    type Item = Result<Package>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = match &mut self.walk {
            Walk::Sqlite(packages) => packages.next(),
            Walk::Ndb(packages) => packages.next(),
            Walk::Bdb(packages) => packages.next(),
            Walk::Failed(_) | Walk::Ended => match std::mem::replace(&mut self.walk, Walk::Ended) {
                Walk::Failed(error) => return Some(Err(error)),
                _ => return None,
            },
        };
        match &next {
            None => self.walk = Walk::Ended,
            Some(Ok(_)) => {}
            Some(Err(_)) => self.count_error(),
        }
        next
    }
}

impl Packages<'_> {
    fn count_error(&mut self) {
        self.errors = self.errors.saturating_add(1);
        if self.errors == MAX_ERRORS {
            let reason =
                format!("too many errors: the packages after error {MAX_ERRORS} are skipped");
            self.walk = Walk::Failed(Error::corrupt(reason));
        }
    }
}

impl std::iter::FusedIterator for Packages<'_> {}
