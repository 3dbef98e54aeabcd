//! Guards for the processes that serve a mount. Each guard ends its process when dropped.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal};

use crate::limit::{self, Watched};
use crate::process;

/// The time limit for a server to exit. A server that must write a GiB back needs seconds.
const PATIENCE: Duration = Duration::from_mins(1);

/// The process that serves a mount or a device.
#[derive(Debug)]
pub(crate) struct Server {
    pid: u32,
    /// The waiting time before the process is asked to exit.
    told_after: Duration,
    _watched: Watched,
}

impl Server {
    /// Returns the guard of a process that serves a device until it is asked to exit.
    pub(crate) fn of_device(pid: u32) -> Self {
        Self::new(pid, Duration::from_millis(200))
    }

    /// Returns the guard of a process that exits by itself when its mount is gone and all data is
    /// written back: a signal before that might prevent it.
    pub(crate) fn of_mount(pid: u32) -> Self {
        Self::new(pid, PATIENCE / 2)
    }

    fn new(pid: u32, told_after: Duration) -> Self {
        Self {
            pid,
            told_after,
            _watched: Watched::new(pid),
        }
    }

    /// Finds the process that has the mount `point` on its command line: contenders go into the
    /// background by themselves, and only some write a pid file.
    pub(crate) fn find(point: &Path) -> Result<Self> {
        let pid = process::naming(point)?.first().copied();
        let pid = pid.with_context(|| {
            let point = point.display();
            format!("no process serves {point}: the server exited right after the mount")
        })?;
        Ok(Self::of_mount(pid))
    }

    /// Returns the process number.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits until the process has exited.
    pub(crate) fn stop(&mut self) -> Result<()> {
        let is_gone = self.wait_or_signal();
        ensure!(is_gone, "process {} does not exit", self.pid);
        Ok(())
    }

    fn wait_or_signal(&self) -> bool {
        let start = Instant::now();
        let mut is_told = false;
        while process::is_running(self.pid) {
            if start.elapsed() > PATIENCE {
                return false;
            }
            if !is_told && start.elapsed() > self.told_after {
                terminate(self.pid);
                is_told = true;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        true
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.wait_or_signal() {
            limit::kill(self.pid);
        }
    }
}

fn terminate(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = rustix::process::kill_process(pid, Signal::TERM);
    }
}

/// A server and the machine that it has started: the processes that have a certain directory in
/// their environment. The machine may have no parent, and continue after its server is killed.
#[derive(Debug)]
pub(crate) struct Machine {
    dir: PathBuf,
}

impl Machine {
    /// Returns the guard of a machine that will be started with `dir`, a new directory, in its
    /// environment.
    pub(crate) fn in_directory(dir: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        Ok(Self { dir })
    }

    /// Returns its directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns its processes.
    pub(crate) fn processes(&self) -> Result<Vec<u32>> {
        process::started_with(&self.dir)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let start = Instant::now();
        while let Ok(left) = self.processes()
            && !left.is_empty()
            && start.elapsed() < PATIENCE
        {
            // If all went well, the server has been waited for, and has asked the machine to exit.
            if start.elapsed() > Duration::from_secs(2) {
                left.into_iter().for_each(limit::kill);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// Starts a shell that runs until its input ends.
    fn shell(argument: &str, variable: &Path) -> Child {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo ready; read line", "sh", argument]);
        shell.env("MACHINE", variable);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        // The command line of the process is visible only after it runs.
        let mut word = [0; 5];
        let out = child.stdout.as_mut().unwrap();
        out.read_exact(&mut word).unwrap();
        child
    }

    #[test]
    fn a_server_is_found_by_its_argument_and_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let mut child = shell(&dir.path().to_string_lossy(), Path::new(""));
        let found = Server::find(dir.path()).unwrap();
        assert_eq!(found.pid(), child.id());
        let mut server = Server::of_device(found.pid());
        // The closure keeps the shell's input open: only the signal ends it.
        let reaper = std::thread::spawn(move || {
            let _input = child.stdin.take();
            child.wait()
        });
        server.stop().unwrap();
        assert!(!reaper.join().unwrap().unwrap().success());
    }

    #[test]
    fn a_machine_that_is_left_is_killed() {
        let dir = tempfile::tempdir().unwrap();
        let machine = Machine::in_directory(dir.path().join("machine")).unwrap();
        let mut child = shell("", machine.dir());
        assert_eq!(machine.processes().unwrap(), [child.id()]);
        let reaper = std::thread::spawn(move || {
            let _input = child.stdin.take();
            child.wait()
        });
        drop(machine);
        assert!(!reaper.join().unwrap().unwrap().success());
        assert!(!dir.path().join("machine").exists());
    }
}
