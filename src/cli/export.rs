//! The command `diskfs export`.

mod bitmaps;
mod fuse_file;
mod nbd;
mod vhost_user;
mod ways;

use std::io::{self, Write};
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use diskfs::block::{BlockRead, BlockWrite};
use diskfs::{Disk, ErrorKind, Result, Volume};
use serde_json::{Map, Value};

use super::background_copy::OverlayArgs;
use super::operand::Operand;
use super::options::SourceArgs;
use super::session::{Output, Session, stdout};
use super::show::json;
use super::show::name::message;
use super::show::size::units;
use super::signals::Signals;
use super::socket::Socket;
use super::target;
use ways::Way;

/// Serve a disk or a volume to other programs
///
/// What is served is a disk: the whole image, or the selected volume, which can be a partition or a
/// volume of LVM, RAID or LUKS. It can be written to, unless --read-only is given; with --overlay, the
/// image stays unchanged. Data that a client flushes is durable. The image is locked while it is
/// served.
///
/// Several ways can be given; all of them show the same state. NBD is for QEMU, nbdcopy and backup
/// programs, also on other machines. A FUSE file is for programs that can only use raw images.
/// vhost-user-blk is for virtual machines on this host, of QEMU, cloud-hypervisor and others.
///
/// With --background-copy, clients can use the disk at once, and it needs the image less and less. In
/// the end the overlay has no backing file any more (`diskfs info --force-share FILE`). Interrupted,
/// the same command continues, unless the server has another version of the image by then.
///
/// Serves until a signal ends the program (Ctrl-C, kill), or until the file is unmounted if that is
/// the only way. At the end, all written data is made durable, and sockets are removed.
#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("ways").required(true).multiple(true),
    after_help = "Examples:
  diskfs export debian.qcow2 --nbd unix:/run/debian.sock
  diskfs export lab.qcow2 --volume vg0/data --read-only --nbd tcp:localhost:10809
  diskfs export debian.vmdk --fuse-file disk.img --overlay changes.qcow2
  diskfs export debian.qcow2 --vhost-user-blk /run/debian.sock
  diskfs export https://example.org/d.qcow2 --overlay d.qcow2 --background-copy --nbd unix:d.sock

To use the disk by NBD:
  qemu-img convert -O qcow2 'nbd+unix:///?socket=/run/debian.sock' copy.qcow2
  nbdcopy nbd://localhost/ data.raw

By vhost-user-blk, QEMU must share the memory of its virtual machine:
  qemu-system-x86_64 -m 2G -object memory-backend-memfd,id=mem,size=2G,share=on \\
    -machine memory-backend=mem -chardev socket,id=disk,path=/run/debian.sock \\
    -device vhost-user-blk-pci,chardev=disk

With --bitmap, NBD clients see which ranges a dirty bitmap of the image marks, as the metadata
context qemu:dirty-bitmap:NAME. The disk must be read-only."
)]
pub(super) struct Export {
    /// The image to serve
    #[arg(value_name = "IMG")]
    image: Operand,

    /// Serve NBD at unix:PATH or tcp:HOST[:PORT], or at the sockets that systemd passes
    /// (`systemd`); can be repeated
    #[arg(long, value_name = "ADDRESS", group = "ways")]
    nbd: Vec<nbd::Address>,

    /// Show the disk as a raw image at FILE, which is created if it does not exist
    #[arg(long, value_name = "FILE", group = "ways")]
    fuse_file: Option<PathBuf>,

    /// Let other users open the FUSE file
    #[arg(long, requires = "fuse_file")]
    allow_other: bool,

    /// Serve vhost-user-blk at a socket that is created here
    #[arg(long, value_name = "SOCKET", group = "ways")]
    vhost_user_blk: Option<PathBuf>,

    /// Refuse writes; other processes can then read the image, too
    #[arg(short, long, conflicts_with = "overlay")]
    read_only: bool,

    #[command(flatten)]
    changes: OverlayArgs,

    /// Exit when the first virtual machine, or the last NBD client, has disconnected
    #[arg(long)]
    once: bool,

    /// The maximum number of queues; best is one per processor of the virtual machine
    #[arg(long, value_name = "N", default_value = "1")]
    queues: NonZeroU16,

    /// The serial number of the disk in a virtual machine, at most 20 bytes
    #[arg(long, value_name = "TEXT", default_value = "diskfs")]
    serial: String,

    /// Show NBD clients a dirty bitmap of the image; can be repeated
    #[arg(long, value_name = "NAME", requires_all = ["nbd", "read_only"])]
    bitmap: Vec<String>,

    #[command(flatten)]
    nbd_args: nbd::NbdArgs,

    #[command(flatten)]
    source: SourceArgs,
}

/// The device that is served.
#[derive(Debug)]
enum Exported {
    ReadOnly(Arc<dyn BlockRead>),
    Writable(Arc<dyn BlockWrite>),
}

/// The sockets, which are bound before the image is opened.
struct Sockets {
    nbd: nbd::Sockets,
    vhost_user: Option<Socket>,
}

pub(super) fn run(args: &Export, session: &mut Session) -> Result<()> {
    // Signals are blocked before other threads start: a signal that is delivered to one of these
    // would end the whole process.
    let signals = Signals::block();
    let sockets = args.bind()?;
    let new_overlay = args
        .changes
        .overlay
        .as_deref()
        .filter(|path| !path.exists());
    let disk = args.open(session)?;
    session.print_warnings(&disk);
    let ready = args.ways(sockets, &disk);
    let (volume, ways) = ready.inspect_err(|_| target::remove_new_overlay(new_overlay))?;
    let copy = args.changes.prepare_copy(&disk);
    let copy = copy.inspect_err(|_| target::remove_new_overlay(new_overlay))?;
    let served = args
        .print_places(session, &volume, &ways)
        .and_then(|()| {
            copy.as_ref()
                .map_or(Ok(()), |copy| copy.start(session.progress()))
        })
        .and_then(|()| ways::serve(ways, signals, args.once, session));
    drop(volume);
    if let Some(copy) = copy {
        copy.stop();
    }
    let closed = disk.close();
    served.and(closed)
}

impl Export {
    fn bind(&self) -> Result<Sockets> {
        Ok(Sockets {
            nbd: nbd::Sockets::bind(&self.nbd, &self.nbd_args)?,
            vhost_user: self
                .vhost_user_blk
                .as_deref()
                .map(Socket::bind)
                .transpose()?,
        })
    }

    fn open(&self, session: &mut Session) -> Result<Disk> {
        let image = self.image.image_alone("to serve")?;
        if self.read_only {
            return session.disk(&image, &self.source);
        }
        let disk = self
            .source
            .open_writable(&image, self.changes.overlay.as_deref());
        disk.map_err(|error| match error.kind() {
            ErrorKind::Unsupported | ErrorKind::ReadOnly if error.next_step().is_none() => {
                error.with_hint("give --read-only to serve it without writing")
            }
            _ => error,
        })
    }

    /// Returns the selected volume, or the whole disk.
    fn volume(&self, disk: &Disk) -> Result<Volume> {
        let named = self.source.volume.volume_alone(disk)?;
        named.map_or_else(|| disk.volume("disk"), Ok)
    }

    /// Starts to serve in all ways.
    fn ways(&self, sockets: Sockets, disk: &Disk) -> Result<(Volume, Vec<Box<dyn Way>>)> {
        let volume = self.volume(disk)?;
        let device = if self.read_only {
            Exported::ReadOnly(volume.device()?)
        } else {
            Exported::Writable(volume.writable_device()?)
        };
        let mut ways: Vec<Box<dyn Way>> = Vec::new();
        if !self.nbd.is_empty() {
            let description = format!("{} of {}", volume.name(), self.image_name());
            let server = (&self.nbd_args, self.contexts(disk)?, self.once);
            let nbd = nbd::Nbd::new(sockets.nbd, &device, &description, server)?;
            ways.push(Box::new(nbd));
        }
        if let (Some(path), Some(socket)) = (&self.vhost_user_blk, sockets.vhost_user) {
            let options = (self.serial.as_str(), self.queues, self.once);
            let served = vhost_user::VhostUser::new(socket, path, &device, options)?;
            ways.push(Box::new(served));
        }
        if let Some(path) = &self.fuse_file {
            use diskfs::export::fuse::Access;
            let access = if self.allow_other {
                Access::Everyone
            } else {
                Access::Owner
            };
            let image = disk.description();
            let source = (image.path.as_path(), image.allocated_bytes);
            let file = fuse_file::FuseFile::new(path, &device, source, access)?;
            ways.push(Box::new(file));
        }
        Ok((volume, ways))
    }

    /// Reports where the disk is served.
    fn print_places(
        &self,
        session: &Session,
        volume: &Volume,
        ways: &[Box<dyn Way>],
    ) -> Result<()> {
        match session.output() {
            Output::Json => self.write_json(session, volume, ways),
            Output::Text => self.write_text(volume, ways),
        }
    }

    fn write_text(&self, volume: &Volume, ways: &[Box<dyn Way>]) -> Result<()> {
        let how = if self.read_only {
            "read-only"
        } else {
            "read-write"
        };
        let size = units(volume.size_bytes());
        let (image, name) = (message(&self.image_name()), message(volume.name()));
        for way in ways {
            let place = way.place();
            let text = format!("diskfs: serving {image} ({name}, {size}) {how} {place}\n");
            io::stderr().write_all(text.as_bytes())?;
        }
        Ok(())
    }

    fn write_json(&self, session: &Session, volume: &Volume, ways: &[Box<dyn Way>]) -> Result<()> {
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        put("volume", volume.name().into());
        put("size_bytes", volume.size_bytes().into());
        put("read_only", self.read_only.into());
        for way in ways {
            way.add_fields(&mut fields);
        }
        let mut out = stdout()?;
        json::write(&mut out, session.command(), Value::Object(fields))?;
        Ok(out.flush()?)
    }

    fn image_name(&self) -> String {
        self.image.as_os_str().to_string_lossy().into_owned()
    }
}
