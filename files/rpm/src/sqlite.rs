//! SQLite's file format (<https://www.sqlite.org/fileformat2.html>), limited to reading the rows of
//! one table.

mod btree_page;
mod database_header;
mod pager;
mod record;
mod schema;
mod table;
mod varint;
mod wal;

use diskfs_block::{BlockRead, Result};

use crate::header::read_package;
use crate::package::Package;
use database_header::DatabaseHeader;
use pager::Pager;
use record::Record;
use table::Table;
use wal::Wal;

pub(crate) use database_header::is_sqlite;

/// The name of the table with the headers: `Packages(hnum INTEGER PRIMARY KEY, blob BLOB)`.
const TABLE: &str = "Packages";

/// The index of the column with the header, from 0.
const BLOB_COLUMN: usize = 1;

/// An open SQLite database, with the location of its packages.
#[derive(Debug)]
pub(crate) struct Sqlite<'d> {
    main: &'d dyn BlockRead,
    wal: Option<Wal<'d>>,
    header: DatabaseHeader,
    root: u32,
}

impl<'d> Sqlite<'d> {
    pub(crate) fn open(main: &'d dyn BlockRead, wal: Option<&'d dyn BlockRead>) -> Result<Self> {
        let header = DatabaseHeader::read(main)?;
        let wal = wal.map(|wal| Wal::open(wal, header.page_bytes));
        let wal = wal.transpose()?.flatten();
        let mut pager = Pager::new(main, wal.as_ref(), header)?;
        let root = schema::root_of(TABLE, &mut pager)?;
        Ok(Self {
            main,
            wal,
            header,
            root,
        })
    }

    pub(crate) fn packages(&self) -> Result<Packages<'_>> {
        Ok(Packages {
            pager: Pager::new(self.main, self.wal.as_ref(), self.header)?,
            table: Table::at(self.root),
        })
    }
}

/// An iterator over the packages of all rows.
#[derive(Debug)]
pub(crate) struct Packages<'a> {
    pager: Pager<'a>,
    table: Table,
}

impl Packages<'_> {
    pub(crate) fn next(&mut self) -> Option<Result<Package>> {
        let row = match self.table.next(&mut self.pager)? {
            Ok(row) => row,
            Err(error) => return Some(Err(error)),
        };
        let package = Record::open(row.payload(&mut self.pager))
            .and_then(|record| record.into_blob(BLOB_COLUMN))
            .and_then(|mut blob| read_package(&mut blob));
        Some(package.map_err(|error| row.name_in(&error)))
    }
}
