//! Programs of a guest that run in the guest's tree.
//!
//! # Locks
//! The table of programs is locked while one is started, and never while anything waits for one.

mod name_server;
mod orphans;
mod process;
mod terminal;
mod tree;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::mem::take;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use diskfs_remote::server::{Location, Program, Running};
use diskfs_vfs::{Error, ErrorKind, Result};
use rustix::process::{Signal, getpid};

use crate::kernel_calls::{ProcessSetup, kill_all, set_up_before_exec};
use crate::kernel_log::log;
use process::Process;
use terminal::Terminal;

/// The timeout for the end of programs that were killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// The programs that a machine runs.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    state: Mutex<ProgramTable>,
}

#[derive(Debug, Default)]
struct ProgramTable {
    /// True once no more programs are started.
    is_over: bool,
    running: Vec<Arc<Process>>,
    /// The root directories that have `/proc` and the other usual mounts.
    prepared_roots: BTreeSet<PathBuf>,
    /// The root directories of the mounts that were made for programs.
    mounted: Vec<OwnedFd>,
}

impl Programs {
    fn state(&self) -> MutexGuard<'_, ProgramTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bind-mounts a directory, see [`Machine::bind`](diskfs_remote::server::Machine::bind).
    pub(crate) fn bind(&self, from: &Location<'_>, to: &Location<'_>) -> Result<()> {
        let mounted = tree::bind(from, to)?;
        self.state().mounted.push(mounted);
        Ok(())
    }

    /// Starts a program, see [`Machine::start`](diskfs_remote::server::Machine::start).
    pub(crate) fn start(&self, root: &Location<'_>, program: &Program) -> Result<Arc<dyn Running>> {
        let root_dir = tree::open(root)?;
        tree::check_machine(&root_dir, program)?;
        let mut state = self.state();
        if state.is_over {
            return Err(Error::new(ErrorKind::Busy, "the machine is shutting down"));
        }
        let path = tree::path_of(&root_dir)?;
        if state.prepared_roots.insert(path) {
            state.mounted.extend(tree::mount_standard(&root_dir));
            match name_server::show(&root_dir) {
                Ok(shown) => state.mounted.extend(shown),
                Err(error) => log(&format!(
                    "cannot set the name server in the guest's tree: {error}"
                )),
            }
        }
        let terminal = program.terminal.map(|size| Terminal::open(&root_dir, size));
        let terminal = terminal.transpose()?;
        let mut command = command(program);
        let user = &program.user;
        set_up_before_exec(
            &mut command,
            ProcessSetup {
                root: root_dir,
                directory: directory(program),
                uid: user.uid,
                gid: user.gid,
                groups: user.groups.clone(),
                has_terminal: terminal.is_some(),
            },
        );
        state.running.retain(|process| process.ended().is_none());
        let process = match terminal {
            Some(terminal) => Process::start_at(&mut command, terminal),
            None => Process::start(&mut command),
        };
        let process = Arc::new(process.map_err(|error| tree::not_started(root, program, &error))?);
        state.running.push(Arc::clone(&process));
        drop(state);
        if getpid().is_init() {
            orphans::start_reaper();
        }
        Ok(process)
    }

    /// Returns true if programs have run and all of them have ended for good.
    pub(crate) fn have_run(&self) -> bool {
        let state = self.state();
        state.is_over && !state.prepared_roots.is_empty()
    }

    /// Ends all programs, see
    /// [`Machine::end_programs`](diskfs_remote::server::Machine::end_programs).
    pub(crate) fn end_all(&self) {
        let (running, mounted) = {
            let mut state = self.state();
            state.is_over = true;
            let state = &mut *state;
            (take(&mut state.running), take(&mut state.mounted))
        };
        for process in &running {
            process.send(Signal::KILL).ok();
        }
        // Also kill the processes that programs have left behind.
        kill_all();
        let deadline = Instant::now().checked_add(KILL_TIMEOUT);
        let left = || {
            let known = running.iter().any(|process| process.ended().is_none());
            known || getpid().is_init() && orphans::has_children()
        };
        while left() && deadline.is_some_and(|deadline| Instant::now() < deadline) {
            thread::sleep(Duration::from_millis(1));
        }
        // The last one mounted is unmounted first.
        for mounted in mounted.into_iter().rev() {
            tree::unmount_all_at(mounted);
        }
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        self.end_all();
    }
}

fn command(program: &Program) -> Command {
    let mut words = program.words.iter().map(|word| OsStr::from_bytes(word));
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).env_clear();
    for line in &program.environment {
        let mut parts = line.splitn(2, |&byte| byte == b'=');
        let name = parts.next().unwrap_or_default();
        let value = parts.next().unwrap_or_default();
        command.env(OsStr::from_bytes(name), OsStr::from_bytes(value));
    }
    command
}

fn directory(program: &Program) -> PathBuf {
    match program.directory.as_slice() {
        [] => "/".into(),
        path => OsStr::from_bytes(path).into(),
    }
}

fn io_error(reason: &'static str) -> impl Fn(io::Error) -> Error {
    move |error| Error::new(ErrorKind::Io, format!("{reason}: {error}"))
}
