//! The User Mode Linux backend: the appliance's kernel as an ordinary process.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::VmOptions;
use super::backend::{Backend, Channel, Prepared};
use super::boot_files::Appliance;
use super::confine::Confinement;
use super::run_dir::RunDir;
use diskfs_disk::{Error, ErrorKind, Result};

/// The deadline. An idle machine answers within 0.1 s.
const DEADLINE: Duration = Duration::from_secs(10);

/// The virtio device types (virtio 1.3, section 5), which the kernel reads from its command line.
const VIRTIO_BLOCK: u32 = 2;
const VIRTIO_CONSOLE: u32 = 3;

/// The speed of the processor, in turns of a delay loop per timer tick. No driver of this kernel
/// delays, and measuring it would take five ticks: 50 ms of a start.
const DELAY_LOOPS: &str = "lpj=20000000";

#[derive(Debug)]
pub(super) struct Uml;

impl Backend for Uml {
    fn prepare(
        &self,
        appliance: &Appliance,
        options: &VmOptions,
    ) -> Result<Vec<Box<dyn Prepared>>> {
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            let reason = "User Mode Linux is supported on x86-64 Linux only";
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        if options.kernel.is_some() {
            let reason = "a guest's kernel is not supported: only QEMU boots it";
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        if options.network {
            let reason = "a network is not supported: only QEMU has one";
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        let kernel = appliance.uml()?;
        if !Path::new("/proc/self/exe").exists() {
            let reason = "User Mode Linux needs /proc, which is not mounted here";
            return Err(Error::new(ErrorKind::Unsupported, reason).with_hint("mount /proc"));
        }
        Ok(vec![Box::new(Ready {
            kernel,
            memory_mib: options.memory_mib,
        })])
    }
}

#[derive(Debug)]
struct Ready {
    kernel: PathBuf,
    memory_mib: u32,
}

impl Prepared for Ready {
    fn files(&self) -> Vec<PathBuf> {
        vec![self.kernel.clone()]
    }

    fn deadline(&self) -> Duration {
        DEADLINE
    }

    fn command(&self, dir: &RunDir, disks: usize) -> Result<(Command, Confinement)> {
        let mut command = Command::new(&self.kernel);
        let device =
            |socket: PathBuf, kind: u32| format!("virtio_uml.device={}:{kind}", socket.display());
        command
            .arg(format!("mem={}M", self.memory_mib))
            // The console is the log; there is no input.
            .args(["con0=null,fd:1", "con=null", "ssl=null"])
            .args(["quiet", "panic=-1", DELAY_LOOPS])
            // Without ptrace if the host's kernel can: faster, and allowed in more sandboxes.
            .arg("seccomp=auto")
            .arg(format!("uml_dir={}", dir.path().display()))
            .arg("umid=microvm")
            .args((0..disks).map(|index| device(dir.disk(index), VIRTIO_BLOCK)))
            .arg(device(dir.console(), VIRTIO_CONSOLE))
            // The machine's memory is an unnamed file in that directory.
            .env_clear()
            .env("TMPDIR", dir.path())
            .env("HOME", dir.path());
        let confinement = Confinement {
            read: vec![self.kernel.clone(), "/proc".into()],
            write: vec![dir.path().to_owned(), "/dev/null".into()],
            // A system call of the guest switches between two of its processes: on two processors,
            // each switch wakes another processor, which takes fifteen times as long.
            one_cpu: true,
            ..Confinement::default()
        };
        Ok((command, confinement))
    }

    fn channel(&self) -> Channel {
        Channel::VhostUser
    }
}
