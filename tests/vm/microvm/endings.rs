//! The ends of machines: orderly, killed, and together with the process that started them.

use std::io::Read;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use diskfs::vfs::{NewAttributes, NewKind, SyncFile};
use diskfs::vm::{BackendChoice, BackendKind, MicroVm, VmOptions};
use diskfs::{Disk, WriteOptions};
use diskfs_fixtures::{Workshop, run};
use rustix::process::{Signal, kill_process, kill_process_group};

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

/// Returns the processes that run the programs in these machines.
pub(super) fn programs_of(machines: &[rustix::process::Pid]) -> Vec<rustix::process::Pid> {
    let is_child = |id: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        // The parent comes after the name in parentheses and the state (proc(5)).
        let fields = stat.rsplit_once(") ").map(|(_, fields)| fields);
        let parent = fields.and_then(|fields| fields.split(' ').nth(1)?.parse().ok());
        parent
            .and_then(rustix::process::Pid::from_raw)
            .is_some_and(|parent| machines.contains(&parent))
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    let children = ids.filter(is_child);
    children
        .filter_map(rustix::process::Pid::from_raw)
        .collect()
}

#[test]
fn one_that_is_stopped_is_noticed_at_once() {
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
    for machine in machines(&own) {
        kill_process(machine, Signal::STOP).unwrap();
    }
    let began = Instant::now();
    let attributes = NewAttributes::for_root(0o644);
    let error = fs
        .create(fs.root(), b"never", NewKind::Regular, &attributes)
        .unwrap_err();
    // The deadline of a call is 30 s.
    assert!(began.elapsed() < Duration::from_secs(10), "{error}");
    assert!(
        error.to_string().contains("stopped by signal 19"),
        "{error}"
    );
    assert!(filesystem.close().is_err());
    drop(filesystem);
    disk.close().unwrap();
    assert_eq!(machines(&own), []);
    diskfs(&appliance, &["touch".as_ref(), &at(&image, "/after")]);
    check("xfs_repair", &["-n"], &image);
}

#[test]
fn a_signal_while_a_machine_starts_leaves_nothing_behind() {
    let Some(appliance) = appliance() else { return };
    let Some(()) = require_all(&["mkfs.xfs"]) else {
        return;
    };
    let shop = Workshop::new().unwrap();
    let image = xfs(&shop);
    let temporary = shop.path("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let files = || std::fs::read_dir(&temporary).unwrap().count();
    let list = at(&image, "/");
    for (signal, milliseconds) in (0..10).flat_map(|n| [(Signal::TERM, n), (Signal::INT, n)]) {
        let mut program = command(&appliance, ["ls".as_ref(), list.as_os_str()])
            .args(["--vm", "uml"])
            .env("TMPDIR", &temporary)
            .env("XDG_CACHE_HOME", shop.path("cache"))
            .process_group(0)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while files() == 0 {
            assert!(Instant::now() < deadline, "no machine");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(milliseconds));
        let id = rustix::process::Pid::from_child(&program);
        // Like Ctrl-C: also to the broker, in which the machine starts.
        kill_process_group(id, signal).unwrap();
        let status = program.wait().unwrap();
        assert_eq!(status.signal(), Some(signal.as_raw()), "{status}");
        while files() > 0 {
            assert!(Instant::now() < deadline, "{signal:?} leaves files");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
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
    // Only the programs in the machine are stopped: its kernel runs, but the agent does not.
    let programs = programs_of(&machines(&own));
    assert!(!programs.is_empty());
    for program in programs {
        kill_process(program, Signal::STOP).unwrap();
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
