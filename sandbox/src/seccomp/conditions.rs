//! The system calls that are allowed only with certain arguments.

use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

use super::{Calls, Rules};

/// `SOCK_TYPE_MASK` of the kernel: the type without its flags.
const SOCKET_TYPE_MASK: u64 = 0xf;
/// `O_TMPFILE` without `O_DIRECTORY`, which it contains.
const UNNAMED_FILE: i32 = libc::O_TMPFILE & !libc::O_DIRECTORY;
/// `FUSE_DEV_IOC_CLONE` of linux/fuse.h: a further descriptor of the same mount.
const FUSE_CLONE: u64 = 0x8004_e500;

/// Returns the rules for these calls.
pub(super) fn of(calls: Calls) -> Rules {
    let mut rules = Rules::from([
        // Threads, not processes.
        (libc::SYS_clone, vec![has(0, number(libc::CLONE_THREAD))]),
        // A process may end itself, as abort(3) does.
        (libc::SYS_tgkill, vec![is(0, own_id())]),
        (libc::SYS_fcntl, fcntl()),
        (libc::SYS_ioctl, ioctl()),
        (libc::SYS_prctl, prctl()),
        // Reading its own limits, and setting none.
        (libc::SYS_prlimit64, vec![rule([equal(0, 0), is_null(2)])]),
        (libc::SYS_mmap, mmap(calls)),
        (libc::SYS_mprotect, vec![lacks(2, number(libc::PROT_EXEC))]),
    ]);
    if calls == Calls::ReadFiles {
        rules.insert(libc::SYS_openat, vec![lacks(2, writing())]);
        #[cfg(target_arch = "x86_64")]
        rules.insert(libc::SYS_open, vec![lacks(1, writing())]);
    }
    if calls >= Calls::ChangeFiles {
        rules.insert(libc::SYS_openat, Vec::new());
        #[cfg(target_arch = "x86_64")]
        rules.insert(libc::SYS_open, Vec::new());
    }
    if calls >= Calls::ServeMount {
        // The calling thread.
        rules.insert(libc::SYS_sched_setaffinity, vec![is(0, 0)]);
    }
    if calls >= Calls::ReadMetadata {
        // Pairs of connected streams, which lead nowhere else. (A datagram socket would reach any
        // socket that has a path.)
        let local = equal(0, number(libc::AF_UNIX));
        let stream = masked(1, SOCKET_TYPE_MASK, number(libc::SOCK_STREAM));
        rules.insert(libc::SYS_socketpair, vec![rule([local, stream])]);
    }
    rules
}

fn fcntl() -> Vec<SeccompRule> {
    // Not F_SETOWN and F_SETSIG, by which a file sends signals.
    let commands = [
        libc::F_DUPFD,
        libc::F_DUPFD_CLOEXEC,
        libc::F_GETFD,
        libc::F_SETFD,
        libc::F_GETFL,
        libc::F_SETFL,
        libc::F_GETLK,
        libc::F_SETLK,
        libc::F_SETLKW,
        libc::F_OFD_GETLK,
        libc::F_OFD_SETLK,
        libc::F_OFD_SETLKW,
        // To write an image to a pipe in larger pieces.
        libc::F_SETPIPE_SZ,
    ];
    commands.map(|command| is(1, number(command))).into()
}

fn ioctl() -> Vec<SeccompRule> {
    // Not TIOCSTI, by which a process types into its terminal.
    let requests = [
        request(libc::TCGETS),
        request(libc::TIOCGWINSZ),
        request(libc::FIONREAD),
        request(libc::FIONBIO),
        request(libc::FIOCLEX),
        FUSE_CLONE,
        // To share blocks between two files that are open.
        request(libc::FICLONE),
    ];
    requests.map(|request| is(1, request)).into()
}

/// Returns the number of a request, whose type differs between C libraries.
fn request(value: impl TryInto<u64>) -> u64 {
    value.try_into().unwrap_or(u64::MAX)
}

fn prctl() -> Vec<SeccompRule> {
    let options = [
        libc::PR_SET_NAME,
        libc::PR_GET_NAME,
        libc::PR_GET_DUMPABLE,
        libc::PR_CAPBSET_READ,
    ];
    options.map(|option| is(0, number(option))).into()
}

/// Memory that is not executable. In a worker it is also private: shared memory is not counted by
/// its limit.
fn mmap(calls: Calls) -> Vec<SeccompRule> {
    let not_executable = masked(2, number(libc::PROT_EXEC), 0);
    let private = masked(3, number(libc::MAP_TYPE), number(libc::MAP_PRIVATE));
    match calls {
        Calls::Compute => vec![rule([not_executable, private])],
        _ => vec![rule([not_executable])],
    }
}

/// The flags of open(2) that lead to a change.
fn writing() -> u64 {
    number(libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | UNNAMED_FILE)
}

fn own_id() -> u64 {
    u64::from(std::process::id())
}

fn number(value: i32) -> u64 {
    u64::from(value.unsigned_abs())
}

fn is(argument: u8, value: u64) -> SeccompRule {
    rule([equal(argument, value)])
}

/// Returns a rule for an argument with all of these bits.
fn has(argument: u8, bits: u64) -> SeccompRule {
    rule([masked(argument, bits, bits)])
}

/// Returns a rule for an argument without any of these bits.
fn lacks(argument: u8, bits: u64) -> SeccompRule {
    rule([masked(argument, bits, 0)])
}

fn equal(argument: u8, value: u64) -> SeccompCondition {
    condition(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

fn is_null(argument: u8) -> SeccompCondition {
    condition(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)
}

fn masked(argument: u8, mask: u64, value: u64) -> SeccompCondition {
    let operator = SeccompCmpOp::MaskedEq(mask);
    condition(argument, SeccompCmpArgLen::Dword, operator, value)
}

/// Returns a condition for an argument. All arguments but pointers are flags and numbers, of which
/// the kernel looks at the lower 32 bits.
fn condition(
    argument: u8,
    len: SeccompCmpArgLen,
    operator: SeccompCmpOp,
    value: u64,
) -> SeccompCondition {
    // OK to unwrap: it fails only for an argument above the sixth.
    SeccompCondition::new(argument, len, operator, value).expect("the argument exists")
}

/// Returns a rule of which all conditions must hold.
fn rule<const N: usize>(conditions: [SeccompCondition; N]) -> SeccompRule {
    // OK to unwrap: it fails only without a condition.
    SeccompRule::new(conditions.into()).expect("a rule has conditions")
}
