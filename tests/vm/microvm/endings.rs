//! The ends of machines: orderly, killed, and together with the process that started them.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use diskfs::vfs::{NewAttributes, NewKind, SyncFile};
use diskfs::vm::{BackendChoice, BackendKind, MicroVm, VmOptions};
use diskfs::{Disk, WriteOptions};
use diskfs_fixtures::{Workshop, run};
use rustix::process::{Signal, kill_process};

use super::{appliance, at, check, command, diskfs, micro_vm, open, require_all};

fn xfs(shop: &Workshop) -> std::path::PathBuf {
    let image = shop.sparse_file("xfs.img", 320 << 20).unwrap();
    run("mkfs.xfs", [Path::new("-q"), &image]).unwrap();
    image
}

/// Returns the processes whose program is this kernel.
pub(super) fn machines(appliance: &Path) -> Vec<rustix::process::Pid> {
    let kernel = appliance.join("uml").canonicalize().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let of_kernel = |process: &std::fs::DirEntry| {
        std::fs::read_link(process.path().join("exe")).is_ok_and(|exe| exe == kernel)
    };
    let found = processes.filter(of_kernel);
    let numbers = found.filter_map(|process| process.file_name().to_str()?.parse().ok());
    numbers.filter_map(rustix::process::Pid::from_raw).collect()
}

/// Makes a separate copy of the kernel, so that the machines of other tests are not counted.
pub(super) fn own_appliance(shop: &Workshop, appliance: &Path) -> std::path::PathBuf {
    let own = shop.path("appliance");
    std::fs::create_dir(&own).unwrap();
    // Copied by another process: if this process had the file open for writing, a machine that
    // another test starts at the same time would inherit the descriptor, and the file could then
    // not be executed.
    run("cp", [appliance.join("uml"), own.join("uml")]).unwrap();
    own
}

#[test]
fn killed_it_answers_errors_and_loses_nothing_that_was_synced() {
    let Some(appliance) = appliance() else { return };
    let Some(()) = require_all(&["mkfs.xfs", "xfs_repair"]) else {
        return;
    };
    let shop = Workshop::new().unwrap();
    let (image, own) = (xfs(&shop), own_appliance(&shop, &appliance));
    let disk = Disk::options()
        .read_only(false)
        .fallback(std::sync::Arc::new(micro_vm(&own)))
        .always_fallback()
        .open(&image)
        .unwrap();
    let filesystem = disk.writable_filesystem(&WriteOptions::default()).unwrap();
    let fs = filesystem.as_fs();
    let attributes = NewAttributes::for_root(0o644);
    let kept = fs
        .create(fs.root(), b"kept", NewKind::Regular, &attributes)
        .unwrap();
    fs.write_at(kept, 0, b"synced").unwrap();
    fs.sync_file(kept, SyncFile::All).unwrap();
    for machine in machines(&own) {
        let _ = rustix::process::kill_process(machine, rustix::process::Signal::KILL);
    }
    let lost = fs
        .create(fs.root(), b"lost", NewKind::Regular, &attributes)
        .unwrap_err();
    assert_eq!(lost.kind(), diskfs::vfs::ErrorKind::Io);
    assert!(lost.to_string().contains("signal 9"), "{lost}");
    assert!(filesystem.close().is_err());
    drop(filesystem);
    disk.close().unwrap();
    assert_eq!(machines(&own), []);

    // The next mount replays the log.
    let after = at(&image, "/after");
    let words = ["touch".as_ref(), after.as_os_str()];
    assert!(command(&appliance, words).status().unwrap().success());
    check("xfs_repair", &["-n"], &image);
    let disk = open(&appliance, &image);
    let filesystem = disk.filesystem().unwrap();
    assert_eq!(filesystem.read("/kept").unwrap(), b"synced");
}

#[test]
fn nothing_is_left_of_a_killed_program() {
    let Some(appliance) = appliance() else { return };
    let Some(()) = require_all(&["mkfs.xfs", "xfs_repair"]) else {
        return;
    };
    let shop = Workshop::new().unwrap();
    let (image, own) = (xfs(&shop), own_appliance(&shop, &appliance));
    let temporary = shop.path("tmp");
    std::fs::create_dir(&temporary).unwrap();
    // The command waits for its input, with the machine running.
    let file = at(&image, "/file");
    let words = ["write".as_ref(), file.as_os_str()];
    let mut program = command(&own, words)
        .env("TMPDIR", &temporary)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    let is_up =
        || std::fs::read_dir(&temporary).unwrap().count() == 0 && !machines(&own).is_empty();
    while !is_up() {
        assert!(Instant::now() < deadline, "no machine");
        std::thread::sleep(Duration::from_millis(5));
    }
    program.kill().unwrap();
    program.wait().unwrap();
    while !machines(&own).is_empty() {
        assert!(Instant::now() < deadline, "the machine lives on");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
    check("xfs_repair", &["-n"], &image);
}

#[test]
fn an_ordinary_user_needs_nothing_more() {
    let Some(appliance) = appliance() else { return };
    let Some(()) = require_all(&["mkfs.xfs", "setpriv"]) else {
        return;
    };
    let Some(()) = diskfs_fixtures::require_root() else {
        return;
    };
    let shop = Workshop::new().unwrap();
    let (image, own) = (xfs(&shop), own_appliance(&shop, &appliance));
    for path in [image.parent().unwrap(), &image, &own, &own.join("uml")] {
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(path, all).unwrap();
    }
    let program = own.join("diskfs");
    std::fs::copy(super::DISKFS, &program).unwrap();
    let output = Command::new("setpriv")
        .args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--no-new-privs",
        ])
        .arg(&program)
        .args(["ls", "-la", "--vm", "uml"])
        .arg(at(&image, "/"))
        .env("DISKFS_APPLIANCE", &own)
        .env_remove("TMPDIR")
        .output()
        .unwrap();
    let mut said = String::new();
    (&output.stderr[..]).read_to_string(&mut said).unwrap();
    assert!(output.status.success(), "{said}");
}

#[test]
fn one_that_hangs_is_killed_when_the_time_of_a_call_is_over() {
    let Some(appliance) = appliance() else { return };
    let Some(()) = require_all(&["mkfs.xfs", "xfs_repair"]) else {
        return;
    };
    let shop = Workshop::new().unwrap();
    let (image, own) = (xfs(&shop), own_appliance(&shop, &appliance));
    let disk = Disk::options()
        .read_only(false)
        .fallback(std::sync::Arc::new(MicroVm::new(VmOptions {
            appliance: Some(own.clone()),
            choice: BackendChoice::Only(BackendKind::Uml),
            call_deadline: Duration::from_secs(1),
            ..VmOptions::default()
        })))
        .open(&image)
        .unwrap();
    let filesystem = disk.writable_filesystem(&WriteOptions::default()).unwrap();
    let fs = filesystem.as_fs();
    let attributes = NewAttributes::for_root(0o644);
    for machine in machines(&own) {
        kill_process(machine, Signal::STOP).unwrap();
    }
    let began = Instant::now();
    let error = fs
        .create(fs.root(), b"never", NewKind::Regular, &attributes)
        .unwrap_err();
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert!(
        error.to_string().contains("not answered for 1 s"),
        "{error}"
    );
    assert!(filesystem.close().is_err());
    drop(filesystem);
    disk.close().unwrap();
    assert_eq!(machines(&own), []);
    diskfs(&appliance, &["touch".as_ref(), &at(&image, "/after")]);
    check("xfs_repair", &["-n"], &image);
}
