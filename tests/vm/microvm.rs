//! The tests of the microVM. The appliance is that of `$DISKFS_APPLIANCE`, or the one that
//! `packaging/appliance/build` has built in `target/appliance`.

mod clones;
mod deploy;
mod endings;
mod guest_kernel;
mod kills;
mod kinds;
mod latency;
mod layers;
mod missing;
mod mounted;
mod one_machine;
mod pool;
mod programs;
mod qemu;
mod sandboxes;
mod service;
mod several_devices;
mod tools;

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use diskfs::Disk;
use diskfs::vm::{BackendChoice, BackendKind, MicroVm, VmOptions};
use diskfs_fixtures::{require, require_appliance as appliance};

/// The path of the program under test.
const DISKFS: &str = env!("CARGO_BIN_EXE_diskfs");

/// Returns the command of the program, with the appliance and a separate cache.
fn command(appliance: &Path, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new(DISKFS);
    command.args(words).env("DISKFS_APPLIANCE", appliance);
    command.env_remove("DISKFS_VM");
    command.env("DISKFS_CONFIG", ""); // Ignore the user's configuration.
    command.env("DISKFS_DRIVER", "vm"); // Also for filesystems with a driver of diskfs.
    command
}

/// Runs the program, which must succeed, and returns its output.
fn diskfs(appliance: &Path, words: &[&OsStr]) -> Vec<u8> {
    let output = command(appliance, words).output().expect("start diskfs");
    assert!(output.status.success(), "{words:?}: {}", stderr(&output));
    output.stdout
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the word `IMG:/path` for a path of an image.
fn at(image: &Path, path: &str) -> std::ffi::OsString {
    let mut operand = image.as_os_str().to_owned();
    operand.push(":");
    operand.push(path);
    operand
}

/// Opens an image with a microVM as the fallback.
fn open(appliance: &Path, image: &Path) -> Disk {
    Disk::options()
        .fallback(Arc::new(micro_vm(appliance)))
        .always_fallback()
        .open(image)
        .expect("open the image")
}

fn micro_vm(appliance: &Path) -> MicroVm {
    MicroVm::new(VmOptions {
        choice: BackendChoice::Only(BackendKind::Uml),
        appliance: Some(appliance.to_owned()),
        ..VmOptions::default()
    })
}

/// Checks the image with another program, which must report that it is clean.
fn check(program: &str, words: &[&str], image: &Path) {
    let output = diskfs_fixtures::command(program)
        .args(words)
        .arg(image)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .stdin(Stdio::null())
        .output()
        .expect(program);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{program}: {said}{}",
        stderr(&output)
    );
}

/// Returns `Some` if all of these programs are installed; otherwise skips the test.
fn require_all(programs: &[&str]) -> Option<()> {
    programs.iter().try_for_each(|program| require(program))
}
