//! Running of other programs, with their time and resource usage.

use std::fs;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::interrupt;
use crate::limit::Watched;

/// The default capacity of a pipe: pipe(7).
const PIPE_BYTES: usize = 64 * 1024;

/// The resources that a program used from its start to its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    /// The wall time from before the fork to after the wait.
    pub(crate) wall: Duration,
    /// The largest resident set size (`ru_maxrss`).
    pub(crate) peak_memory_kib: u64,
    /// The bytes that the program got from `read`-like calls (`rchar`), including the headers of
    /// its shared libraries.
    pub(crate) read_bytes: u64,
}

/// Runs a program to its end and returns what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    interrupt::check()?;
    let name = describe(command);
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let (child, _watched) = start(command, &name)?;
    let output = child.wait_with_output()?;
    let message = String::from_utf8_lossy(&output.stderr);
    check(&name, output.status, &message)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a program that goes into the background, and waits only for its first process. The output
/// is not read, because the background process may keep it open.
pub(crate) fn started(command: &mut Command) -> Result<()> {
    interrupt::check()?;
    let name = describe(command);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit());
    let (mut child, _watched) = start(command, &name)?;
    check(&name, child.wait()?, "see above")
}

/// Runs a program to its end, discards its output, and returns the wall time.
pub(crate) fn timed(command: &mut Command) -> Result<Duration> {
    interrupt::check()?;
    let name = describe(command);
    let start = Instant::now();
    let (mut child, _watched) = spawn(command.stdout(Stdio::null()), &name)?;
    let (status, message) = wait(&mut child)?;
    let wall = start.elapsed();
    check(&name, status, &message)?;
    Ok(wall)
}

/// Runs a program to its end, reads its output through a pipe and discards it. Returns the wall
/// time and the length of the output. The pipe is needed because GNU tar reads no file if its
/// output is `/dev/null`.
pub(crate) fn timed_through_pipe(command: &mut Command) -> Result<(Duration, u64)> {
    interrupt::check()?;
    let name = describe(command);
    let start = Instant::now();
    let (mut child, _watched) = spawn(command.stdout(Stdio::piped()), &name)?;
    let mut pipe = child.stdout.take().context("the child has no pipe")?;
    let mut buf = vec![0; PIPE_BYTES];
    let mut len_bytes = 0;
    loop {
        let got = pipe.read(&mut buf)?;
        if got == 0 {
            break;
        }
        len_bytes += u64::try_from(got)?;
    }
    let (status, message) = wait(&mut child)?;
    let wall = start.elapsed();
    check(&name, status, &message)?;
    Ok((wall, len_bytes))
}

/// Runs a program to its end, discards its output, and returns its resource usage.
pub(crate) fn used(command: &mut Command) -> Result<Usage> {
    interrupt::check()?;
    let name = describe(command);
    let start = Instant::now();
    let (child, _watched) = spawn(command.stdout(Stdio::null()), &name)?;
    let (status, usage, message) = wait_with_usage(child, start)?;
    check(&name, status, &message)?;
    Ok(usage)
}

/// Returns true if a program of this name is in `PATH`.
pub(crate) fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
}

fn spawn(command: &mut Command, name: &str) -> Result<(Child, Watched)> {
    start(command.stdin(Stdio::null()).stderr(Stdio::piped()), name)
}

fn start(command: &mut Command, name: &str) -> Result<(Child, Watched)> {
    let child = command
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    let watched = Watched::new(child.id());
    Ok((child, watched))
}

fn wait(child: &mut Child) -> Result<(ExitStatus, String)> {
    let message = drain_stderr(child)?;
    Ok((child.wait()?, message))
}

fn drain_stderr(child: &mut Child) -> Result<String> {
    let mut message = Vec::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_end(&mut message)?;
    }
    Ok(String::from_utf8_lossy(&message).into_owned())
}

/// Waits until `child` ends, reads its counters while it is a zombie, then reaps it.
#[expect(
    unsafe_code,
    reason = "neither std nor rustix has wait4, the only call that returns a child's own peak memory"
)]
fn wait_with_usage(mut child: Child, start: Instant) -> Result<(ExitStatus, Usage, String)> {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    use std::os::unix::process::ExitStatusExt;

    let message = drain_stderr(&mut child)?;
    let pid = Pid::from_child(&child);
    waitid(
        WaitId::Pid(pid),
        WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
    )?;
    let wall = start.elapsed();
    let read_bytes = rchar(child.id())?;
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    let raw_pid = pid.as_raw_nonzero().get();
    // SAFETY: both pointers refer to live, writable values of the types that wait4 fills.
    let reaped = unsafe { libc::wait4(raw_pid, &raw mut status, 0, usage.as_mut_ptr()) };
    ensure!(
        reaped == raw_pid,
        "wait4: {}",
        std::io::Error::last_os_error()
    );
    // SAFETY: a zeroed rusage is valid, and wait4 has succeeded.
    let usage = unsafe { usage.assume_init() };
    let usage = Usage {
        wall,
        peak_memory_kib: u64::try_from(usage.ru_maxrss)?,
        read_bytes,
    };
    Ok((ExitStatus::from_raw(status), usage, message))
}

/// Returns the bytes that a process has got from `read`-like calls so far.
pub(crate) fn rchar(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/io");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    let field = text.lines().find_map(|line| line.strip_prefix("rchar: "));
    field.context(path)?.parse().context("rchar")
}

fn check(name: &str, status: ExitStatus, message: &str) -> Result<()> {
    interrupt::check()?;
    if !status.success() {
        bail!("{name}: {status}: {}", message.trim());
    }
    Ok(())
}

fn describe(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for arg in command.get_args() {
        text.push(' ');
        text.push_str(&arg.to_string_lossy());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_carries_the_programs_own_words() {
        let error = timed(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("why") && text.contains('3'), "{text}");
    }

    #[test]
    fn usage_counts_what_was_read() {
        let used =
            used(Command::new("dd").args(["if=/dev/zero", "of=/dev/null", "bs=1M", "count=8"]))
                .unwrap();
        assert!(used.read_bytes >= 8 << 20, "{used:?}");
        assert!(used.peak_memory_kib > 1024, "{used:?}");
    }

    #[test]
    fn a_pipe_is_read_to_its_end() {
        let mut head = Command::new("head");
        let (_, len_bytes) = timed_through_pipe(head.args(["-c", "1000000", "/dev/zero"])).unwrap();
        assert_eq!(len_bytes, 1_000_000);
        timed_through_pipe(&mut Command::new("false")).unwrap_err();
    }
}
