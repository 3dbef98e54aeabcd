//! The filter of system calls: an allow-list.
//!
//! A call that is not allowed is not executed and fails with `EPERM`. The process is not killed:
//! which calls a C library makes differs between its versions, and a library that probes for a new
//! call must not end a user's command. The call has no effect either way. `clone3` fails with
//! `ENOSYS`, so that C libraries use `clone`, whose flags the filter can check.

mod calls;
mod conditions;
mod parts;

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompFilter, SeccompRule, TargetArch, apply_filter,
};
use serde::{Deserialize, Serialize};

/// The system calls that a process may make.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Calls {
    /// Computing, reading and writing open files, starting threads. No file can be opened, no
    /// process or socket created, and no memory made executable or shared.
    #[default]
    Compute,
    /// In addition to `Compute`: names and metadata of files, pairs of connected sockets, shared
    /// memory, and waiting for children.
    ReadMetadata,
    /// In addition to `ReadMetadata`: opening files for reading.
    ReadFiles,
    /// In addition to `ReadFiles`: creating, changing, renaming and deleting files.
    ChangeFiles,
    /// In addition to `ChangeFiles`: leaving a terminal, syncing a filesystem, accepting
    /// connections, using rings of `io_uring` that are open, and binding a thread to processors.
    ServeMount,
}

/// The rules: each allowed call, with the conditions of which one must hold; none means always.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Filters the system calls of this process from now on.
pub(crate) fn apply(calls: Calls) -> io::Result<()> {
    // The allow-list comes second: under it, no filter can be added.
    for program in [without_clone3(), allow_list(calls)] {
        let program = program.map_err(io::Error::other)?;
        apply_filter(&program).map_err(io::Error::other)?;
    }
    Ok(())
}

fn allow_list(calls: Calls) -> Result<BpfProgram, seccompiler::BackendError> {
    parts::joined(rules(calls), one_list)
}

/// Returns a filter that allows what has a rule, in one list.
fn one_list(rules: Rules) -> Result<BpfProgram, seccompiler::BackendError> {
    let denied = errno(libc::EPERM);
    SeccompFilter::new(rules, denied, SeccompAction::Allow, architecture()?)?.try_into()
}

/// Returns a filter for `clone3`. Of two filters the stricter one decides, so the other one allows
/// this call.
fn without_clone3() -> Result<BpfProgram, seccompiler::BackendError> {
    let rules = Rules::from([(libc::SYS_clone3, Vec::new())]);
    let unknown = errno(libc::ENOSYS);
    SeccompFilter::new(rules, SeccompAction::Allow, unknown, architecture()?)?.try_into()
}

fn errno(number: i32) -> SeccompAction {
    SeccompAction::Errno(number.unsigned_abs())
}

fn architecture() -> Result<TargetArch, seccompiler::BackendError> {
    std::env::consts::ARCH.try_into()
}

fn rules(calls: Calls) -> Rules {
    let mut rules = Rules::new();
    let mut allow = |numbers: &[i64]| rules.extend(numbers.iter().map(|&call| (call, Vec::new())));
    allow(calls::COMPUTE);
    if calls >= Calls::ReadMetadata {
        allow(calls::READ_METADATA);
    }
    if calls >= Calls::ChangeFiles {
        allow(calls::CHANGE_FILES);
    }
    if calls >= Calls::ServeMount {
        allow(calls::SERVE_MOUNT);
    }
    rules.extend(conditions::of(calls));
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_out_of_the_process_is_in_no_list() {
        let out = [
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_socket,
            libc::SYS_connect,
            libc::SYS_bind,
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_kill,
            libc::SYS_tkill,
            libc::SYS_pidfd_send_signal,
            libc::SYS_pidfd_getfd,
            libc::SYS_io_uring_setup,
            libc::SYS_io_uring_register,
            libc::SYS_mount,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_keyctl,
            libc::SYS_bpf,
            libc::SYS_userfaultfd,
            libc::SYS_perf_event_open,
            libc::SYS_open_by_handle_at,
            libc::SYS_memfd_create,
            libc::SYS_seccomp,
            libc::SYS_openat2,
        ];
        for calls in [
            Calls::Compute,
            Calls::ReadMetadata,
            Calls::ReadFiles,
            Calls::ChangeFiles,
            Calls::ServeMount,
        ] {
            let rules = rules(calls);
            for call in out {
                assert!(!rules.contains_key(&call), "{calls:?} allows call {call}");
            }
            allow_list(calls).unwrap();
        }
        assert!(!rules(Calls::ReadMetadata).contains_key(&libc::SYS_openat));
    }
}
