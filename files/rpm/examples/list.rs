//! Lists the packages of a database, and the time that this takes:
//! `cargo run -p diskfs-rpm --example list -- var/lib/rpm/rpmdb.sqlite`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program")]

use std::time::Instant;

use anyhow::{Context, Result};
use diskfs_block::{BlockRead, Counting, File};
use diskfs_rpm::Database;

fn main() -> Result<()> {
    let path = std::env::args()
        .nth(1)
        .context("missing argument: the path of a database")?;
    let main = Counting::new(std::sync::Arc::new(File::open(&path)?));
    let wal = File::open(format!("{path}-wal")).ok();
    let wal = wal.as_ref().map(|wal| -> &dyn BlockRead { wal });
    let began = Instant::now();
    let database = Database::open(&main, wal)?;
    let packages: Vec<_> = database.packages().collect();
    let took = began.elapsed();
    for package in &packages {
        match package {
            Ok(package) => println!("{} {}", package.name, package.evr()),
            Err(error) => eprintln!("cannot read a package: {error}"),
        }
    }
    let counts = main.counts();
    eprintln!(
        "{} packages in {:.1} ms, with {} reads of {:.1} of {:.1} MiB",
        packages.len(),
        took.as_secs_f64() * 1000.0,
        counts.reads,
        mebibytes(counts.read_bytes),
        mebibytes(main.size_bytes())
    );
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "a figure to be printed")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
