//! `diskfs hotplug add`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use clap::Args;
use diskfs::nbd::server::{Export, Options, Server};
use diskfs::{Disk, Error, ErrorKind, Result};
use serde_json::json;
use tempfile::TempDir;

use super::commands::{Cache, Commands, NewDisk};
use super::machine::{self, Bus};
use super::name::DiskName;
use super::qmp::Qmp;
use super::{QmpArgs, remove};
use crate::cli::operand::Operand;
use crate::cli::options::SourceArgs;
use crate::cli::session::{Output, Session, stdout};
use crate::cli::show::json as document;
use crate::cli::show::name::message;
use crate::cli::signals::Signals;
use crate::cli::socket::Socket;

/// The time between two looks whether QEMU has closed the export.
const WATCH_STEP: Duration = Duration::from_millis(200);

/// The time that the guest has to release the disk after a signal, twice.
const SIGNAL_TIME: Duration = Duration::from_secs(30);

/// The longest serial number of virtio-blk (VIRTIO 1.2, 5.2.6, `VIRTIO_BLK_T_GET_ID`).
const VIRTIO_SERIAL_BYTES: usize = 20;

/// Attach the disk of an image to a running QEMU
///
/// Exports the disk by NBD on a Unix socket, attaches it, and serves it until it is removed, QEMU ends,
/// or a signal comes (Ctrl-C, kill). After a signal, the disk is removed from the guest first, as by
/// `diskfs hotplug remove`; if the guest does not release it, it is served until the next signal. If
/// QEMU refuses the disk, nothing stays attached.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs hotplug add data.qcow2 --qmp /run/qmp.sock --id data
  diskfs hotplug add data.qcow2 --qmp /run/qmp.sock --id data --bus virtio --read-only --dry-run")]
pub(super) struct Add {
    /// The image of the disk
    #[arg(value_name = "IMG")]
    image: Operand,

    #[command(flatten)]
    qmp: QmpArgs,

    /// The name of the disk: the ID of its device in QEMU
    #[arg(long, value_name = "NAME")]
    id: DiskName,

    /// The serial number that the guest sees [default: the name]
    #[arg(long, value_name = "TEXT")]
    serial: Option<String>,

    /// The bus: scsi needs a virtio-scsi controller, virtio a free PCI Express root port
    #[arg(
        long,
        value_name = "BUS",
        default_value = "scsi",
        hide_possible_values = true
    )]
    bus: Bus,

    /// The cache mode: none, writethrough or writeback
    #[arg(
        long,
        value_name = "MODE",
        default_value = "none",
        hide_possible_values = true
    )]
    cache: Cache,

    /// Refuse writes of the guest
    #[arg(short, long)]
    read_only: bool,

    /// Serve at this Unix socket, for a QEMU of another user [default: one in a private directory]
    #[arg(long, value_name = "SOCKET")]
    socket: Option<PathBuf>,

    /// Only check that the disk can be attached, and print the commands for QEMU
    #[arg(long)]
    dry_run: bool,

    /// Accepted for virtctl's command lines, where it has no effect either
    #[arg(long, hide = true)]
    persist: bool,

    #[command(flatten)]
    source: SourceArgs,
}

pub(super) fn run(args: &Add, session: &mut Session) -> Result<()> {
    args.check_serial()?;
    // Signals are blocked before other threads start.
    let signals = Signals::block();
    let mut qmp = args.qmp.connect()?;
    if machine::has_device(&mut qmp, args.id.as_str())? {
        let reason = format!(
            "the virtual machine has a device `{}` already",
            args.id.as_str()
        );
        let error = Error::new(ErrorKind::Exists, reason);
        return Err(error.with_hint("give another --id"));
    }
    let bus = machine::place(&mut qmp, args.bus)?;
    let disk = args.open(session)?;
    session.print_warnings(&disk);
    let private = args.private_directory()?;
    let path = match (&args.socket, &private) {
        (Some(path), _) => std::path::absolute(path)?,
        (None, Some(dir)) => dir.path().join("nbd.sock"),
        (None, None) => PathBuf::from("nbd.sock"),
    };
    let commands = NewDisk {
        id: &args.id,
        serial: args.serial.as_deref().unwrap_or(args.id.as_str()),
        bus: (args.bus, bus.as_deref()),
        cache: args.cache,
        read_only: args.read_only,
    }
    .commands(&path)?;
    let served = if args.dry_run {
        args.print(session, &commands)
    } else {
        let socket = Socket::bind(&path)?;
        let server = args.serve(&disk, &socket)?;
        let done = args.attach_and_wait(qmp, &commands, (&server, signals), session);
        done.and(server.stop().map_err(Into::into))
    };
    let closed = disk.close();
    served.and(closed)
}

impl Add {
    fn check_serial(&self) -> Result<()> {
        let serial = self.serial.as_deref().unwrap_or_default();
        if self.bus == Bus::Virtio && serial.len() > VIRTIO_SERIAL_BYTES {
            let reason = format!("serial number too long: at most {VIRTIO_SERIAL_BYTES} bytes");
            return Err(Error::new(ErrorKind::Invalid, reason));
        }
        Ok(())
    }

    fn open(&self, session: &mut Session) -> Result<Disk> {
        let image = self.image.image_alone("to attach")?;
        if self.read_only || self.dry_run {
            return session.disk(&image, &self.source);
        }
        let disk = self.source.open_writable(&image, None);
        disk.map_err(|error| match error.kind() {
            ErrorKind::Unsupported | ErrorKind::ReadOnly if error.next_step().is_none() => {
                error.with_hint("give --read-only to attach it without writing")
            }
            _ => error,
        })
    }

    fn private_directory(&self) -> Result<Option<TempDir>> {
        if self.socket.is_some() || self.dry_run {
            return Ok(None);
        }
        let dir = tempfile::Builder::new().prefix("diskfs-").tempdir();
        Ok(Some(dir.map_err(|error| {
            Error::from(error).in_file(std::env::temp_dir())
        })?))
    }

    fn serve(&self, disk: &Disk, socket: &Socket) -> Result<Server> {
        let selected = self.source.volume.volume_alone(disk)?;
        let volume = selected.map_or_else(|| disk.volume("disk"), Ok)?;
        let export = if self.read_only {
            Export::read_only("", volume.device()?)
        } else {
            Export::writable("", volume.writable_device()?)
        };
        let server = Server::start(vec![export], Options::default())?;
        server.listen(socket.listener()?)?;
        Ok(server)
    }

    /// Attaches the disk, and waits until it is removed.
    fn attach_and_wait(
        &self,
        mut qmp: Qmp,
        commands: &Commands,
        (server, signals): (&Server, Signals),
        session: &mut Session,
    ) -> Result<()> {
        qmp.must("blockdev-add", &commands.blockdev_add)?;
        if let Err(reason) = qmp.execute("device_add", &commands.device_add)? {
            let node = json!({ "node-name": self.id.node() });
            qmp.must("blockdev-del", &node)?;
            return Err(qmp.refused("device_add", &reason));
        }
        // The monitor serves one client at a time.
        drop(qmp);
        let signalled = self
            .print(session, commands)
            .and_then(|()| signal_channel(signals));
        let signalled = match signalled {
            Ok(signalled) => signalled,
            Err(error) => return self.detach().and(Err(error)),
        };
        let mut is_asked = false;
        while server.connections() > 0 {
            match signalled.recv_timeout(WATCH_STEP) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) if !is_asked => {
                    is_asked = true;
                    match self.detach() {
                        Ok(()) => return Ok(()),
                        Err(error) => self.serve_on(&error, session),
                    }
                }
                Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok(())
    }

    fn detach(&self) -> Result<()> {
        let mut qmp = self.qmp.connect()?;
        remove::detach(&mut qmp, &self.id, SIGNAL_TIME)
    }

    /// Reports that the guest still uses the disk, which would fail without the export.
    fn serve_on(&self, error: &Error, session: &mut Session) {
        session.report(error);
        session.warn(&format!(
            "disk `{}` is still attached, and served; another signal ends that, and the guest then \
             loses the disk",
            self.id.as_str()
        ));
    }

    /// Reports that the disk is attached, or would be.
    fn print(&self, session: &Session, commands: &Commands) -> Result<()> {
        match session.output() {
            Output::Json => {
                let mut out = stdout()?;
                let body = json!({
                    "name": self.id.as_str(),
                    "bus": self.bus.name(),
                    "dry_run": self.dry_run,
                    "blockdev_add": commands.blockdev_add,
                    "device_add": commands.device_add,
                });
                document::write(&mut out, session.command(), body)?;
                out.flush()?;
            }
            Output::Text if self.dry_run => {
                let mut out = stdout()?;
                writeln!(out, "blockdev-add {}", commands.blockdev_add)?;
                writeln!(out, "device_add {}", commands.device_add)?;
                out.flush()?;
            }
            Output::Text => {
                let image = message(&self.image.as_os_str().to_string_lossy());
                let (id, bus) = (self.id.as_str(), self.bus.name());
                let text = format!("diskfs: attached {image} as {id} ({bus})\n");
                io::stderr().write_all(text.as_bytes())?;
            }
        }
        Ok(())
    }
}

/// Returns a channel that receives each signal that comes.
fn signal_channel(signals: Signals) -> Result<Receiver<()>> {
    let (send, receive) = mpsc::channel();
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            signals.wait();
            while send.send(()).is_ok() {
                signals.wait();
            }
        })?;
    Ok(receive)
}
