//! Tests of Berkeley DB: databases that its own `db_load` makes from the guest's headers are read
//! as rpm reads them.

use std::path::Path;

use diskfs_block::File;
use diskfs_fixtures::{require, run};
use diskfs_rpm::Format;

use crate::facts::{assert_same, fixture, lines, sorted_lines};
use crate::guest::{guest, python, said};

/// A script that prints the headers in the format of `db_load`: after the counter, with their
/// numbers in the given byte order.
const DUMP: &str = r#"
import sqlite3, sys
rows = sqlite3.connect(sys.argv[1]).execute("SELECT hnum, blob FROM Packages").fetchall()
for order in "little", "big":
    with open(sys.argv[2] + "/" + order, "w") as dump:
        print("VERSION=3\nformat=bytevalue\ntype=hash\nHEADER=END", file=dump)
        print(" 00000000\n 63000000", file=dump)
        for number, blob in rows:
            print(f" {number.to_bytes(4, order).hex()}\n {blob.hex()}", file=dump)
        print("DATA=END", file=dump)
"#;

fn load(dump: &Path, settings: &[&str], to: &Path) {
    let settings = settings.iter().flat_map(|setting| ["-c", setting]);
    let files = ["-f", dump.to_str().unwrap(), to.to_str().unwrap()];
    run("db5.3_load", settings.chain(files)).unwrap();
}

#[test]
fn pages_of_every_size_in_both_byte_orders() {
    let Some(guest) = guest().filter(|_| require("db5.3_load").is_some()) else {
        return;
    };
    let expected = said("sqlite", &guest.database());
    let dir = tempfile::tempdir().unwrap();
    let from = guest.database().join("rpmdb.sqlite");
    python(DUMP, [&*from, dir.path()]);
    for page_bytes in ["512", "4096", "65536"] {
        for (order, number) in [("little", "1234"), ("big", "4321")] {
            // A low fill factor makes many buckets, so that the table doubles often; a high one
            // makes chains.
            for fill in ["1", "1000"] {
                let at = dir.path().join(format!("{page_bytes}-{order}-{fill}"));
                std::fs::create_dir(&at).unwrap();
                let settings = [
                    &*format!("db_pagesize={page_bytes}"),
                    &*format!("db_lorder={number}"),
                    &*format!("h_ffactor={fill}"),
                ];
                let file = at.join("Packages");
                load(&dir.path().join(order), &settings, &file);
                let found = lines(&File::open(&file).unwrap(), None, Format::Bdb);
                assert_same(&found, &expected);
                assert_same(&said("bdb_ro", &at), &expected);
                std::fs::remove_file(file).unwrap();
            }
        }
    }
}

#[test]
fn little() {
    let database = fixture(include_bytes!("tiny.bdb.zst"));
    let expected = sorted_lines(include_str!("plain.sqlite.txt"));
    assert_same(&lines(&database, None, Format::Bdb), &expected);
}
