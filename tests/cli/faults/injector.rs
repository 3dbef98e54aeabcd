//! A program whose requests to files of the host are counted, and fail as a test demands: this
//! process decides on its system calls (seccomp's user notification), for all threads in one order.
#![expect(unsafe_code, reason = "seccomp has no safe interface")]

use std::fs;
use std::io::{self, Write};
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// The system calls that change a file, or make it durable.
const REQUESTS: [(libc::c_long, &str); 7] = [
    (libc::SYS_pwrite64, "pwrite64"),
    (libc::SYS_pwritev, "pwritev"),
    (libc::SYS_pwritev2, "pwritev2"),
    (libc::SYS_fallocate, "fallocate"),
    (libc::SYS_fsync, "fsync"),
    (libc::SYS_fdatasync, "fdatasync"),
    (libc::SYS_ftruncate, "ftruncate"),
];

/// The descriptor of the program's notifications, above those that it uses itself.
const LISTENER: RawFd = 700;

/// `SECCOMP_IOCTL_NOTIF_RECV` and `SECCOMP_IOCTL_NOTIF_SEND` (linux/seccomp.h).
const RECEIVE: libc::Ioctl = 0xC050_2100;
const SEND: libc::Ioctl = 0xC018_2101;

/// The fault to inject.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fault {
    /// The number of the request, counted from 0.
    pub(super) nth: usize,
    pub(super) errno: i32,
    /// True if all requests after it fail as well.
    pub(super) lasting: bool,
}

/// Runs `command` with this standard input. Counts requests to the files in the directory
/// `watched`, of which one may fail. Returns the requests, in order.
pub(super) fn run(
    mut command: Command,
    input: &[u8],
    watched: &Path,
    fault: Option<Fault>,
) -> (Output, Vec<&'static str>) {
    let filter = filter();
    // SAFETY: between fork and exec, `install` only makes system calls, on memory that is allocated
    // already.
    unsafe {
        command.pre_exec(move || install(&filter));
    }
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("start the program");
    let pid = Pid::from_child(&child);
    let listener = pidfd_open(pid, PidfdFlags::empty())
        .and_then(|process| pidfd_getfd(process, LISTENER, PidfdGetfdFlags::empty()))
        .expect("receive the descriptor of its notifications");
    let watched = watched.canonicalize().expect("create the directory");
    let supervisor = thread::spawn(move || supervise(&listener, &watched, fault));
    let mut stdin = child.stdin.take().expect("the stream is a pipe");
    // A program that fails early does not read it.
    let _ = stdin.write_all(input);
    drop(stdin);
    let output = child.wait_with_output().expect("wait for its end");
    (output, supervisor.join().expect("no panic"))
}

/// Returns the program of the filter: it notifies of the requests, and allows everything else.
fn filter() -> Vec<libc::sock_filter> {
    let code = |bits: u32| u16::try_from(bits).expect("a code of BPF");
    let one = |bits, jt, k| libc::sock_filter {
        code: code(bits),
        jt,
        jf: 0,
        k,
    };
    let mut program = vec![one(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0)];
    for (index, (number, _)) in REQUESTS.iter().enumerate() {
        let behind = u8::try_from(REQUESTS.len() - index).expect("a short program");
        let number = u32::try_from(*number).expect("a number of a call");
        program.push(one(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            behind,
            number,
        ));
    }
    let answer = |k| one(libc::BPF_RET | libc::BPF_K, 0, k);
    program.push(answer(libc::SECCOMP_RET_ALLOW));
    program.push(answer(libc::SECCOMP_RET_USER_NOTIF));
    program
}

/// Makes the calling process notify of its requests, at [`LISTENER`].
fn install(filter: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).unwrap_or(0),
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel copies the program, which lives until this returns, and `dup2` affects
    // only descriptors of this process.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        let listener = libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const program,
        );
        match RawFd::try_from(listener) {
            Ok(listener) if listener >= 0 => libc::dup2(listener, LISTENER),
            _ => -1,
        }
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn supervise(listener: &OwnedFd, watched: &Path, fault: Option<Fault>) -> Vec<&'static str> {
    let mut asked = Vec::new();
    loop {
        let mut fds = [PollFd::new(listener, PollFlags::IN)];
        if poll(&mut fds, None).is_err() {
            continue;
        }
        let [ready] = &fds;
        if !ready.revents().contains(PollFlags::IN) {
            // The last process that has the filter has exited.
            return asked;
        }
        let Some(request) = receive(listener) else {
            continue;
        };
        let errno = decide(&request, watched, fault, &mut asked);
        answer(listener, request.id, errno);
    }
}

/// Returns the error that a request gets, if any.
fn decide(
    request: &libc::seccomp_notif,
    watched: &Path,
    fault: Option<Fault>,
    asked: &mut Vec<&'static str>,
) -> Option<i32> {
    let place = format!("/proc/{}/fd/{}", request.pid, request.data.args[0]);
    let path = fs::read_link(place).ok()?;
    if !path.starts_with(watched) {
        return None;
    }
    let number = libc::c_long::from(request.data.nr);
    let name = REQUESTS.iter().find(|(request, _)| *request == number);
    let nth = asked.len();
    asked.push(name.map_or("?", |(_, name)| name));
    let fault = fault?;
    let fails = nth == fault.nth || (fault.lasting && nth > fault.nth);
    fails.then_some(fault.errno)
}

fn receive(listener: &OwnedFd) -> Option<libc::seccomp_notif> {
    // SAFETY: a zeroed value of this type is valid, and the kernel requires it.
    let mut request: libc::seccomp_notif = unsafe { mem::zeroed() };
    // SAFETY: the kernel fills the whole structure, whose size is part of the ioctl's number.
    let received = unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE, &raw mut request) };
    (received == 0).then_some(request)
}

fn answer(listener: &OwnedFd, id: u64, errno: Option<i32>) {
    let go_on = u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).expect("a flag");
    let mut response = libc::seccomp_notif_resp {
        id,
        val: 0,
        error: errno.map_or(0, |errno| -errno),
        flags: if errno.is_some() { 0 } else { go_on },
    };
    // SAFETY: as above; the kernel reads the structure. If the requesting process has exited, the
    // call fails, which is ignored.
    unsafe {
        libc::ioctl(listener.as_raw_fd(), SEND, &raw mut response);
    }
}
