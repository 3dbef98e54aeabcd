//! Functions to run QEMU's programs, and a random number generator.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use diskfs_fixtures::{have, until_measured};

use crate::encryption::with_keys;

/// Returns true if QEMU's programs are installed. Without them a test is skipped, except in CI,
/// where it fails.
pub(crate) fn have_qemu() -> bool {
    have(&["qemu-img", "qemu-io", "qemu-storage-daemon"])
}

/// Starts a program, one at a time.
///
/// Until it runs its program, a child that another thread has forked holds the locks of all images
/// that were open at the fork, even if they were closed since. QEMU checks locks once, so it must
/// not be started meanwhile.
pub(crate) fn start(command: &mut Command) -> Child {
    static STARTING: Mutex<()> = Mutex::new(());
    let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    // Spawning returns when the program runs.
    command
        .spawn()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

/// Runs a program in `dir` and returns its output, whether or not it failed. QEMU's programs get
/// the key of an encrypted image.
pub(crate) fn try_run(dir: &Path, program: &str, args: &[&str]) -> Output {
    let args = with_keys(dir, program, args);
    let mut command = Command::new(program);
    command.args(args).current_dir(dir).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    until_measured(|| start(&mut command).wait_with_output()).unwrap()
}

/// Creates `disk.qcow2` in `dir` by qemu-img.
pub(crate) fn create(dir: &Path, options: &str, size: &str) {
    let args = [
        "create",
        "-q",
        "-f",
        "qcow2",
        "-o",
        options,
        "disk.qcow2",
        size,
    ];
    run(dir, "qemu-img", &args);
}

/// Runs a program in `dir`, which must succeed, and returns its standard output.
pub(crate) fn run(dir: &Path, program: &str, args: &[&str]) -> String {
    let output = try_run(dir, program, args);
    assert!(
        output.status.success(),
        "{program} {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Reads a number from the environment.
pub(crate) fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| value.parse().expect(variable))
}

/// Returns the bytes of the guest's disk, read by qemu-img; `None` if it cannot read them: some
/// sequences of snapshots and compressed writes leave clusters that QEMU itself overwrote.
pub(crate) fn converted(dir: &Path, image: &str, extra: &[&str]) -> Option<Vec<u8>> {
    let out: PathBuf = dir.join(format!("{image}.oracle"));
    let out_name = out.to_str().unwrap();
    let args = [&["convert", "-q"], extra, &["-O", "raw", image, out_name]].concat();
    let converted = try_run(dir, "qemu-img", &args).status.success();
    let bytes = std::fs::read(&out);
    let _ = std::fs::remove_file(&out);
    converted.then(|| bytes.unwrap())
}

/// The generator xorshift64*, with the same numbers for the same seed everywhere.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end
    }

    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap()]
    }

    /// Returns true with a probability of 1 in `n`.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}
