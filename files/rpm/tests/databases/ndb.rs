//! Tests of ndb. Debian's rpm does not support it, so the databases are fixtures (see `make`), with
//! the output of an rpm that does.

use diskfs_rpm::Format;

use crate::facts::{assert_same, fixture, lines, sorted_lines};

#[test]
fn slots_that_are_free_again_and_headers_that_were_moved() {
    let database = fixture(include_bytes!("large.ndb.zst"));
    let expected = sorted_lines(include_str!("large.ndb.txt"));
    assert_same(&lines(&database, None, Format::Ndb), &expected);
}

#[test]
fn little() {
    let database = fixture(include_bytes!("tiny.ndb.zst"));
    let expected = sorted_lines(include_str!("tiny.ndb.txt"));
    assert_same(&lines(&database, None, Format::Ndb), &expected);
}
