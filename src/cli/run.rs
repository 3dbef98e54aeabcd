//! The command `diskfs run`.

mod program;
mod terminal;

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use clap::Args;

use diskfs::guest::{self, KernelMounts};
use diskfs::vm::{Ended, MachineTree, Running, Stream, VmOptions};
use diskfs::{Disk, Error, ErrorKind, Filesystem, Result};

use super::diff;
use super::operand::Operand;
use super::options::SourceArgs;
use super::session::{Session, raw_stdout};
use super::signals::Signals;
use super::target::{self, WriteArgs};
use program::ProgramArgs;
use terminal::RawTerminal;

/// The exit code if diskfs itself fails, as in chroot(1).
const FAILED: u8 = 125;
/// The exit code if the program exists but cannot be run.
const NOT_RUN: u8 = 126;
/// The exit code if the program does not exist.
const NOT_FOUND: u8 = 127;
/// The exit code after a timeout, as in timeout(1).
const TIMED_OUT: u8 = 124;

/// The time to wait after the timeout until the program is killed, and again until the machine is
/// killed.
const GRACE: Duration = Duration::from_secs(5);

/// Run a program of the guest in a microVM
///
/// The program sees the files as the guest itself would see them: its root filesystem, with the
/// other filesystems where its fstab puts them, and /proc, /sys, /dev and an empty /run. It runs on
/// a separate kernel, as root unless --user is given, and without a network unless --network is
/// given (which requires QEMU). Its changes are written to the image, unless --dry-run or --overlay
/// is given. Standard input, output and error are those of diskfs, or a terminal with --terminal;
/// signals (Ctrl-C, kill) are forwarded to the program. When the program ends, processes that it left running are killed.
///
/// diskfs runs programs of a guest only with this command.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs run debian.qcow2 -- dpkg -l
  diskfs run -t debian.qcow2 -- bash
  diskfs run --overlay new.qcow2 base.qcow2 -- passwd -l root
  diskfs run --user postgres --workdir /var/lib/postgresql db.qcow2 -- pg_controldata
  echo 'touch /.autorelabel' | diskfs run fedora.qcow2 -- sh

Exit code: that of the program; 128 plus the signal number if a signal ended it; 124 after
--timeout; 125 if diskfs failed, 126 if the program cannot be run, 127 if it does not exist.")]
pub(super) struct Run {
    /// The image with the guest
    #[arg(value_name = "IMG")]
    image: Operand,

    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    command: Vec<OsString>,

    #[command(flatten)]
    program: ProgramArgs,

    /// End the program after this number of seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,

    /// Give the program a terminal, for shells and editors; standard input must be one
    #[arg(short, long, conflicts_with = "no_input")]
    terminal: bool,

    /// Do not pass standard input to the program
    #[arg(short = 'n', long)]
    no_input: bool,

    /// Give the program network access, with everything that this user can reach
    #[arg(long)]
    network: bool,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    write: WriteArgs,
}

fn seconds(text: &str) -> std::result::Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| *seconds > 0.0);
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| format!("invalid number of seconds `{text}`"))
}

#[expect(clippy::unnecessary_wraps, reason = "all commands have this form")]
pub(super) fn run(args: &Run, session: &mut Session) -> Result<()> {
    // Signals are blocked before other threads start: a signal that is delivered to one of these
    // would end the process.
    let signals = Signals::block_with_program_signals();
    match args.run(signals, session) {
        Ok(exit_code) => session.set_exit_code(exit_code),
        Err(RunError { error, exit_code }) => {
            session.report(&error);
            session.set_exit_code(exit_code);
        }
    }
    Ok(())
}

/// An error with the exit code that it results in.
struct RunError {
    error: Error,
    exit_code: u8,
}

impl From<Error> for RunError {
    fn from(error: Error) -> Self {
        Self {
            error,
            exit_code: FAILED,
        }
    }
}

impl RunError {
    fn not_started(error: Error) -> Self {
        let exit_code = match error.kind() {
            ErrorKind::NotFound => NOT_FOUND,
            ErrorKind::Denied | ErrorKind::Unsupported => NOT_RUN,
            _ => FAILED,
        };
        Self { error, exit_code }
    }
}

impl Run {
    fn run(&self, signals: Signals, session: &mut Session) -> std::result::Result<u8, RunError> {
        let place = self.image.split();
        if place.path.is_some() {
            let reason = "expected an image to run a program of, not a path in it";
            let error = Error::new(ErrorKind::Invalid, reason);
            return Err(error
                .with_hint("give the image alone, and the directory with --workdir")
                .into());
        }
        if self.terminal {
            RawTerminal::check()?;
        }
        let new_overlay = self.write.new_overlay();
        let disk = self.write.open(&self.source, &place.image)?;
        let ran = self.run_on(&disk, signals);
        session.print_warnings(&disk);
        if self.write.dry_run {
            let exit_code = ran?;
            if let Err(error) = self.print_changes(disk, &place.image, session) {
                session.warn(&format!("cannot list what would change: {error}"));
            }
            return Ok(exit_code);
        }
        let closed = disk.close();
        let exit_code = ran.inspect_err(|_| target::remove_new_overlay(new_overlay))?;
        closed?;
        Ok(exit_code)
    }

    /// Prints the files that the program would have changed.
    fn print_changes(&self, changed: Disk, image: &OsStr, session: &mut Session) -> Result<()> {
        // Standard output belongs to the program.
        let mut lines = Vec::new();
        let bytes = changed.changed_in_memory();
        let before = self.source.open(image)?;
        diff::print_changes(before, changed, &self.source, session, &mut lines)?;
        if let Some(bytes) = bytes {
            writeln!(lines, "diskfs: {bytes} bytes of the disk would change")?;
        }
        let _ = io::stderr().write_all(&lines); // A failure here cannot be reported.
        Ok(())
    }

    fn run_on(&self, disk: &Disk, signals: Signals) -> std::result::Result<u8, RunError> {
        let (filesystem, mounts) = self.guest(disk)?;
        let mut program = self.program.program(&filesystem, &self.command)?;
        program.terminal = self.terminal.then(terminal::size).transpose()?;
        // Checked here: the machine could not tell it from a missing program.
        self.program.check_directory(&filesystem)?;
        // The filesystem was only needed to look up the user; from here on, the machine writes to
        // it.
        drop(filesystem);
        let options = VmOptions {
            network: self.network,
            ..self.source.vm.options()?
        };
        let tree = Arc::new(MachineTree::mount(&options, &mounts)?);
        let running = tree.start(program).map_err(RunError::not_started)?;
        // Only now: what goes wrong before is told to a terminal in its usual mode.
        let raw = self.terminal.then(RawTerminal::begin).transpose();
        let ended = raw.and_then(|_raw| self.forward_until_exit(&tree, &running, signals));
        let closed = tree.end();
        let exit_code = ended?;
        closed?;
        Ok(exit_code)
    }

    /// Returns the filesystem of the selected guest, and its mounts.
    fn guest(&self, disk: &Disk) -> Result<(Filesystem, KernelMounts)> {
        let which = &self.source.volume;
        let volume = match which.volume(disk)? {
            Some(volume) => volume,
            None => match guest::select_system(disk, which.os)? {
                Some(system) => return Ok((system.filesystem()?, system.kernel_mounts())),
                None => disk.default_volume()?,
            },
        };
        Ok((volume.filesystem()?, KernelMounts::of_volume(volume)))
    }

    /// Forwards input, output and signals until the program has ended.
    fn forward_until_exit(
        &self,
        tree: &Arc<MachineTree>,
        running: &Running,
        signals: Signals,
    ) -> Result<u8> {
        if self.no_input {
            running.close_input()?;
        } else {
            let input = running.clone();
            thread::spawn(move || forward_input(&input));
        }
        let (signalled, has_terminal) = (running.clone(), self.terminal);
        thread::spawn(move || {
            loop {
                // It fails if the program has already ended.
                let _ = match signals.wait() {
                    libc::SIGWINCH if has_terminal => {
                        terminal::size().and_then(|size| Ok(signalled.resize(size)?))
                    }
                    libc::SIGWINCH => Ok(()),
                    signal => signalled.signal(signal).map_err(Error::from),
                };
            }
        });
        let is_over = Arc::new(AtomicBool::new(false));
        let watch = self.timeout.map(|timeout| {
            let (stop, stopped) = mpsc::channel();
            let watch = TimeoutWatch {
                tree: Arc::clone(tree),
                running: running.clone(),
                is_over: Arc::clone(&is_over),
                stopped,
            };
            thread::spawn(move || watch.run(timeout));
            stop
        });
        let ended = forward_output(running);
        drop(watch);
        if is_over.load(Ordering::SeqCst) {
            return Ok(TIMED_OUT);
        }
        Ok(ended?.shell_status())
    }
}

/// The timer that ends a program after its timeout.
struct TimeoutWatch {
    tree: Arc<MachineTree>,
    running: Running,
    is_over: Arc<AtomicBool>,
    /// Closed when the program has ended.
    stopped: mpsc::Receiver<()>,
}

impl TimeoutWatch {
    fn run(&self, timeout: Duration) {
        if !self.runs_for(timeout) {
            return;
        }
        self.is_over.store(true, Ordering::SeqCst);
        for signal in [libc::SIGTERM, libc::SIGKILL] {
            // Sent from another thread: a machine that does not answer is killed below.
            let running = self.running.clone();
            thread::spawn(move || running.signal(signal));
            if !self.runs_for(GRACE) {
                return;
            }
        }
        self.tree.kill();
    }

    fn runs_for(&self, time: Duration) -> bool {
        self.stopped.recv_timeout(time) == Err(RecvTimeoutError::Timeout)
    }
}

/// Forwards standard input until it ends, or until the program does not accept more.
fn forward_input(running: &Running) {
    let mut buffer = vec![0; 64 << 10];
    let mut input = io::stdin().lock();
    loop {
        match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(len) if running.input(&buffer[..len]).is_ok() => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => return,
        }
    }
    let _ = running.close_input(); // The program may have ended.
}

/// Forwards the program's output. If the reader of standard output is gone, the program is told, as
/// with a pipe.
fn forward_output(running: &Running) -> Result<Ended> {
    let mut output = raw_stdout()?;
    let mut error = io::stderr();
    let mut is_wanted = true;
    running.wait(|stream, bytes| {
        let written = match stream {
            Stream::Output if is_wanted => output.write_all(bytes),
            Stream::Output => Ok(()),
            Stream::Error => {
                // A failure here cannot be reported.
                let _ = error.write_all(bytes);
                Ok(())
            }
        };
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                is_wanted = false;
                let _ = running.signal(libc::SIGPIPE);
                Ok(())
            }
            written => Ok(written?),
        }
    })
}
