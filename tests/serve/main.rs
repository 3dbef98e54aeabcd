//! `diskfs serve deploy`, driven by a foreign client: grpcio from Python, over the .proto files.

mod bad_input;
mod deploy;
mod disks;
mod go_client;
mod guest;
mod keys;
mod killed;
mod operations;
mod room;
mod server;
mod side_by_side;
mod traces;
mod vectors;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const DISKFS: &str = env!("CARGO_BIN_EXE_diskfs");

/// Runs `diskfs` in a directory.
fn diskfs(directory: &Path, words: &[&str]) -> Output {
    Command::new(DISKFS)
        .args(words)
        .current_dir(directory)
        .env_remove("RUST_LOG")
        .env("DISKFS_VM", "none")
        .output()
        .expect("start diskfs")
}

/// Returns the standard output of `diskfs`, which must succeed.
fn text(directory: &Path, words: &[&str]) -> String {
    let output = diskfs(directory, words);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "diskfs {words:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns a text in JSON.
fn word<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}
