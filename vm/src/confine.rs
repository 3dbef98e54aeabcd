//! Confinement of a machine's process: on the host it may do little more than compute.
//!
//! The kernel in the machine reads bytes of unknown origin and may be compromised by them. Then it
//! acts as a process of this user, limited to what this module allows. Each layer is applied where
//! the host allows it; SECURITY.md describes the consequences.
#![expect(
    unsafe_code,
    reason = "std has no safe way to run code between fork and exec, where a process confines itself"
)]

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use diskfs_sandbox::{FileRules, HostFiles, Network, RulesError};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getgid, getppid, getuid, set_parent_process_death_signal,
    setrlimit, setsid,
};
use rustix::thread::{CpuSet, UnshareFlags, sched_setaffinity, set_no_new_privs, unshare_unsafe};

/// The user id in the machine's namespace, `nobody` by convention; it has no rights outside.
const NOBODY: u32 = 65_534;

/// The rights of a machine's process.
#[derive(Debug, Clone, Default)]
pub(super) struct Confinement {
    /// Files and directories that it may read and execute.
    pub(super) read: Vec<PathBuf>,
    /// Files and directories that it may write.
    pub(super) write: Vec<PathBuf>,
    /// True if it stays on one processor: where its threads alternate, that saves waking another
    /// processor.
    pub(super) one_cpu: bool,
    /// True if it shares this process's network.
    pub(super) network: bool,
    /// An open file that it inherits, under the same number.
    pub(super) inherits: Option<Arc<OwnedFd>>,
}

impl Confinement {
    /// Makes the process of `command` confine itself before it executes the program.
    pub(super) fn apply_to(&self, command: &mut Command) {
        let mut before_exec = BeforeExec::new(self);
        // SAFETY: between fork and exec of a multi-threaded process, only async-signal-safe
        // operations are allowed: another thread may have held the allocator's lock. `BeforeExec` was
        // prepared in advance and makes only system calls.
        unsafe {
            command.pre_exec(move || before_exec.run());
        }
    }
}

/// The confinement steps of the new process. They allocate no memory.
struct BeforeExec {
    parent: Option<Pid>,
    rules: Option<FileRules>,
    cpu: Option<CpuSet>,
    network: bool,
    inherits: Option<Arc<OwnedFd>>,
    uid_map: String,
    gid_map: String,
}

impl BeforeExec {
    fn new(confinement: &Confinement) -> Self {
        let rules = match rules(confinement) {
            Ok(rules) => Some(rules),
            Err(error) => {
                tracing::debug!(%error, "Landlock is not available");
                None
            }
        };
        Self {
            parent: Pid::from_raw(std::process::id().try_into().unwrap_or_default()),
            rules,
            cpu: confinement.one_cpu.then(last_cpu).flatten(),
            network: confinement.network,
            inherits: confinement.inherits.clone(),
            uid_map: format!("{NOBODY} {} 1", getuid().as_raw()),
            gid_map: format!("{NOBODY} {} 1", getgid().as_raw()),
        }
    }

    fn run(&mut self) -> io::Result<()> {
        // Signals of the terminal go to this process alone, which ends the machine in order.
        let _ = setsid(); // Fails only for a group leader, which a new process is not.
        if let Some(cpu) = &self.cpu {
            let _ = sched_setaffinity(None, cpu); // Failure only costs speed.
        }
        if let Some(fd) = &self.inherits {
            fcntl_setfd(fd, FdFlags::empty())?;
        }
        let none = Rlimit {
            current: Some(0),
            maximum: Some(0),
        };
        setrlimit(Resource::Core, none)?;
        self.leave_namespaces();
        set_no_new_privs(true)?;
        if let Some(rules) = self.rules.take() {
            // The rules fit the kernel's version of Landlock, if it has one.
            let _ = rules.enforce();
        }
        // This must come last: a change of credentials resets the signal.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() != self.parent {
            // The parent ended before the signal was set.
            return Err(io::Error::from(io::ErrorKind::BrokenPipe));
        }
        Ok(())
    }

    /// Leaves the host's namespaces: no network (unless the machine has one), no shared memory of
    /// others, no privileges. Many hosts, and most containers, don't allow it.
    fn leave_namespaces(&self) {
        let mut flags = UnshareFlags::NEWUSER | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
        flags.set(UnshareFlags::NEWNET, !self.network);
        // SAFETY: the table of descriptors is not unshared.
        if unsafe { unshare_unsafe(flags) }.is_err() {
            return;
        }
        // Without a map the process is `nobody` as well; the maps make it the owner of its files.
        let _ = write(Path::new("/proc/self/setgroups"), "deny");
        let _ = write(Path::new("/proc/self/uid_map"), &self.uid_map);
        let _ = write(Path::new("/proc/self/gid_map"), &self.gid_map);
    }
}

/// Writes text to a file. Opening a file by a short path allocates no heap memory.
fn write(path: &Path, text: &str) -> io::Result<()> {
    File::options()
        .write(true)
        .open(path)?
        .write_all(text.as_bytes())
}

fn rules(confinement: &Confinement) -> Result<FileRules, RulesError> {
    let files = HostFiles {
        execute: confinement.read.clone(),
        write_and_execute: confinement.write.clone(),
        ..HostFiles::default()
    };
    let network = if confinement.network {
        Network::Kept
    } else {
        Network::None
    };
    FileRules::new(&files, network)
}

/// Returns the last processor that this process may use: the first ones are usually busier.
fn last_cpu() -> Option<CpuSet> {
    let allowed = rustix::thread::sched_getaffinity(None).ok()?;
    let last = (0..CpuSet::MAX_CPU)
        .rev()
        .find(|cpu| allowed.is_set(*cpu))?;
    let mut one = CpuSet::new();
    one.set(last);
    Some(one)
}
