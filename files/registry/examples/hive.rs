//! Prints a key of a hive with everything below it:
//! `cargo run --example hive -- FILE [KEY] [LOG...]`.
#![allow(clippy::print_stdout, reason = "the example prints")]

use std::sync::Arc;

use diskfs_block::{BlockRead, File};
use diskfs_registry::{Hive, Key};

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().unwrap_or_else(|| String::from("SYSTEM"));
    let path = arguments.next().unwrap_or_default();
    let open = |path: String| -> diskfs_block::Result<Arc<dyn BlockRead>> {
        Ok(Arc::new(File::open(path)?))
    };
    let logs: Vec<_> = arguments.map(open).collect::<Result<_, _>>()?;
    let hive = Hive::open(open(file)?, &logs)?;
    println!("; {:?}, {:?}", hive.version(), hive.recovery());
    match hive.root()?.subkey(&path)? {
        Some(key) => print(&key, &path),
        None => anyhow::bail!("no such key: `{path}`"),
    }
}

fn print(key: &Key<'_>, path: &str) -> anyhow::Result<()> {
    println!("[{path}] ; {}", key.last_written());
    for value in key.values()? {
        let value = value?;
        println!("{:?} = {:?}", value.name(), value.value()?);
    }
    for subkey in key.subkeys()? {
        let subkey = subkey?;
        print(&subkey, &format!("{path}\\{}", subkey.name()))?;
    }
    Ok(())
}
