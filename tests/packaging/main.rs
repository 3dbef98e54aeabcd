//! The files of `packaging/`: other programs accept them, and diskfs accepts what they pass to it.
#![expect(clippy::unwrap_used, reason = "it is a test")]

mod debian;
mod hardening;
mod kubernetes;
mod static_program;
mod systemd;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Returns the path of a file of `packaging/`.
fn packaging(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("packaging")
        .join(path)
}

/// Runs diskfs in a directory.
fn diskfs(directory: &Path, words: &[String]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_diskfs"));
    command.args(words).current_dir(directory).output().unwrap()
}
