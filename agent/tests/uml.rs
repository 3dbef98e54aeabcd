//! The agent as PID 1 of User Mode Linux, over a terminal, with QEMU's daemon behind its disk:
//! what a microVM is, without the parts that make it fast. `DISKFS_UML` names the kernel, `DISKFS_AGENT` the static agent.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use diskfs_fixtures::require;
use diskfs_remote::client::Client;
use diskfs_remote::server::MountRequest;
use diskfs_vfs::{ErrorKind, FsRead, FsWrite, NewAttributes, NewKind};
use tempfile::TempDir;

/// An initramfs of one file: `/init`, and `/dev/console` is the kernel's own.
fn initramfs(agent: &[u8]) -> Vec<u8> {
    let mut archive = Vec::new();
    let mut add = |name: &str, mode: usize, contents: &[u8]| {
        let fields = [
            1,
            mode,
            0,
            0,
            1,
            0,
            contents.len(),
            0,
            0,
            0,
            0,
            name.len() + 1,
            0,
        ];
        write!(archive, "070701").unwrap();
        for field in fields {
            write!(archive, "{field:08x}").unwrap();
        }
        write!(archive, "{name}\0").unwrap();
        archive.resize(archive.len().next_multiple_of(4), 0);
        archive.extend_from_slice(contents);
        archive.resize(archive.len().next_multiple_of(4), 0);
    };
    add("init", 0o100_755, agent);
    add("TRAILER!!!", 0, &[]);
    archive
}

/// Not by eprintln!, whose output the test harness keeps to itself when the test passes.
fn say(line: &str) {
    std::io::stderr()
        .write_all(format!("{line}\n").as_bytes())
        .unwrap();
}

#[test]
#[ignore = "needs a kernel: DISKFS_UML, and the static agent: DISKFS_AGENT"]
fn boots_mounts_and_turns_off() {
    let (Ok(kernel), Ok(agent)) = (std::env::var("DISKFS_UML"), std::env::var("DISKFS_AGENT"))
    else {
        panic!("DISKFS_UML and DISKFS_AGENT are not set");
    };
    for (kind, options) in [("xfs", "-q"), ("btrfs", "-q"), ("ext4", "-q")] {
        if require(&format!("mkfs.{kind}"))
            .and(require("qemu-storage-daemon"))
            .is_none()
        {
            return;
        }
        session(&kernel, &agent, kind, options);
    }
}

fn session(kernel: &str, agent: &str, kind: &str, options: &str) {
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("initramfs"), initramfs(&fs::read(agent).unwrap())).unwrap();
    fs::File::create(path("disk"))
        .unwrap()
        .set_len(350 << 20)
        .unwrap();
    let made = Command::new(format!("mkfs.{kind}"))
        .arg(options)
        .arg(path("disk"))
        .output();
    assert!(made.unwrap().status.success());
    let node = format!(
        "driver=file,node-name=d,filename={}",
        path("disk").display()
    );
    let socket = format!("addr.type=unix,addr.path={}", path("socket").display());
    let mut storage = Command::new("qemu-storage-daemon")
        .args(["--blockdev", &node, "--export"])
        .arg(format!(
            "type=vhost-user-blk,id=e,{socket},node-name=d,writable=on"
        ))
        .spawn()
        .unwrap();
    while !path("socket").exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let begun = Instant::now();
    let mut child = Command::new("taskset")
        .args(["-c", "1", kernel, "mem=256M", "quiet", "seccomp=on"])
        .args(["con=null", "con1=fd:0,fd:1", "diskfs.port=/dev/tty1"])
        .arg(format!("initrd={}", path("initramfs").display()))
        .arg(format!("virtio_uml.device={}:2", path("socket").display()))
        .arg(format!("uml_dir={}", directory.path().display()))
        .env("TMPDIR", directory.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (reader, writer) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
    let client = Client::connect(reader, writer, Duration::from_secs(20)).unwrap();
    say(&format!(
        "{kind}: hello from {:?} after {:?}",
        client.about(),
        begun.elapsed()
    ));
    let fs = client.mount(&MountRequest::new("vda", kind)).unwrap();
    say(&format!("mounted after {:?}", begun.elapsed()));
    let attributes = NewAttributes::for_root(0o644);
    let count = 1000_u32;
    let creating = Instant::now();
    for n in 0..count {
        let name = format!("f{n}");
        fs.create(fs.root(), name.as_bytes(), NewKind::Regular, &attributes)
            .unwrap();
    }
    say(&format!("create {:?}", creating.elapsed() / count));
    let looking = Instant::now();
    for n in 0..count {
        fs.lookup(fs.root(), format!("f{n}").as_bytes()).unwrap();
    }
    say(&format!("lookup {:?}", looking.elapsed() / count));
    let f = fs.lookup(fs.root(), b"f1").unwrap();
    // In small pieces: with larger ones the session hangs, it is not known at which end of the terminal.
    let data = vec![0x5a; 20_000];
    for (at, piece) in (10..).step_by(1000).zip(data.chunks(1000)) {
        assert_eq!(fs.write_at(f, at, piece).unwrap(), piece.len());
    }
    fs.sync().unwrap();
    let mut back = vec![0; 30_000];
    assert_eq!(fs.read_at(f, 0, &mut back).unwrap(), 20_010);
    assert_eq!(back[10..20_010], data);
    let reading = Instant::now();
    for _ in 0..50 {
        fs.read_at(f, 0, &mut back).unwrap();
    }
    let rate = 50.0 * 0.02 / reading.elapsed().as_secs_f64();
    say(&format!("read {rate:.0} MB/s"));
    fs.close().unwrap();
    assert_eq!(
        fs.lookup(fs.root(), b"f1").unwrap_err().kind(),
        ErrorKind::ReadOnly
    );
    client.shut_down().unwrap();
    let ending = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(
            ending.elapsed() < Duration::from_secs(10),
            "it does not turn off"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    storage.kill().unwrap();
    storage.wait().unwrap();
    say(&format!("off after {:?}", begun.elapsed()));
}
