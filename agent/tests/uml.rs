//! The agent as PID 1 of User Mode Linux, over a serial line: a microVM without the parts that make
//! it fast. `DISKFS_UML` names the kernel, `DISKFS_AGENT` the static agent.

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

/// Returns an initramfs with only `/init`; the kernel itself provides `/dev/console`.
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

#[test]
#[ignore = "needs a kernel (DISKFS_UML) and the static agent (DISKFS_AGENT)"]
fn boots_mounts_and_turns_off() {
    let (Ok(kernel), Ok(agent)) = (std::env::var("DISKFS_UML"), std::env::var("DISKFS_AGENT"))
    else {
        panic!("DISKFS_UML and DISKFS_AGENT are not set");
    };
    for (kind, options) in [("xfs", "-q"), ("btrfs", "-q"), ("ext4", "-q")] {
        let Some(()) = require(&format!("mkfs.{kind}")) else {
            return;
        };
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
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let begun = Instant::now();
    let mut child = Command::new("taskset")
        .args(["-c", "1", kernel, "mem=256M", "quiet", "seccomp=on"])
        .args([
            "ssl0=fd:0,fd:1",
            "con=null",
            "con0=null",
            "ssl=null",
            "diskfs.port=/dev/ttyS0",
        ])
        .arg(format!("initrd={}", path("initramfs").display()))
        .arg(format!("ubd0={}", path("disk").display()))
        .arg(format!("uml_dir={}", directory.path().display()))
        .env("TMPDIR", directory.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (reader, writer) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
    let client = Client::connect(reader, writer, Duration::from_secs(20)).unwrap();
    let mut report = vec![format!(
        "{kind}: hello from {:?} after {:?}",
        client.about(),
        begun.elapsed()
    )];
    let fs = client.mount(&MountRequest::new("ubda", kind)).unwrap();
    report.push(format!("mounted after {:?}", begun.elapsed()));
    let attributes = NewAttributes::for_root(0o644);
    let count = 1000_u32;
    let creating = Instant::now();
    for n in 0..count {
        let name = format!("f{n}");
        fs.create(fs.root(), name.as_bytes(), NewKind::Regular, &attributes)
            .unwrap();
    }
    report.push(format!("create {:?}", creating.elapsed() / count));
    let looking = Instant::now();
    for n in 0..count {
        fs.lookup(fs.root(), format!("f{n}").as_bytes()).unwrap();
    }
    report.push(format!("lookup {:?}", looking.elapsed() / count));
    let f = fs.lookup(fs.root(), b"f1").unwrap();
    let data = vec![0x5a; 300_000];
    assert_eq!(fs.write_at(f, 10, &data).unwrap(), data.len());
    fs.sync().unwrap();
    let mut back = vec![0; 400_000];
    assert_eq!(fs.read_at(f, 0, &mut back).unwrap(), 300_010);
    assert_eq!(back[10..300_010], data);
    let reading = Instant::now();
    for _ in 0..50 {
        fs.read_at(f, 0, &mut back).unwrap();
    }
    let rate = 50.0 * 0.3 / reading.elapsed().as_secs_f64();
    report.push(format!("read {rate:.0} MB/s"));
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
            "the machine does not turn off"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    report.push(format!("off after {:?}", begun.elapsed()));
    std::io::stderr()
        .write_all((report.join(", ") + "\n").as_bytes())
        .unwrap();
}
