//! A compromised parser for tests: tries every way out of its process.
//!
//! It exists only with the feature `testing`, which nothing but tests enables.
#![expect(
    unsafe_code,
    reason = "an attacker makes system calls directly; every pointer is valid or null"
)]

use std::ffi::CStr;
use std::io;
use std::ptr::null;

/// The environment variable that plants the parser into a confined command.
pub const VARIABLE: &str = "DISKFS_PLANTED_PARSER";

/// The tries of the compromised parser, with their results.
#[derive(Debug, Default)]
pub struct Report {
    /// The number of tries.
    pub tried: usize,
    /// The tries that were not refused, with their results.
    pub succeeded: Vec<String>,
}

impl Report {
    /// Records a try. It is refused if the kernel says so; any other error means that the call was
    /// executed, with arguments that it does not like.
    fn add(&mut self, what: &str, result: i64) {
        let error = io::Error::last_os_error();
        self.tried = self.tried.saturating_add(1);
        let refused = [libc::EPERM, libc::EACCES, libc::ENOSYS];
        let is_refused = error
            .raw_os_error()
            .is_some_and(|code| refused.contains(&code));
        if result >= 0 {
            self.succeeded.push(format!("{what}: {result}"));
        } else if !is_refused {
            self.succeeded.push(format!("{what}: reached ({error})"));
        }
    }
}

/// Makes a system call.
macro_rules! call {
    ($report:expr, $number:ident $(, $argument:expr)* $(,)?) => {{
        // SAFETY: this is what a compromised parser does; its pointers are valid or null.
        let result = unsafe { libc::syscall(libc::$number $(, $argument)*) };
        $report.add(concat!(stringify!($number), " ", $(stringify!($argument), " "),*), result);
        result
    }};
}

/// Tries everything if the variable is set, prints the report on standard error, and ends the
/// process.
pub(crate) fn act() {
    use std::io::Write;
    if std::env::var_os(VARIABLE).is_none() {
        return;
    }
    let report = try_everything();
    let succeeded = report.succeeded.join("; ");
    let line = format!(
        "planted: {} tries, succeeded: [{succeeded}]\n",
        report.tried
    );
    let _ = io::stderr().write_all(line.as_bytes()); // The test notices a missing report.
    std::process::exit(99);
}

/// Tries every way out: to files outside of what was given, to other processes, to the network, to
/// the kernel's rarely used parts.
#[must_use]
pub fn try_everything() -> Report {
    let mut report = Report::default();
    try_files(&mut report);
    try_sockets(&mut report);
    try_programs(&mut report);
    try_processes(&mut report);
    try_kernel(&mut report);
    try_memory(&mut report);
    try_itself(&mut report);
    report
}

/// Tries the ways to files and sockets, which do no harm to a process that is not confined.
#[must_use]
pub fn try_files_and_sockets() -> Report {
    let mut report = Report::default();
    try_files(&mut report);
    try_sockets(&mut report);
    report
}

fn try_files(report: &mut Report) {
    let parent = parent();
    let here = libc::AT_FDCWD;
    let mem = std::ffi::CString::new(format!("/proc/{parent}/mem")).unwrap_or_default();
    let environment = std::ffi::CString::new(format!("/proc/{parent}/environ")).unwrap_or_default();
    let root_of_init = c"/proc/1/root/etc/passwd";
    let to_read: [&CStr; 9] = [
        c"/etc/passwd",
        c"/etc/shadow",
        c"/",
        c"/dev/zero",
        c"/dev/kmsg",
        c"/root",
        root_of_init,
        &mem,
        &environment,
    ];
    for path in to_read {
        call!(report, SYS_openat, here, path.as_ptr(), libc::O_RDONLY);
        #[cfg(target_arch = "x86_64")]
        call!(report, SYS_open, path.as_ptr(), libc::O_RDONLY);
        let how = [0_u64; 3];
        call!(report, SYS_openat2, here, path.as_ptr(), how.as_ptr(), 24);
    }
    let own_mem = c"/proc/self/mem";
    for path in [own_mem, &mem, c"/dev/null", c"/tmp/planted"] {
        let flags = libc::O_RDWR | libc::O_CREAT;
        call!(report, SYS_openat, here, path.as_ptr(), flags, 0o600);
    }
    // Only the server of a mount can open it, and do nothing with it: it can't mount.
    let fuse = c"/dev/fuse";
    call!(report, SYS_openat, here, fuse.as_ptr(), libc::O_RDWR);
    let tmpfile = libc::O_RDWR | libc::O_TMPFILE;
    call!(report, SYS_openat, here, c"/tmp".as_ptr(), tmpfile, 0o600);
    call!(report, SYS_mkdirat, here, c"/tmp/planted".as_ptr(), 0o700);
    call!(
        report,
        SYS_symlinkat,
        c"/etc".as_ptr(),
        here,
        c"/tmp/planted".as_ptr()
    );
    // A directory: where it is allowed, the call fails without harm.
    call!(report, SYS_unlinkat, here, c"/etc".as_ptr(), 0);
    call!(
        report,
        SYS_fchmodat,
        here,
        c"/tmp/planted-none".as_ptr(),
        0o777
    );
    call!(report, SYS_truncate, c"/tmp/planted-none".as_ptr(), 0);
    call!(
        report,
        SYS_open_by_handle_at,
        here,
        null::<u8>(),
        libc::O_RDONLY
    );
    call!(
        report,
        SYS_name_to_handle_at,
        here,
        c"/".as_ptr(),
        null::<u8>(),
        null::<u8>(),
        0
    );
    call!(report, SYS_inotify_init1, 0);
    call!(report, SYS_fanotify_init, 0, 0);
    call!(report, SYS_chroot, c"/planted-none".as_ptr());
    for fd in 3..1024 {
        // SAFETY: zeroed is valid for this plain struct, and the call only writes to it.
        let (result, kind) = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            let result = libc::syscall(libc::SYS_fstat, fd, &raw mut stat);
            (result, stat.st_mode & libc::S_IFMT)
        };
        // The connection to the parent, and what watches it.
        if result == 0 && (kind == libc::S_IFDIR || kind == libc::S_IFREG && inherits_none()) {
            report.succeeded.push(format!("inherited descriptor {fd}"));
        }
    }
    report.tried = report.tried.saturating_add(1);
}

/// Returns true in a process that was given no files.
fn inherits_none() -> bool {
    std::env::var_os(VARIABLE).is_none()
}

fn try_sockets(report: &mut Report) {
    for family in [
        libc::AF_INET,
        libc::AF_INET6,
        libc::AF_UNIX,
        libc::AF_NETLINK,
        libc::AF_PACKET,
        libc::AF_VSOCK,
        libc::AF_ALG,
    ] {
        call!(report, SYS_socket, family, libc::SOCK_STREAM, 0);
        call!(report, SYS_socket, family, libc::SOCK_DGRAM, 0);
        call!(report, SYS_socket, family, libc::SOCK_RAW, 0);
    }
    let mut pair = [-1_i32; 2];
    let datagram = libc::SOCK_DGRAM;
    call!(
        report,
        SYS_socketpair,
        libc::AF_UNIX,
        datagram,
        0,
        pair.as_mut_ptr()
    );
    let packets = libc::SOCK_SEQPACKET;
    call!(
        report,
        SYS_socketpair,
        libc::AF_UNIX,
        packets,
        0,
        pair.as_mut_ptr()
    );
    // An abstract socket, by its address alone.
    let address = [1_u8, 0, 0, b'x'];
    call!(report, SYS_connect, pair[0], address.as_ptr(), 4);
    call!(report, SYS_bind, pair[0], address.as_ptr(), 4);
    call!(report, SYS_listen, pair[0], 1);
    call!(report, SYS_accept4, pair[0], null::<u8>(), null::<u8>(), 0);
}

fn try_programs(report: &mut Report) {
    let memfd = call!(report, SYS_memfd_create, c"planted".as_ptr(), 0);
    let empty = [null::<u8>()];
    // A successful execve would end the test, which fails then.
    for program in [c"/bin/true", c"/proc/self/exe", c"/usr/bin/env"] {
        call!(
            report,
            SYS_execve,
            program.as_ptr(),
            empty.as_ptr(),
            empty.as_ptr()
        );
    }
    call!(
        report,
        SYS_execveat,
        memfd,
        c"".as_ptr(),
        empty.as_ptr(),
        empty.as_ptr(),
        libc::AT_EMPTY_PATH
    );
    let child = call!(report, SYS_clone, libc::SIGCHLD, 0, 0, 0, 0);
    end_child(child);
    let child = call!(
        report,
        SYS_clone,
        libc::CLONE_NEWUSER | libc::SIGCHLD,
        0,
        0,
        0,
        0
    );
    end_child(child);
    call!(report, SYS_clone3, null::<u8>(), 0);
    #[cfg(target_arch = "x86_64")]
    {
        let child = call!(report, SYS_fork);
        end_child(child);
    }
}

/// Ends a child process that should not exist.
fn end_child(child: i64) {
    if child == 0 {
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(0) };
    }
}

fn try_processes(report: &mut Report) {
    let parent = parent();
    for request in [libc::PTRACE_ATTACH, libc::PTRACE_SEIZE] {
        call!(report, SYS_ptrace, request, parent, 0, 0);
    }
    for pid in [parent, 1, -1, 0] {
        call!(report, SYS_kill, pid, 0);
    }
    call!(report, SYS_tkill, parent, 0);
    call!(report, SYS_tgkill, parent, parent, 0);
    call!(report, SYS_rt_sigqueueinfo, parent, 0, null::<u8>());
    let pidfd = call!(report, SYS_pidfd_open, parent, 0);
    call!(report, SYS_pidfd_send_signal, pidfd, 0, null::<u8>(), 0);
    call!(report, SYS_pidfd_getfd, pidfd, 0, 0);
    call!(
        report,
        SYS_process_vm_readv,
        parent,
        null::<u8>(),
        0,
        null::<u8>(),
        0,
        0
    );
    call!(
        report,
        SYS_process_vm_writev,
        parent,
        null::<u8>(),
        0,
        null::<u8>(),
        0,
        0
    );
    let limit = [0_u64; 2];
    call!(
        report,
        SYS_prlimit64,
        parent,
        libc::RLIMIT_CPU,
        null::<u8>(),
        limit.as_ptr()
    );
    call!(report, SYS_kcmp, parent, parent, 0, 0, 0);
    call!(report, SYS_setpriority, 0, parent, 0);
    call!(report, SYS_sched_setscheduler, parent, 0, null::<u8>());
    call!(report, SYS_sched_setaffinity, parent, 0, null::<u8>());
    call!(report, SYS_fcntl, 0, libc::F_SETOWN, parent);
    call!(report, SYS_ioctl, 0, libc::TIOCSTI, c"x".as_ptr());
}

fn try_kernel(report: &mut Report) {
    call!(report, SYS_io_uring_setup, 1, null::<u8>());
    call!(report, SYS_io_uring_register, -1, 0, null::<u8>(), 0);
    call!(report, SYS_io_uring_enter, -1, 0, 0, 0, null::<u8>(), 0);
    call!(report, SYS_unshare, libc::CLONE_NEWNS);
    call!(report, SYS_unshare, libc::CLONE_NEWUSER);
    call!(report, SYS_setns, -1, 0);
    let private = libc::MS_REC | libc::MS_PRIVATE;
    call!(
        report,
        SYS_mount,
        c"none".as_ptr(),
        c"/".as_ptr(),
        null::<u8>(),
        private,
        0
    );
    call!(
        report,
        SYS_umount2,
        c"/planted-none".as_ptr(),
        libc::MNT_DETACH
    );
    call!(report, SYS_fsopen, c"tmpfs".as_ptr(), 0);
    call!(report, SYS_open_tree, libc::AT_FDCWD, c"/".as_ptr(), 1);
    call!(report, SYS_pivot_root, c"/".as_ptr(), c"/".as_ptr());
    call!(report, SYS_keyctl, 0, 0, 0);
    call!(
        report,
        SYS_add_key,
        null::<u8>(),
        null::<u8>(),
        null::<u8>(),
        0,
        0
    );
    call!(
        report,
        SYS_request_key,
        null::<u8>(),
        null::<u8>(),
        null::<u8>(),
        0
    );
    call!(report, SYS_bpf, 0, null::<u8>(), 0);
    call!(report, SYS_userfaultfd, 1);
    call!(report, SYS_perf_event_open, null::<u8>(), 0, -1, -1, 0);
    call!(report, SYS_init_module, null::<u8>(), 0, null::<u8>());
    call!(report, SYS_finit_module, -1, null::<u8>(), 0);
    call!(report, SYS_syslog, 10, null::<u8>(), 0);
    call!(report, SYS_quotactl, 0, null::<u8>(), 0, null::<u8>());
    call!(report, SYS_shmget, 0x5041, 4096, 0o600 | libc::IPC_CREAT);
    call!(report, SYS_msgget, 0x5041, 0o600);
    call!(report, SYS_semget, 0x5041, 1, 0o600);
    call!(
        report,
        SYS_mq_open,
        c"planted".as_ptr(),
        libc::O_RDONLY,
        0,
        null::<u8>()
    );
    call!(report, SYS_timer_create, 0, null::<u8>(), null::<u8>());
    call!(report, SYS_signalfd4, -1, null::<u8>(), 8, 0);
    call!(report, SYS_timerfd_create, 0, 0);
    call!(report, SYS_move_pages, 0, 0, null::<u8>());
    call!(report, SYS_landlock_create_ruleset, null::<u8>(), 0, 1);
}

fn try_memory(report: &mut Report) {
    let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let executable = libc::PROT_READ | libc::PROT_EXEC;
    call!(report, SYS_mmap, 0, 4096, executable, anonymous, -1, 0);
    // SAFETY: a new page, which nothing else uses.
    let page = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ,
            anonymous,
            -1,
            0,
        )
    };
    call!(report, SYS_mprotect, page, 4096, executable);
    call!(report, SYS_pkey_mprotect, page, 4096, executable, -1);
    #[cfg(target_arch = "x86_64")]
    call!(report, SYS_modify_ldt, 0, null::<u8>(), 0);
}

fn try_itself(report: &mut Report) {
    call!(report, SYS_seccomp, 0, 0, null::<u8>());
    call!(report, SYS_prctl, libc::PR_SET_DUMPABLE, 1);
    call!(report, SYS_prctl, libc::PR_SET_PTRACER, -1);
    call!(report, SYS_prctl, libc::PR_SET_SECCOMP, 0, 0);
    call!(report, SYS_prctl, libc::PR_SET_PDEATHSIG, 0);
    call!(report, SYS_setuid, 0);
    call!(report, SYS_setgid, 0);
    call!(report, SYS_setgroups, 0, null::<u8>());
    call!(report, SYS_capset, null::<u8>(), null::<u8>());
    let limit = [u64::MAX; 2];
    #[cfg(target_arch = "x86_64")]
    call!(report, SYS_setrlimit, libc::RLIMIT_CPU, limit.as_ptr());
    call!(
        report,
        SYS_prlimit64,
        0,
        libc::RLIMIT_CPU,
        limit.as_ptr(),
        null::<u8>()
    );
    call!(report, SYS_personality, 0x0400_0000);
    call!(report, SYS_sched_setaffinity, 0, 0, null::<u8>());
}

fn parent() -> i64 {
    let parent = rustix::process::getppid();
    parent.map_or(1, |parent| i64::from(parent.as_raw_nonzero().get()))
}
