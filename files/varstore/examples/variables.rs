//! Prints the variables and boot entries of a flash file:
//! `cargo run --example variables -- OVMF_VARS_4M.fd`.
#![allow(clippy::print_stdout, reason = "the example prints")]

use diskfs_varstore::VariableStore;

fn main() -> anyhow::Result<()> {
    let file = std::env::args()
        .nth(1)
        .unwrap_or_else(|| String::from("/usr/share/OVMF/OVMF_VARS_4M.fd"));
    let store = VariableStore::open(std::fs::read(file)?)?;
    for variable in store.variables() {
        let (name, vendor, bytes) = (&variable.name, variable.vendor, variable.data.len());
        println!(
            "{name} {vendor} {:#x}, {bytes} bytes",
            variable.attributes.0
        );
    }
    for entry in store.boot_entries() {
        let option = entry.option?;
        let path = option.path().map(ToString::to_string).unwrap_or_default();
        println!("Boot{:04X} {:?} {path}", entry.number, option.description);
    }
    println!(
        "BootOrder {:04X?}, BootNext {:04X?}",
        store.boot_order()?,
        store.boot_next()?
    );
    println!(
        "{:?}, fault tolerant writes: {:?}",
        store.usage(),
        store.fault_tolerant_write()
    );
    Ok(())
}
