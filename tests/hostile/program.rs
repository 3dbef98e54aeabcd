//! Running of the program within limits.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The memory limit for bad input. The kernel enforces it (`RLIMIT_DATA`: heap and stacks, even if
/// they are never touched), so that an allocation of a size that an image claims ends the program.
const MEMORY_BYTES: u64 = 64 << 20;

/// The limit of processor time for bad input. The kernel enforces it (`RLIMIT_CPU`): the time that
/// a busy machine lets the program wait doesn't count.
const PROCESSOR_SECONDS: u32 = 1;

/// The time after which the program hangs, whatever it waits for.
const HANGS: Duration = Duration::from_mins(1);

/// The number of attempts if a run uses too much processor time: a virtual machine counts what its
/// host gives to others.
const ATTEMPTS: u32 = 4;

/// The signal that ends a program at its limit of processor time.
const SIGXCPU: i32 = 24;

/// The part of the output that is kept.
const KEPT_BYTES: u64 = 1 << 20;

/// The exit code for unsupported features.
pub(crate) const UNSUPPORTED: i32 = 4;
pub(crate) const CORRUPT: i32 = 5;
pub(crate) const DENIED: i32 = 6;

/// The outcome of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    line: String,
}

/// Runs `diskfs` with the arguments.
///
/// # Panics
/// Panics if it doesn't end by itself, panics, or uses more time or memory than allowed.
pub(crate) fn diskfs<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Outcome {
    diskfs_within(PROCESSOR_SECONDS, arguments)
}

/// Runs `diskfs` with another limit of processor time, in seconds.
///
/// # Panics
/// Panics like [`diskfs`].
pub(crate) fn diskfs_within<S: AsRef<OsStr>>(
    seconds: u32,
    arguments: impl IntoIterator<Item = S>,
) -> Outcome {
    let arguments: Vec<_> = arguments
        .into_iter()
        .map(|a| a.as_ref().to_owned())
        .collect();
    (0..ATTEMPTS)
        .find_map(|_| run(seconds, &arguments))
        .unwrap_or_else(|| panic!("{arguments:?}: more than {seconds} s of processor time"))
}

/// Runs `diskfs`. Returns `None` if it reaches the limit of processor time.
fn run(seconds: u32, arguments: &[std::ffi::OsString]) -> Option<Outcome> {
    let mut command = limited(seconds);
    command
        .arg(env!("CARGO_BIN_EXE_diskfs"))
        // The microVM backends of this host don't matter here.
        .env("DISKFS_VM", "none")
        .args(arguments)
        .env_remove("RUST_LOG")
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let line = format!("{command:?}");
    let mut child = command.spawn().expect("start prlimit of util-linux");
    let stdout = drain(child.stdout.take());
    let stderr = drain(child.stderr.take());
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("waiting") {
            break status;
        }
        if began.elapsed() > HANGS {
            child.kill().expect("killing");
            child.wait().expect("waiting");
            panic!("{line} hangs");
        }
        sleep(Duration::from_millis(2));
    };
    let stdout = stdout.join().expect("reading");
    let stderr = stderr.join().expect("reading");
    if status.signal() == Some(SIGXCPU) {
        return None;
    }
    let code = status
        .code()
        .unwrap_or_else(|| panic!("{line} was killed: {status}: {stderr}"));
    assert!(
        !stderr.contains("panicked") && code < 100,
        "{line} ended with {code}: {stderr}"
    );
    Some(Outcome {
        code,
        stdout,
        stderr,
        line,
    })
}

/// Returns the command that runs what its next arguments name within the limits.
fn limited(seconds: u32) -> Command {
    let mut command = Command::new("prlimit");
    // At the second limit of processor time the kernel sends SIGKILL.
    command.arg(format!("--cpu={seconds}:{}", seconds + 1));
    command.arg(format!("--data={MEMORY_BYTES}"));
    command
}

#[test]
fn processor_time_ends() {
    let ended = limited(1)
        .args(["sh", "-c", "while :; do :; done"])
        .status();
    assert_eq!(ended.unwrap().signal(), Some(SIGXCPU));
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut pipe = pipe.expect("piped");
        let mut bytes = Vec::new();
        pipe.by_ref()
            .take(KEPT_BYTES)
            .read_to_end(&mut bytes)
            .expect("reading");
        // The rest is ignored, but the program must be able to write it.
        std::io::copy(&mut pipe, &mut std::io::sink()).expect("reading");
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

impl Outcome {
    /// Fails unless it ended with this code and printed all of these words.
    pub(crate) fn expect(&self, code: i32, words: &[&str]) -> &Self {
        assert_eq!(
            self.code, code,
            "{}: {}{}",
            self.line, self.stdout, self.stderr
        );
        for word in words {
            assert!(
                self.stderr.contains(word),
                "{}: `{word}` is not in: {}",
                self.line,
                self.stderr
            );
        }
        self.expect_message()
    }

    /// Fails unless the output is a proper error message: it names the program, and a failure
    /// always prints one.
    pub(crate) fn expect_message(&self) -> &Self {
        if self.code != 0 {
            assert!(
                self.stderr.starts_with("diskfs: ") && self.stderr.len() > 20,
                "{} ended with {} and said: {}",
                self.line,
                self.code,
                self.stderr
            );
        }
        self
    }
}
