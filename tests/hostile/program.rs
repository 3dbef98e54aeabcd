//! Running the program within limits.

use std::ffi::OsStr;
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What bad input may cost in memory. The kernel enforces it (`RLIMIT_DATA`: heap and stacks, even
/// where they are never touched), so that an allocation of what an image claims ends the program.
const MEMORY_BYTES: u64 = 64 << 20;

/// What bad input may cost in time.
const TIME: Duration = Duration::from_secs(1);

/// After this the program hangs.
const HANGS: Duration = Duration::from_secs(10);

/// How often a run that took too long is run again: on a busy machine any single run may wait.
const ATTEMPTS: u32 = 4;

/// What is kept of what it prints.
const KEPT_BYTES: u64 = 1 << 20;

/// Exit codes of the program.
pub(crate) const UNSUPPORTED: i32 = 4;
pub(crate) const CORRUPT: i32 = 5;
pub(crate) const DENIED: i32 = 6;

/// What a run came to.
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
/// When it doesn't end by itself, panics, or uses more time or memory than it may.
pub(crate) fn diskfs<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Outcome {
    diskfs_within(TIME, arguments)
}

/// The same for what may take longer.
///
/// # Panics
/// As [`diskfs`].
pub(crate) fn diskfs_within<S: AsRef<OsStr>>(
    time: Duration,
    arguments: impl IntoIterator<Item = S>,
) -> Outcome {
    let arguments: Vec<_> = arguments
        .into_iter()
        .map(|a| a.as_ref().to_owned())
        .collect();
    for attempt in 1.. {
        let began = Instant::now();
        let outcome = run(&arguments);
        let took = began.elapsed();
        if took <= time {
            return outcome;
        }
        assert!(attempt < ATTEMPTS, "{} took {took:?}", outcome.line);
    }
    unreachable!("the loop ends by returning or panicking")
}

fn run(arguments: &[std::ffi::OsString]) -> Outcome {
    let mut command = Command::new("prlimit");
    command
        .arg(format!("--data={MEMORY_BYTES}"))
        .arg(env!("CARGO_BIN_EXE_diskfs"))
        // What this host has for microVMs is no matter here.
        .env("DISKFS_VM", "none")
        .args(arguments)
        .env_remove("RUST_LOG")
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let line = format!("{command:?}");
    let mut child = command.spawn().expect("prlimit of util-linux starts");
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
    let code = status
        .code()
        .unwrap_or_else(|| panic!("{line} ended by {status}: {stderr}"));
    assert!(
        !stderr.contains("panicked") && code < 100,
        "{line} ended with {code}: {stderr}"
    );
    Outcome {
        code,
        stdout,
        stderr,
        line,
    }
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut pipe = pipe.expect("piped");
        let mut bytes = Vec::new();
        pipe.by_ref()
            .take(KEPT_BYTES)
            .read_to_end(&mut bytes)
            .expect("reading");
        // The rest is of no interest, but the program must be able to write it.
        std::io::copy(&mut pipe, &mut std::io::sink()).expect("reading");
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

impl Outcome {
    /// Fails unless it ended with this code and said all of these words.
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

    /// Fails unless what it said is an error as errors are to be: it names the program, and a
    /// failure always says something.
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
