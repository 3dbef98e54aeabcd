//! Programs of a guest: their view, their output, their end.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use diskfs::Disk;
use diskfs::guest::KernelMounts;
use diskfs::vm::{
    BackendChoice, BackendKind, Ended, MachineTree, Program, Running, Stream, VmOptions,
};
use diskfs_fixtures::{Workshop, run, skip};
use rustix::process::{Pid, Signal, kill_process};

use super::{appliance, at, check, command, diskfs, require_all, stderr};

/// A small guest: programs of this machine with their libraries, its root on XFS, and `/data` on
/// ext4 on a second disk.
struct Guest {
    appliance: PathBuf,
    root: PathBuf,
    data: PathBuf,
    shop: Workshop,
}

const PROGRAMS: [&str; 12] = [
    "sh", "bash", "cat", "id", "sleep", "touch", "ls", "env", "sync", "mkdir", "stty", "tty",
];

const DATA_UUID: &str = "6d1f4f6a-0f9f-4a58-8f0e-3a2f9d1c7b11";

impl Guest {
    fn new() -> Option<Self> {
        let appliance = appliance()?;
        require_all(&["mkfs.xfs", "xfs_repair", "mke2fs", "e2fsck", "ldd", "tar"])?;
        let shop = Workshop::new().unwrap();
        let tree = tree(&shop);
        let root = shop.sparse_file("root.img", 320 << 20).unwrap();
        run("mkfs.xfs", [Path::new("-q"), &root]).unwrap();
        let archive = shop.path("root.tar");
        run(
            "tar",
            [
                "-cf",
                archive.to_str().unwrap(),
                "-C",
                tree.to_str().unwrap(),
                ".",
            ],
        )
        .unwrap();
        let archive = fs::File::open(archive).unwrap();
        let unpacked = command(&appliance, ["tar-in".as_ref(), at(&root, "/").as_os_str()])
            .stdin(archive)
            .output()
            .unwrap();
        assert!(unpacked.status.success(), "{}", stderr(&unpacked));
        let data = shop.sparse_file("data.img", 64 << 20).unwrap();
        run(
            "mke2fs",
            ["-q", "-t", "ext4", "-U", DATA_UUID, data.to_str().unwrap()],
        )
        .unwrap();
        Some(Self {
            appliance,
            root,
            data,
            shop,
        })
    }

    /// Returns the command `diskfs run` with these options and words.
    fn command(&self, options: &[&str], words: &[&str]) -> Command {
        let mut command = command(&self.appliance, ["run"]);
        command.args(options).arg("--add").arg(&self.data);
        command.arg(&self.root).arg("--").args(words);
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, options: &[&str], words: &[&str]) -> Output {
        self.command(options, words).output().unwrap()
    }

    /// Returns the output of a script, which must succeed.
    fn shell(&self, script: &str) -> String {
        let output = self.run(&[], &["sh", "-c", script]);
        assert!(output.status.success(), "{script}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    fn check(&self) {
        check("xfs_repair", &["-n"], &self.root);
        check("e2fsck", &["-fn"], &self.data);
    }

    /// Returns the library's interface for running several programs.
    fn tree(&self) -> (Disk, MachineTree) {
        let disk = Disk::options().read_only(false).add(&self.data);
        let disk = disk.open(&self.root).unwrap();
        let mounts = KernelMounts::of_volume(disk.volume("disk").unwrap());
        let options = VmOptions {
            choice: BackendChoice::Only(BackendKind::Uml),
            appliance: Some(self.appliance.clone()),
            ..VmOptions::default()
        };
        let tree = MachineTree::mount(&options, &mounts).unwrap();
        (disk, tree)
    }
}

fn tree(shop: &Workshop) -> PathBuf {
    let tree = shop.path("tree");
    let directories = [
        "bin", "etc", "proc", "sys", "dev", "run", "tmp", "data", "home/ann",
    ];
    for name in directories {
        fs::create_dir_all(tree.join(name)).unwrap();
    }
    for name in PROGRAMS {
        copy_program(name, &tree);
    }
    let files = [
        (
            "etc/os-release",
            "ID=test\nPRETTY_NAME=\"Test\"\n".to_owned(),
        ),
        (
            "etc/passwd",
            "root:x:0:0::/root:/bin/sh\nann:x:1000:1001::/home/ann:/bin/sh\n".to_owned(),
        ),
        (
            "etc/group",
            "root:x:0:\nann:x:1001:\nops:x:27:ann\n".to_owned(),
        ),
        (
            "etc/fstab",
            format!("/dev/sda / xfs defaults 0 0\nUUID={DATA_UUID} /data ext4 defaults 0 2\n"),
        ),
    ];
    for (name, text) in files {
        fs::write(tree.join(name), text).unwrap();
    }
    // The header of a program for aarch64: 183 is EM_AARCH64.
    let mut foreign = vec![0; 64];
    foreign[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    foreign[16..20].copy_from_slice(&[2, 0, 183, 0]);
    fs::write(tree.join("bin/foreign"), foreign).unwrap();
    fs::set_permissions(tree.join("bin/foreign"), PermissionsExt::from_mode(0o755)).unwrap();
    tree
}

/// Copies a program of this machine, and the libraries that `ldd` lists.
fn copy_program(name: &str, tree: &Path) {
    let found = ["/usr/bin", "/bin"].map(|dir| Path::new(dir).join(name));
    let program = found.into_iter().find(|path| path.exists()).expect(name);
    fs::copy(&program, tree.join("bin").join(name)).unwrap();
    let listed = Command::new("ldd").arg(&program).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let libraries = listed
        .split_whitespace()
        .filter(|word| word.starts_with('/'));
    for library in libraries {
        let to = tree.join(library.trim_start_matches('/'));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(library, to).unwrap();
    }
}

#[test]
fn a_program_sees_the_guest_and_changes_stay() {
    let Some(guest) = Guest::new() else { return };
    let said = guest.shell("cat /etc/os-release; ls /proc/self/exe /dev/null; ls /run; id -u");
    assert_eq!(
        said,
        "ID=test\nPRETTY_NAME=\"Test\"\n/dev/null\n/proc/self/exe\n0\n"
    );
    guest.shell("echo one >/etc/new; echo two >/data/new; mkdir /run/gone");
    guest.check();
    let read = |image: &Path, path| diskfs(&guest.appliance, &["cat".as_ref(), &at(image, path)]);
    assert_eq!(read(&guest.root, "/etc/new"), b"one\n");
    assert_eq!(read(&guest.data, "/new"), b"two\n");

    let output = guest.run(
        &["--dry-run"],
        &["sh", "-c", "echo three >/etc/new; cat /etc/new"],
    );
    assert_eq!(output.stdout, b"three\n", "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("M /etc/new\t"), "{said}");
    assert!(said.contains("bytes of the disk would change"), "{said}");
    assert_eq!(read(&guest.root, "/etc/new"), b"one\n");
}

#[test]
fn streams_environment_directory_and_user_are_passed_on() {
    let Some(guest) = Guest::new() else { return };
    let mut child = guest
        .command(&[], &["sh", "-c", "cat; echo problem >&2; exit 7"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let data = diskfs_fixtures::pattern("input", 3 << 20);
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn({
        let data = data.clone();
        move || input.write_all(&data).unwrap()
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    assert!(
        output.stdout == data,
        "{} bytes came back",
        output.stdout.len()
    );
    assert_eq!(stderr(&output), "problem\n");

    let options = ["--user", "ann", "--workdir", "/home/ann", "--env", "A=b c"];
    let script = "id -u; id -g; id -G; echo $PWD $HOME $USER \"$A\"";
    let output = guest.run(&options, &["sh", "-c", script]);
    let said = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(
        said,
        "1000\n1001\n1001 27\n/home/ann /home/ann ann b c\n",
        "{}",
        stderr(&output)
    );
}

#[test]
fn what_can_not_be_run_is_told_as_chroot_does() {
    let Some(guest) = Guest::new() else { return };
    let ended = |words: &[&str]| {
        let output = guest.run(&[], words);
        (output.status.code(), stderr(&output))
    };
    let (status, said) = ended(&["no-such-program"]);
    assert_eq!(status, Some(127), "{said}");
    assert!(said.contains("no-such-program"), "{said}");
    let (status, said) = ended(&["/etc/passwd"]);
    assert_eq!(status, Some(126), "{said}");
    let (status, said) = ended(&["/bin/foreign"]);
    assert_eq!(status, Some(126), "{said}");
    assert!(said.contains("aarch64"), "{said}");
    let (status, _) = ended(&["sh", "-c", "kill -9 $$"]);
    assert_eq!(status, Some(128 + 9));
    let output = guest.run(&["--workdir", "/nonexistent"], &["sh", "-c", "true"]);
    assert_eq!(output.status.code(), Some(125));
    let said = stderr(&output);
    let expected = "the working directory `/nonexistent` does not exist in the guest";
    assert!(said.contains(expected), "{said}");
    let output = guest.run(&["--user", "bob"], &["id"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("no such user: `bob`"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn time_and_signals_end_a_program() {
    let Some(guest) = Guest::new() else { return };
    let began = Instant::now();
    let output = guest.run(&["--timeout", "0.5"], &["sleep", "1000"]);
    assert_eq!(output.status.code(), Some(124), "{}", stderr(&output));
    assert!(began.elapsed() < Duration::from_secs(30));

    let script = "trap 'echo caught; exit 3' TERM; echo ready; while :; do sleep 0.1; done";
    let child = guest
        .command(&[], &["sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (status, said) = terminated_when_ready(child);
    assert_eq!((status, said.as_str()), (Some(3), "caught\n"));
    guest.check();
}

/// Sends SIGTERM to diskfs when the program has reported that it is ready.
fn terminated_when_ready(mut child: Child) -> (Option<i32>, String) {
    use std::io::Read as _;
    let mut output = child.stdout.take().unwrap();
    let mut ready = [0; 6];
    output.read_exact(&mut ready).unwrap();
    assert_eq!(&ready, b"ready\n");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    (child.wait().unwrap().code(), rest)
}

#[test]
fn what_is_left_behind_is_killed_and_the_disk_is_whole() {
    let Some(guest) = Guest::new() else { return };
    let said = guest.shell("(while :; do echo x >>/data/log; done) >/dev/null 2>&1 & echo started");
    assert_eq!(said, "started\n");
    guest.check();
    // Also if it keeps the output open.
    let said = guest.shell("sleep 1000 & echo started");
    assert_eq!(said, "started\n");
    guest.check();
}

/// The terminal of script(1) changes its size, and Ctrl-C is typed there.
#[test]
fn a_program_has_a_terminal() {
    let Some(guest) = Guest::new() else { return };
    if require_all(&["script", "stty"]).is_none() {
        return;
    }
    // bash outlives a SIGINT that finds it waiting for a program which then ends by itself.
    // Here that program is the last `stty` or a `sleep`, so Ctrl-C waits for one that is alone.
    let program = "test -t 0 && test -t 1 && test -t 2 && tty; stty size; \
        trap \"stty size; seen=1\" WINCH; echo began; until test \"$seen\"; do sleep 0.1; done; \
        echo waits; exec sleep 1000";
    let inner = guest.command(&["--terminal"], &["bash", "-c", program]);
    let words = inner.get_args().map(|word| word.to_str().unwrap());
    let words: Vec<String> = words.map(|word| format!("'{word}'")).collect();
    let resize = guest.shop.path("resize");
    let script = format!(
        "stty rows 33 cols 77; \
         (until test -e {}; do sleep 0.1; done; stty -F /dev/tty rows 40 cols 100) & exec {} {}",
        resize.display(),
        inner.get_program().display(),
        words.join(" ")
    );
    let mut terminal = Command::new("timeout");
    let variables = inner
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    let mut terminal = terminal
        .args(["60", "script", "-qefc", &script, "/dev/null"])
        .envs(variables)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut seen = String::new();
    let mut output = terminal.stdout.take().unwrap();
    read_until(&mut output, "began", &mut seen);
    fs::write(&resize, "").unwrap();
    read_until(&mut output, "waits", &mut seen);
    let lines: Vec<&str> = seen.lines().map(str::trim_end).collect();
    assert_eq!(lines, ["/dev/pts/0", "33 77", "began", "40 100", "waits"]);
    terminal.stdin.take().unwrap().write_all(b"\x03").unwrap();
    assert_eq!(terminal.wait().unwrap().code(), Some(128 + libc::SIGINT));
    let output = guest.run(&["--terminal"], &["true"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("is not a terminal"),
        "{}",
        stderr(&output)
    );
    guest.check();
}

fn read_until(output: &mut ChildStdout, word: &str, seen: &mut String) {
    while !seen.contains(word) {
        let mut some = [0; 512];
        let len = output.read(&mut some).unwrap();
        assert_ne!(len, 0, "{seen}");
        seen.push_str(&String::from_utf8_lossy(&some[..len]));
    }
}

#[test]
fn several_run_at_once_in_one_machine() {
    let Some(guest) = Guest::new() else { return };
    let (disk, tree) = guest.tree();
    let start = |script: &str| -> Running {
        tree.start(Program {
            words: ["sh", "-c", script]
                .map(|word| word.as_bytes().to_vec())
                .into(),
            environment: vec![b"PATH=/bin".to_vec()],
            ..Program::default()
        })
        .unwrap()
    };
    // Each program waits for the previous one.
    let last = start("until [ -e /tmp/2 ]; do sleep 0.01; done; echo last");
    let second = start("until [ -e /tmp/1 ]; do sleep 0.01; done; touch /tmp/2; echo second");
    let endless = start("echo began; exec sleep 1000");
    let first = start("touch /tmp/1; echo first; exit 4");
    let finish = |running: &Running| {
        let mut said = Vec::new();
        let ended = running.wait(|stream, bytes| {
            assert_eq!(stream, Stream::Output);
            said.extend_from_slice(bytes);
            Ok::<_, diskfs::Error>(())
        });
        (ended.unwrap(), String::from_utf8(said).unwrap())
    };
    assert_eq!(finish(&last), (Ended::Exited(0), "last\n".to_owned()));
    assert_eq!(finish(&second), (Ended::Exited(0), "second\n".to_owned()));
    assert_eq!(finish(&first), (Ended::Exited(4), "first\n".to_owned()));
    endless.signal(15).unwrap();
    assert_eq!(finish(&endless), (Ended::Killed(15), "began\n".to_owned()));
    assert!(
        endless.signal(15).is_err(),
        "it has ended, and that was told"
    );
    tree.end().unwrap();
    disk.close().unwrap();
    check("xfs_repair", &["-n"], &guest.root);
}

#[test]
fn a_network_is_there_when_it_is_asked_for() {
    let Some(guest) = Guest::new() else { return };
    let Some(()) = require_all(&["qemu-system-x86_64"]) else {
        return;
    };
    if !guest.appliance.join("qemu/vmlinux").is_file() {
        return skip("missing kernel for QEMU; build it with packaging/appliance/build");
    }
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = server.local_addr().unwrap().port();
    // The host, at the address that QEMU gives it in the machine.
    let speak = format!("exec 3<>/dev/tcp/10.0.2.2/{port} && echo hello >&3 && cat <&3");
    let without = guest.run(&["--vm", "qemu-tcg"], &["bash", "-c", &speak]);
    assert!(!without.status.success());
    let said = stderr(&without);
    assert!(said.contains("unreachable"), "{said}");

    let asked = guest
        .command(&["--network"], &["bash", "-c", &speak])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stream, _) = server.accept().unwrap();
    let mut heard = [0; 6];
    stream.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"hello\n");
    stream.write_all(b"and goodbye").unwrap();
    drop(stream);
    let output = asked.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout, b"and goodbye");
    guest.check();

    let refused = guest.run(&["--vm", "uml", "--network"], &["ls"]);
    assert_eq!(refused.status.code(), Some(125));
    assert!(stderr(&refused).contains("a network is not supported"));
}
