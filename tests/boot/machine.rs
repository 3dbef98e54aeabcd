//! An emulated machine: its serial console, and its ssh access.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

const CODE: &str = "/usr/share/OVMF/OVMF_CODE_4M.fd";

/// The template of the firmware's variables, which the firmware fills.
const VARS: &str = "/usr/share/OVMF/OVMF_VARS_4M.fd";

/// The address of its only network card.
pub(crate) const MAC: &str = "52:54:00:d1:5c:f5";

/// The time limit for everything that a test waits for: without KVM, beside other machines.
const PATIENCE: Duration = Duration::from_mins(4);

/// The way in which the machine boots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start<'a> {
    /// A kernel and its initramfs, the files `vmlinuz` and `initrd.img` of the work directory, with
    /// this root.
    Kernel {
        /// The root device, as on the kernel's command line.
        root: &'a str,
    },
    /// The firmware, and the boot loader that it finds.
    Firmware,
}

/// A machine that runs until it is dropped, or powers itself off.
pub(crate) struct Machine {
    child: Child,
    stdin: ChildStdin,
    console: Arc<Console>,
    /// The number of bytes of its output that were already searched.
    seen: usize,
    /// The port of this host that is forwarded to the guest's port 22.
    ssh_port: u16,
    work: PathBuf,
}

/// The output of a machine.
#[derive(Default)]
struct Console {
    printed: Mutex<Printed>,
    more: Condvar,
}

#[derive(Default)]
struct Printed {
    bytes: Vec<u8>,
    is_ended: bool,
}

impl Machine {
    /// Starts a machine with these disks, with its files in `work`.
    pub(crate) fn start(disks: &[&Path], work: &Path, start: Start<'_>) -> Result<Self> {
        let drives: Vec<String> = disks
            .iter()
            .map(|disk| drive(disk, "if=virtio,format=qcow2"))
            .collect();
        Self::with_drives(&drives, work, start, &[])
    }

    /// Starts a machine with these drives, as QEMU's option `-drive` has them, and more options.
    pub(crate) fn with_drives(
        drives: &[String],
        work: &Path,
        start: Start<'_>,
        more: &[&str],
    ) -> Result<Self> {
        let ssh_port = free_port()?;
        let mut qemu = Command::new("qemu-system-x86_64");
        qemu.args("-accel tcg -machine q35 -cpu max -smp 1 -m 512".split(' '))
            .args("-nodefaults -no-user-config -display none -no-reboot -monitor none".split(' '))
            .args(["-serial", "stdio", "-device", "virtio-rng-pci"])
            // The machine reaches only this host, and only through this port.
            .args(["-netdev".to_owned(), netdev(ssh_port)])
            .args(["-device", &format!("virtio-net-pci,netdev=net,mac={MAC}")]);
        for drive in drives {
            qemu.args(["-drive", drive]);
        }
        qemu.args(more).current_dir(work);
        match start {
            Start::Kernel { root } => {
                qemu.arg("-kernel").arg(work.join("vmlinuz"));
                qemu.arg("-initrd").arg(work.join("initrd.img"));
                let arguments = format!("root={root} ro console=ttyS0,115200n8");
                qemu.args(["-append", &arguments]);
            }
            Start::Firmware => {
                let vars = work.join("vars.fd");
                std::fs::copy(VARS, &vars)?;
                let code = drive(Path::new(CODE), "if=pflash,unit=0,format=raw,readonly=on");
                qemu.args(["-drive", &code]);
                qemu.args(["-drive", &drive(&vars, "if=pflash,unit=1,format=raw")]);
            }
        }
        let mut child = qemu
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()?;
        let stdin = child.stdin.take().context("the stream is not a pipe")?;
        let stdout = child.stdout.take().context("the stream is not a pipe")?;
        let console = Arc::new(Console::default());
        let keeper = Arc::clone(&console);
        thread::spawn(move || keeper.keep(stdout));
        Ok(Self {
            child,
            stdin,
            console,
            seen: 0,
            ssh_port,
            work: work.to_owned(),
        })
    }

    /// Waits until the console shows a text, after the text of the previous call.
    pub(crate) fn expect(&mut self, text: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let mut printed = self.console.printed.lock().expect("no panic");
        loop {
            let new = printed.bytes.get(self.seen..).unwrap_or_default();
            if let Some(at) = find(new, text.as_bytes()) {
                self.seen += at + text.len();
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if printed.is_ended || left.is_zero() {
                let all = String::from_utf8_lossy(&printed.bytes);
                bail!("the console does not show `{text}`; its output:\n{all}");
            }
            printed = self
                .console
                .more
                .wait_timeout(printed, left)
                .expect("no panic")
                .0;
        }
    }

    /// Types a line.
    pub(crate) fn type_line(&mut self, line: &str) -> Result<()> {
        self.stdin.write_all(format!("{line}\n").as_bytes())?;
        Ok(self.stdin.flush()?)
    }

    /// Runs ssh to the machine with these words. The machine's host keys must be in `known_hosts`.
    pub(crate) fn ssh(&self, words: &[&str], input: &str) -> Result<std::process::Output> {
        let mut ssh = Command::new("ssh");
        ssh.args(["-F", "none", "-o", "StrictHostKeyChecking=yes"])
            .args(["-o", "ConnectTimeout=120", "-o", "BatchMode=yes"])
            .args(["-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none"])
            .args(["-o", "UserKnownHostsFile=known_hosts"])
            .args(["-o", "HostKeyAlias=guest", "-i", "key"])
            .args(["-p", &self.ssh_port.to_string()])
            .args(words)
            .current_dir(&self.work)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = ssh.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // If the login is refused, the input is not read.
            let _ = stdin.write_all(input.as_bytes());
        }
        Ok(child.wait_with_output()?)
    }

    /// Waits until the machine has powered itself off.
    pub(crate) fn is_off(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("the machine exited with {status}"),
                None => thread::sleep(Duration::from_millis(50)),
            }
        }
        bail!("the machine does not power itself off")
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Console {
    /// Stores the output until it ends.
    fn keep(&self, mut from: impl Read) {
        let mut bytes = [0; 4096];
        loop {
            let len = from.read(&mut bytes).unwrap_or(0);
            let mut printed = self.printed.lock().expect("no panic");
            printed.bytes.extend_from_slice(&bytes[..len]);
            printed.is_ended = len == 0;
            self.more.notify_all();
            if len == 0 {
                return;
            }
        }
    }
}

fn drive(file: &Path, options: &str) -> String {
    format!("file={},{options}", file.display())
}

fn netdev(ssh_port: u16) -> String {
    format!("user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{ssh_port}-10.0.2.15:22")
}

fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|part| part == text)
}

/// Returns a port on which no process listens at the moment.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    Ok(listener.local_addr()?.port())
}
