//! The program `diskfs` of this checkout.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::command;

/// Builds the program from this checkout, with the profile that this one was built with.
pub(crate) fn build() -> Result<PathBuf> {
    let this = std::env::current_exe()?;
    let dir = this
        .parent()
        .context("the program has no parent directory")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args([
        "build",
        "--release",
        "--package",
        "diskfs",
        "--manifest-path",
    ]);
    build.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"));
    command::output(&mut build)?;
    Ok(dir.join("diskfs"))
}
