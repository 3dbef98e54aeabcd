//! `diskfs run`.

mod program;

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use clap::Args;

use diskfs::guest::{self, Steps};
use diskfs::vm::{Ended, MachineTree, Running, Stream, VmOptions};
use diskfs::{Disk, Error, ErrorKind, Filesystem, Result};

use super::operand::Operand;
use super::options::SourceArgs;
use super::session::{Session, raw_stdout};
use super::signals::Signals;
use super::target::{self, WriteArgs};
use program::ProgramArgs;

/// What diskfs itself ends with when it can't do its part, as chroot(1) does.
const FAILED: u8 = 125;
/// The program is there and can't be run.
const NOT_RUN: u8 = 126;
/// There is no such program.
const NOT_FOUND: u8 = 127;
/// The time was over, as timeout(1) has it.
const TIMED_OUT: u8 = 124;

/// How long a program has to end when its time is over, before it is killed; and then the machine.
const GRACE: Duration = Duration::from_secs(5);

/// Run a program of the guest, inside a microVM
///
/// The program sees what the guest itself would see: its root filesystem, and the others where its fstab
/// has them; with /proc, /sys, /dev and an empty /run. It runs on a kernel of its own, without a network
/// unless --network is given (QEMU has one), as root if nothing else is said, and what it changes stays, unless --dry-run or --overlay says
/// otherwise. Standard input, output and error are those of diskfs; signals (Ctrl-C, kill) go to the
/// program. What is still running when it ends is killed.
///
/// Nothing of a guest is ever run unless this command asks for it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs run debian.qcow2 -- dpkg -l
  diskfs run --overlay new.qcow2 base.qcow2 -- passwd -l root
  diskfs run --user postgres --workdir /var/lib/postgresql db.qcow2 -- pg_controldata
  echo 'touch /.autorelabel' | diskfs run fedora.qcow2 -- sh

Exit status: that of the program; 128 and the signal when a signal ended it; 124 when --timeout was over;
125 when diskfs failed, 126 when the program can't be run, 127 when there is none.")]
pub(super) struct Run {
    /// The image
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

    /// End it after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,

    /// Give it no input
    #[arg(short = 'n', long)]
    no_input: bool,

    /// Give it a network: whatever this user reaches
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
    duration.ok_or_else(|| format!("`{text}` is no number of seconds"))
}

#[expect(clippy::unnecessary_wraps, reason = "all commands have this form")]
pub(super) fn run(args: &Run, session: &mut Session) -> Result<()> {
    // Before there are other threads, which a signal would end otherwise.
    let signals = Signals::hold_those_for_programs();
    match args.run(signals, session) {
        Ok(exit_code) => session.end_with(exit_code),
        Err(Failed { error, exit_code }) => {
            session.report(&error);
            session.end_with(exit_code);
        }
    }
    Ok(())
}

/// An error, and what it is for who waits for the program.
struct Failed {
    error: Error,
    exit_code: u8,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self {
            error,
            exit_code: FAILED,
        }
    }
}

impl Failed {
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
    fn run(&self, signals: Signals, session: &mut Session) -> std::result::Result<u8, Failed> {
        let place = self.image.split();
        if place.path.is_some() {
            let reason = "a program runs in a guest, and not in a path of it";
            let error = Error::new(ErrorKind::Invalid, reason);
            return Err(error
                .with_hint("give the image alone, and --workdir")
                .into());
        }
        let new_overlay = self.write.new_overlay();
        let disk = self.write.open(&self.source, &place.image)?;
        let ran = self.run_on(&disk, signals);
        session.warn_of(&disk);
        let changed_bytes = disk.changed_in_memory();
        let closed = disk.close();
        let exit_code = ran.inspect_err(|_| target::forget(new_overlay))?;
        closed?;
        if let Some(bytes) = changed_bytes.filter(|_| self.write.dry_run) {
            // Standard output is the program's.
            let line = format!("diskfs: {bytes} bytes of the disk would change\n");
            let _ = io::stderr().write_all(line.as_bytes()); // Nowhere left to complain.
        }
        Ok(exit_code)
    }

    fn run_on(&self, disk: &Disk, signals: Signals) -> std::result::Result<u8, Failed> {
        let (filesystem, steps) = self.guest(disk)?;
        let program = self.program.program(&filesystem, &self.command)?;
        // It was looked at; from now on it is written.
        drop(filesystem);
        let options = VmOptions {
            network: self.network,
            ..self.source.vm.options()?
        };
        let tree = Arc::new(MachineTree::mount(&options, &steps)?);
        let running = tree.start(program).map_err(Failed::not_started)?;
        let ended = self.attend(&tree, &running, signals);
        let closed = tree.end();
        let exit_code = ended?;
        closed?;
        Ok(exit_code)
    }

    /// The files of the guest that is meant, and how they are mounted.
    fn guest(&self, disk: &Disk) -> Result<(Filesystem, Steps)> {
        let which = &self.source.volume;
        let volume = match which.volume(disk)? {
            Some(volume) => volume,
            None => match guest::meant(disk, which.os)? {
                Some(system) => return Ok((system.filesystem()?, system.steps())),
                None => disk.meant_volume()?,
            },
        };
        Ok((volume.filesystem()?, Steps::of_volume(volume)))
    }

    /// Hands everything on until the program has ended.
    fn attend(&self, tree: &Arc<MachineTree>, running: &Running, signals: Signals) -> Result<u8> {
        if self.no_input {
            running.close_input()?;
        } else {
            let input = running.clone();
            thread::spawn(move || hand_in(&input));
        }
        let signalled = running.clone();
        thread::spawn(move || {
            loop {
                // One that has ended needs none.
                let _ = signalled.signal(signals.wait());
            }
        });
        let is_over = Arc::new(AtomicBool::new(false));
        let clock = self.timeout.map(|timeout| {
            let (stop, stopped) = mpsc::channel();
            let clock = Clock {
                tree: Arc::clone(tree),
                running: running.clone(),
                is_over: Arc::clone(&is_over),
                stopped,
            };
            thread::spawn(move || clock.run(timeout));
            stop
        });
        let ended = hand_out(running);
        drop(clock);
        if is_over.load(Ordering::SeqCst) {
            return Ok(TIMED_OUT);
        }
        Ok(ended?.shell_status())
    }
}

/// Ends a program whose time is over.
struct Clock {
    tree: Arc<MachineTree>,
    running: Running,
    is_over: Arc<AtomicBool>,
    /// Hangs up when the program has ended.
    stopped: mpsc::Receiver<()>,
}

impl Clock {
    fn run(&self, timeout: Duration) {
        if !self.goes_on_for(timeout) {
            return;
        }
        self.is_over.store(true, Ordering::SeqCst);
        for signal in [libc::SIGTERM, libc::SIGKILL] {
            // A machine that does not answer is killed below.
            let running = self.running.clone();
            thread::spawn(move || running.signal(signal));
            if !self.goes_on_for(GRACE) {
                return;
            }
        }
        self.tree.kill();
    }

    fn goes_on_for(&self, time: Duration) -> bool {
        self.stopped.recv_timeout(time) == Err(RecvTimeoutError::Timeout)
    }
}

/// Passes standard input on, until it ends or the program does not want it.
fn hand_in(running: &Running) {
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
    let _ = running.close_input(); // It may have ended.
}

/// Passes on what it writes. When nobody wants that any more, it is told so as in a pipe.
fn hand_out(running: &Running) -> Result<Ended> {
    let mut output = raw_stdout()?;
    let mut error = io::stderr();
    let mut is_wanted = true;
    running.wait(|stream, bytes| {
        let written = match stream {
            Stream::Output if is_wanted => output.write_all(bytes),
            Stream::Output => Ok(()),
            Stream::Error => {
                // There is nowhere left to complain.
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
