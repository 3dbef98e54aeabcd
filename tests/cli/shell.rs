//! The shell: scripts, transactions, and a terminal.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use diskfs_fixtures::image;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{DISKFS, diskfs_in};

fn shell(directory: &Path, arguments: &[&str]) -> Output {
    let words = [&["shell"], arguments, &["demo.qcow2"]].concat();
    diskfs_in(directory, &words).output
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn has_file(directory: &Path, path: &str) -> bool {
    let operand = format!("demo.qcow2:{path}");
    diskfs_in(directory, &["stat", &operand]).code() == Some(0)
}

#[test]
fn a_script_runs_the_commands_of_diskfs() {
    let demo = image("demo.qcow2");
    let script = "\
# Comments and empty lines are skipped.

cd /etc
pwd
cat hostname | tr a-z A-Z
cat :hostname ../etc/os-release > out
cp :hostname copied
find -maxdepth 1 -name host* -type f
info --json | grep -c qcow2 > count
!test -s out && echo on the host
";
    std::fs::write(demo.directory().join("script"), script).unwrap();
    let output = shell(demo.directory(), &["-f", "script"]);
    assert!(output.status.success(), "{output:?}");
    let read = |name: &str| std::fs::read_to_string(demo.directory().join(name)).unwrap();
    let hostname = diskfs_in(demo.directory(), &["cat", "demo.qcow2:/etc/hostname"]).text();
    let hostname = hostname.trim_end();
    let printed: Vec<&str> = text(&output.stdout).lines().collect();
    assert_eq!(printed[..2], ["/etc", &hostname.to_uppercase()]);
    assert_eq!(*printed.last().unwrap(), "on the host");
    assert!(printed.contains(&"/etc/hostname"), "{printed:?}");
    assert_eq!(read("copied").trim_end(), hostname);
    assert!(read("out").starts_with(hostname));
    assert_ne!(read("count").trim(), "0");
}

#[test]
fn the_first_failure_ends_a_script() {
    let demo = image("demo.qcow2");
    let output = shell(
        demo.directory(),
        &["-c", "cat /nope", "-c", "rm /etc/hostname"],
    );
    assert_eq!(output.status.code(), Some(3));
    assert!(has_file(demo.directory(), "/etc/hostname"));
    let output = shell(
        demo.directory(),
        &["-c", "-cat /nope", "-c", "rm /etc/hostname"],
    );
    assert!(output.status.success(), "{output:?}");
    assert!(!has_file(demo.directory(), "/etc/hostname"));
    for (line, code, reason) in [
        ("cd /etc/passwd", 1, "not a directory"),
        ("cd /nope", 3, "no such file"),
        ("bogus", 2, "unknown command `bogus`"),
        ("ls --bogus", 2, "--bogus"),
        ("ls 'a", 2, "unclosed quote"),
        ("commit", 2, "no transaction is open"),
        ("!exit 7", 7, ""),
        ("!kill -TERM $$", 143, ""),
    ] {
        let output = shell(demo.directory(), &["-c", line]);
        assert_eq!(output.status.code(), Some(code), "{line}: {output:?}");
        assert!(text(&output.stderr).contains(reason), "{line}: {output:?}");
    }
}

#[test]
fn a_transaction_is_committed_or_dropped() {
    let demo = image("demo.qcow2");
    let path = demo.directory();
    let before = std::fs::read(path.join("demo.qcow2")).unwrap();
    let run = |lines: &[&str]| {
        let arguments: Vec<&str> = lines.iter().flat_map(|line| ["-c", line]).collect();
        shell(path, &arguments)
    };
    let output = run(&[
        "begin",
        "rm /etc/hostname",
        "-cat /etc/hostname",
        "rollback",
        "cat /etc/hostname",
    ]);
    assert!(output.status.success(), "{output:?}");
    let output = run(&["begin", "rm /etc/hostname", "begin"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    // The end of the script rolls back, and says so.
    let output = run(&["begin", "rm /etc/hostname"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("not committed"), "{output:?}");
    assert_eq!(std::fs::read(path.join("demo.qcow2")).unwrap(), before);

    let output = run(&[
        "begin",
        "rm /etc/hostname",
        "mkdir /new",
        "commit",
        "ls -d /new",
    ]);
    assert!(output.status.success(), "{output:?}");
    assert!(!has_file(path, "/etc/hostname") && has_file(path, "/new"));
}

#[test]
fn a_read_only_shell_keeps_no_change() {
    let demo = image("demo.qcow2");
    let before = std::fs::read(demo.directory().join("demo.qcow2")).unwrap();
    let lines = [
        "--ro",
        "-c",
        "rm /etc/hostname",
        "-c",
        "-cat /etc/hostname",
        "-c",
        "commit",
    ];
    let output = shell(demo.directory(), &lines);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("no such file"), "{output:?}");
    assert!(text(&output.stderr).contains("read-only"), "{output:?}");
    assert_eq!(
        std::fs::read(demo.directory().join("demo.qcow2")).unwrap(),
        before
    );
}

/// A shell on a terminal, which script(1) makes.
struct Terminal {
    keys: ChildStdin,
    screen: ChildStdout,
    script: Child,
    /// Everything that the shell has printed since the last check.
    seen: String,
}

impl Terminal {
    fn start(directory: &Path) -> Self {
        // A test that runs in the background of a shell would otherwise ignore Ctrl-C.
        let mut script = Command::new("env")
            .args(["--default-signal=INT", "script", "-q", "-e", "-c"])
            // Without `exec`, some shells would stay between, and Ctrl-C would end them with 130.
            .arg(format!("exec {DISKFS} shell demo.qcow2"))
            .arg("/dev/null")
            .current_dir(directory)
            .env("XDG_STATE_HOME", directory.join("state"))
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            keys: script.stdin.take().unwrap(),
            screen: script.stdout.take().unwrap(),
            script,
            seen: String::new(),
        }
    }

    fn send(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Reads until the shell has printed `expected`.
    fn expect(&mut self, expected: &str) {
        let deadline = Instant::now() + Duration::from_mins(1);
        loop {
            if let Some(at) = self.seen.find(expected) {
                self.seen.drain(..at + expected.len());
                return;
            }
            assert!(
                Instant::now() < deadline,
                "no {expected:?} in {:?}",
                self.seen
            );
            let mut ready = [PollFd::new(&self.screen, PollFlags::IN)];
            let second = Timespec {
                tv_sec: 1,
                tv_nsec: 0,
            };
            if poll(&mut ready, Some(&second)).unwrap() == 0 {
                continue;
            }
            let mut buf = [0; 4096];
            let read = self.screen.read(&mut buf).unwrap_or(0);
            assert!(read > 0, "no {expected:?} in {:?}", self.seen);
            self.seen.push_str(&String::from_utf8_lossy(&buf[..read]));
        }
    }

    fn end(mut self) -> Option<i32> {
        self.send("\u{4}");
        self.script.wait().unwrap().code()
    }
}

#[test]
fn a_terminal_completes_words_and_keeps_a_history() {
    let demo = image("demo.qcow2");
    let mut terminal = Terminal::start(demo.directory());
    terminal.expect("demo.qcow2:/> ");
    // A command, a directory, a file; the space after a whole word is typed.
    terminal.send("cat /et\thostn\t\r");
    terminal.expect("cat /etc/hostname");
    terminal.expect("\n");
    terminal.expect("demo.qcow2:/> ");
    terminal.send("cd /etc\r");
    terminal.expect("demo.qcow2:/etc> ");
    terminal.send("cat hostn\t\r");
    terminal.expect("cat hostname");
    terminal.expect("demo.qcow2:/etc> ");
    terminal.send("begin\r");
    terminal.expect("demo.qcow2:/etc*> ");
    terminal.send("rollback\r");
    terminal.expect("demo.qcow2:/etc> ");
    // Options of the command, and the line before by the arrow.
    terminal.send("ls --alm\t\r");
    terminal.expect("ls --almost-all");
    terminal.expect("demo.qcow2:/etc> ");
    terminal.send("\u{1b}[A\r");
    terminal.expect("ls --almost-all");
    terminal.expect("demo.qcow2:/etc> ");
    assert_eq!(terminal.end(), Some(0));
    let history = std::fs::read_to_string(demo.directory().join("state/diskfs/history")).unwrap();
    assert!(history.contains("cat hostname"), "{history}");

    // A new shell has the history.
    let mut terminal = Terminal::start(demo.directory());
    terminal.expect("demo.qcow2:/> ");
    terminal.send("\u{1b}[A\r");
    terminal.expect("ls --almost-all");
    terminal.expect("demo.qcow2:/> ");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn ctrl_c_ends_the_command_and_not_the_shell() {
    let demo = image("demo.qcow2");
    let mut terminal = Terminal::start(demo.directory());
    terminal.expect("demo.qcow2:/> ");
    terminal.send("a half line\u{3}");
    terminal.expect("demo.qcow2:/> ");
    // The answer shows that sed runs: a shell that is about to start a program may take the key.
    terminal.send("!echo ready; exec sed -u s/asked/answered/\r");
    terminal.expect("ready\r\n");
    terminal.send("asked\r");
    terminal.expect("answered\r\n");
    let start = Instant::now();
    terminal.send("\u{3}");
    terminal.expect("demo.qcow2:/> ");
    assert!(start.elapsed() < Duration::from_secs(30));
    // A reader that closes its pipe ends the command silently.
    terminal.send("find / | head -1\r");
    terminal.expect("/\r\n");
    terminal.expect("demo.qcow2:/> ");
    assert_eq!(terminal.end(), Some(0));
}
