//! The `diskfs` program as its users run it: output, exit codes, files that it writes.

mod backup;
mod between;
#[cfg(feature = "browse")]
mod browse;
mod build;
mod changing;
mod check;
mod convert;
mod convert_sources;
mod deploy;
mod diff;
mod drivers;
mod du;
mod encrypting;
mod errors;
mod examples;
#[cfg(feature = "export")]
mod export;
mod fat;
mod faults;
#[cfg(feature = "objects")]
mod fetch;
mod formats;
mod grep;
mod guest;
mod host_full;
#[cfg(feature = "nbd")]
mod hotplug;
#[cfg(feature = "objects")]
mod import;
mod listing;
mod log;
mod luks;
mod lvm;
mod making;
mod md;
mod memory;
mod mkfs;
mod mkfs_ext;
mod mkfs_large;
mod mkfs_owners;
mod newcomer;
#[cfg(feature = "objects")]
mod objects;
mod oci;
mod partition;
mod program;
mod progress;
#[cfg(feature = "objects")]
mod push;
mod qemu_img;
#[cfg(feature = "objects")]
mod registry;
#[cfg(feature = "nbd")]
mod remote;
mod resize;
mod resize_stacks;
mod room;
mod sandbox;
mod schemas;
mod seed;
#[cfg(all(feature = "serve", feature = "objects"))]
mod serve_images;
mod shell;
mod sparsify;
mod systems;
mod taking_out;
mod uefi;
mod validate;
mod volumes;
mod words;

use std::path::Path;
use std::process::{Command, Output};

use diskfs_fixtures::TempImage;
use serde_json::Value;

/// The path of the program under test.
const DISKFS: &str = env!("CARGO_BIN_EXE_diskfs");

/// A run of the program, with its output.
struct Run {
    output: Output,
}

/// Runs `diskfs` with these words, in the image's directory.
fn diskfs(image: &TempImage, words: &[&str]) -> Run {
    diskfs_in(image.directory(), words)
}

fn diskfs_in(directory: &Path, words: &[&str]) -> Run {
    diskfs_with(directory, words, &[])
}

/// Runs `diskfs` with these variables in its environment, too.
fn diskfs_with(directory: &Path, words: &[&str], variables: &[(&str, &str)]) -> Run {
    let output = Command::new(DISKFS)
        .args(words)
        .current_dir(directory)
        .env_remove("RUST_LOG")
        // The microVM backends of this host don't matter here: tests/vm tests them.
        .env("DISKFS_VM", "none")
        .envs(variables.iter().copied())
        .output()
        .expect("start diskfs");
    Run { output }
}

impl Run {
    fn code(&self) -> Option<i32> {
        self.output.status.code()
    }

    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    /// Returns the standard output of a run that must succeed and print nothing on standard error.
    fn bytes(&self) -> &[u8] {
        assert_eq!((self.code(), self.stderr()), (Some(0), String::new()));
        &self.output.stdout
    }

    /// Returns the standard output as text.
    fn text(&self) -> String {
        String::from_utf8(self.bytes().to_vec()).expect("the output is text")
    }

    /// Returns the standard output as JSON, which has its version and command.
    fn json(&self) -> Value {
        let value: Value = serde_json::from_slice(self.bytes()).expect("the output is JSON");
        assert_eq!(value["diskfs"]["version"], 1);
        assert!(value["diskfs"]["command"].is_string());
        value
    }

    /// Returns the exit code and standard error of a run that must fail.
    fn failure(&self) -> (i32, String) {
        let code = self
            .code()
            .expect("the program ends by itself, not by a signal");
        assert_ne!(
            code,
            0,
            "stdout: {}",
            String::from_utf8_lossy(&self.output.stdout)
        );
        (code, self.stderr())
    }
}

/// Returns the value of a string in JSON.
fn text_of(value: &Value) -> &str {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value} is not a string"))
}
