//! Berkeley DB's hash access method (Oracle Berkeley DB, `src/dbinc/db_page.h`), the format of
//! `Packages` in rpm up to 4.15. Keys are the packages' numbers, values their headers. Numbers are
//! in the byte order of the machine that wrote the file.

mod hash_page;
mod meta;
mod pages;

use diskfs_block::{BlockRead, Error, Result};

use crate::chain::Chain;
use crate::header::read_package;
use crate::package::Package;
use hash_page::{HashPage, Item};
use meta::HashMeta;
use pages::Pages;

pub(crate) use meta::is_bdb;

/// The key of the counter that numbers packages. Its value is not a header.
const COUNTER: &[u8] = &[0; 4];

/// An open Berkeley DB database.
#[derive(Debug)]
pub(crate) struct Bdb<'d> {
    device: &'d dyn BlockRead,
    meta: HashMeta,
}

impl<'d> Bdb<'d> {
    pub(crate) fn open(device: &'d dyn BlockRead) -> Result<Self> {
        let meta = HashMeta::read(device)?;
        Ok(Self { device, meta })
    }

    pub(crate) fn packages(&self) -> Result<Packages<'_>> {
        Ok(Packages {
            pages: Pages::new(self.device, &self.meta)?,
            meta: &self.meta,
            next_bucket: 0,
            next_page: 0,
            page: None,
        })
    }
}

/// An iterator over the packages. It visits all buckets; each is a chain of pages with keys and
/// values.
#[derive(Debug)]
pub(crate) struct Packages<'a> {
    meta: &'a HashMeta,
    pages: Pages<'a>,
    next_bucket: u32,
    /// The next page of the bucket; 0 after its last one.
    next_page: u32,
    page: Option<(HashPage, usize)>,
}

impl Packages<'_> {
    pub(crate) fn next(&mut self) -> Option<Result<Package>> {
        loop {
            let Some((page, pair)) = self.page.as_mut() else {
                match self.enter() {
                    Ok(true) => continue,
                    Ok(false) => return None,
                    Err(error) => return Some(Err(error)),
                }
            };
            if *pair >= page.pairs() {
                self.page = None;
                continue;
            }
            let number = *pair;
            *pair = number.saturating_add(1);
            match package(page, number, &mut self.pages) {
                Ok(None) => {}
                Ok(Some(package)) => return Some(Ok(package)),
                Err(error) => return Some(Err(page.name_in(number, &error))),
            }
        }
    }

    /// Loads the next page of this bucket, or else of the next one. Returns false if there are no
    /// more.
    fn enter(&mut self) -> Result<bool> {
        let number = match self.next_page {
            0 => {
                let bucket = self.next_bucket;
                if bucket > self.meta.max_bucket {
                    return Ok(false);
                }
                self.next_bucket = bucket.saturating_add(1);
                self.meta.page_of(bucket)?
            }
            number => number,
        };
        self.next_page = 0;
        if let Some(page) = self.pages.hash_page(number)? {
            self.next_page = page.next();
            self.page = Some((page, 0));
        }
        Ok(true)
    }
}

/// Reads the package of a key-value pair; `None` for the counter.
fn package(page: &HashPage, pair: usize, pages: &mut Pages<'_>) -> Result<Option<Package>> {
    let (key, value) = page.pair(pair)?;
    match key {
        Item::OnPage(key) if key == COUNTER => return Ok(None),
        Item::OnPage(key) if key.len() == COUNTER.len() => {}
        _ => return Err(Error::corrupt("invalid key: expected a number of 4 bytes")),
    }
    let mut blob = match value {
        Item::OnPage(value) => {
            let len_bytes = diskfs_block::bytes::len_u64(value.len());
            Chain::new(pages, value, 0, len_bytes)
        }
        Item::OffPage { first, len_bytes } => Chain::new(pages, &[], first, len_bytes.into()),
    };
    read_package(&mut blob).map(Some)
}
