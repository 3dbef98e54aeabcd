//! The commands of diskfs and of the host that the shell runs as child processes.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use diskfs::{Error, ErrorKind, Result};
use serde_json::Value;

/// The number that is added to that of the signal which has ended a program, as in sh(1).
const SIGNALLED: i32 = 128;

/// The program that runs the commands.
#[derive(Debug)]
pub(super) struct Children {
    pub(super) program: PathBuf,
}

impl Children {
    /// Runs a command of diskfs on the terminal, or with pipes and redirections of the host's shell.
    /// Returns the exit code.
    pub(super) fn run(&self, words: &[OsString], redirection: Option<&str>) -> io::Result<u8> {
        let mut command = match redirection {
            None => Command::new(&self.program),
            Some(redirection) => {
                let mut shell = host(&format!("\"$0\" \"$@\" {redirection}"));
                shell.arg(&self.program);
                shell
            }
        };
        Ok(code(command.args(words).status()?))
    }

    /// Runs a command of diskfs with `--json` and returns its document.
    ///
    /// # Errors
    /// The command's error, with its kind and message.
    pub(super) fn document(&self, words: &[OsString]) -> Result<Value> {
        let child = Command::new(&self.program)
            .arg("--json")
            .args(words)
            .stdin(Stdio::null())
            .output()?;
        let document = serde_json::from_slice(&child.stdout).ok();
        match document.filter(|_| child.status.success()) {
            Some(document) => Ok(document),
            None => Err(error_of(&child.stderr)),
        }
    }

    /// Runs a command of diskfs silently and returns what it prints, even if it fails.
    pub(super) fn quiet_output(&self, words: &[OsString]) -> Vec<u8> {
        let child = Command::new(&self.program)
            .args(words)
            .stdin(Stdio::null())
            .output();
        child.map(|child| child.stdout).unwrap_or_default()
    }
}

/// Returns the error that a command has printed as JSON.
fn error_of(stderr: &[u8]) -> Error {
    let lines = stderr.split(|&byte| byte == b'\n');
    let mut documents = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let error = documents.find_map(|it| it.get("error").cloned());
    let member = |name: &str| error.as_ref()?.get(name)?.as_str();
    let kind = member("kind").and_then(ErrorKind::named);
    let message = member("message").unwrap_or("the command ended without a message");
    Error::new(kind.unwrap_or(ErrorKind::Other), message.to_owned())
}

/// Runs a command of the host's shell and returns its exit code.
pub(super) fn run_on_host(script: &str) -> io::Result<u8> {
    Ok(code(host(script).status()?))
}

fn host(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]);
    command
}

fn code(status: ExitStatus) -> u8 {
    let of_signal = || Some(status.signal()?.saturating_add(SIGNALLED));
    let code = status.code().or_else(of_signal);
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
