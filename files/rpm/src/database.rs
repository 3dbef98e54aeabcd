//! A database of any form.

use diskfs_block::bytes::index;
use diskfs_block::{BlockRead, Error, Result};

use crate::bdb::{self, Bdb};
use crate::ndb::{self, Ndb};
use crate::package::Package;
use crate::sqlite::{self, Sqlite};

/// All forms tell themselves by then.
const MAGIC_BYTES: u64 = 16;

/// What is broken in more places has nothing more to tell that is worth the time.
const MAX_ERRORS: u32 = 100;

/// How a database is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Form {
    /// `rpmdb.sqlite`: SQLite; rpm since 4.16.
    Sqlite,
    /// `Packages.db`: rpm's own ndb; SUSE.
    Ndb,
    /// `Packages`: a hash of Berkeley DB; rpm before 4.16.
    Bdb,
}

impl Form {
    /// Its name in rpm's configuration (`%_db_backend`).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Ndb => "ndb",
            Self::Bdb => "bdb",
        }
    }
}

/// A database of packages, of whatever form.
#[derive(Debug)]
pub struct Database<'d> {
    kind: Kind<'d>,
}

#[derive(Debug)]
enum Kind<'d> {
    Sqlite(Sqlite<'d>),
    Ndb(Ndb<'d>),
    Bdb(Bdb<'d>),
}

impl<'d> Database<'d> {
    /// The database in the file `main`, of the form that its first bytes tell. `wal` is the file
    /// beside it whose name ends in `-wal`, if there is one: it has what a running system, or one
    /// that crashed, has not written back yet. Only SQLite has it; with other forms it is ignored.
    ///
    /// # Errors
    /// `Corrupt` and `Unsupported`, by name; `NotFound` when there is no table of packages; what a
    /// device answers when it cannot be read.
    pub fn open(main: &'d dyn BlockRead, wal: Option<&'d dyn BlockRead>) -> Result<Self> {
        let mut start = vec![0; index(main.size_bytes().min(MAGIC_BYTES))];
        main.read_at(0, &mut start)?;
        let kind = match () {
            () if sqlite::is_sqlite(&start) => Kind::Sqlite(Sqlite::open(main, wal)?),
            () if ndb::is_ndb(&start) => Kind::Ndb(Ndb::open(main)?),
            () if bdb::is_bdb(&start) => Kind::Bdb(Bdb::open(main)?),
            () => return Err(Error::corrupt("it is no database that rpm makes")),
        };
        Ok(Self { kind })
    }

    /// How it is kept.
    pub fn form(&self) -> Form {
        match self.kind {
            Kind::Sqlite(_) => Form::Sqlite,
            Kind::Ndb(_) => Form::Ndb,
            Kind::Bdb(_) => Form::Bdb,
        }
    }

    /// Its packages, in the order that they lie in. An error is about what is left out for it; the list
    /// is whole when there is none.
    pub fn packages(&self) -> Packages<'_> {
        let walk = match &self.kind {
            Kind::Sqlite(sqlite) => sqlite.packages().map(Walk::Sqlite),
            Kind::Ndb(ndb) => Ok(Walk::Ndb(ndb.packages())),
            Kind::Bdb(bdb) => bdb.packages().map(Walk::Bdb),
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

/// The packages of a [`Database`].
#[derive(Debug)]
#[must_use = "nothing is read before it is asked for"]
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
            let reason = format!("after {MAX_ERRORS} of them, the rest is left out");
            self.walk = Walk::Failed(Error::corrupt(reason));
        }
    }
}

impl std::iter::FusedIterator for Packages<'_> {}
