//! `diskfs export`.

use std::io::{self, Write};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use clap::Args;
use serde_json::{Map, Value};

use diskfs::export::vhost_user::{BlockDevice, Ended, Options, Served, Stopper, serve};
use diskfs::{Disk, Error, ErrorKind, Result, Volume};

use super::operand::Operand;
use super::options::SourceArgs;
use super::session::{Output, Session, stdout};
use super::show::json;
use super::show::name::message;
use super::show::size::units;
use super::signals::Signals;
use super::socket::Socket;
use super::target;

/// Serve a disk or a volume to a virtual machine
///
/// The virtual machine (of QEMU, cloud-hypervisor, or anything else that speaks vhost-user-blk) sees a
/// disk: the whole image, or the volume that is named, out of partitions, LVM, RAID and LUKS. It can
/// write to it, unless --read-only is given; with --overlay the image stays as it is. What the virtual
/// machine flushes is durable. The image stays locked as long as it is served.
///
/// Serves one virtual machine after the other, until it gets a signal (Ctrl-C, kill); with --once,
/// the first one only. Then everything that was written is made durable, and the socket removed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs export debian.qcow2 --vhost-user-blk /run/debian.sock
  diskfs export debian.qcow2 --vhost-user-blk debian.sock --overlay changes.qcow2
  diskfs export lab.qcow2 --vhost-user-blk data.sock --volume vg0/data --read-only

A virtual machine of QEMU with it as its disk shares its memory:
  qemu-system-x86_64 -m 2G -object memory-backend-memfd,id=mem,size=2G,share=on \\
    -machine memory-backend=mem -chardev socket,id=disk,path=/run/debian.sock \\
    -device vhost-user-blk-pci,chardev=disk")]
pub(super) struct Export {
    /// The image
    #[arg(value_name = "IMG")]
    image: Operand,

    /// Serve it at SOCKET, by vhost-user-blk
    #[arg(long, value_name = "SOCKET", required = true)]
    vhost_user_blk: PathBuf,

    /// Let nothing be written; others may read the image, too
    #[arg(short, long, conflicts_with = "overlay")]
    read_only: bool,

    /// Write all changes to FILE, a new qcow2 image with IMG behind it, or one made so before
    #[arg(long, value_name = "FILE")]
    overlay: Option<PathBuf>,

    /// End when the first virtual machine has gone
    #[arg(long)]
    once: bool,

    /// How many queues it may use: as many as it has processors
    #[arg(long, value_name = "N", default_value = "1")]
    queues: NonZeroU16,

    /// The serial number that the virtual machine sees, at most 20 bytes
    #[arg(long, value_name = "TEXT", default_value = "diskfs")]
    serial: String,

    #[command(flatten)]
    source: SourceArgs,
}

pub(super) fn run(args: &Export, session: &mut Session) -> Result<()> {
    // Before there are other threads, which a signal would end otherwise, and all of us with them.
    let signals = Signals::hold();
    let socket = Socket::bind(&args.vhost_user_blk)?;
    let new_overlay = args.overlay.as_deref().filter(|path| !path.exists());
    let disk = args.open(session)?;
    let device = args.device(&disk);
    session.warn_of(&disk);
    let device = device.inspect_err(|_| target::forget(new_overlay))?;
    let served = args.tell(session, &device).and_then(|()| {
        let end = End::by(signals)?;
        args.serve(&socket, &device.block, &end, session)
    });
    let failed = device.block.first_error();
    drop(device);
    drop(socket);
    let closed = disk.close();
    served.and(closed)?;
    failed.map_or(Ok(()), |error| {
        let reason = format!("the virtual machine was told of an error: {error}");
        Err(Error::new(ErrorKind::Io, reason))
    })
}

/// What is served.
struct Device {
    block: Arc<BlockDevice>,
    name: String,
    size_bytes: u64,
}

impl Export {
    fn open(&self, session: &mut Session) -> Result<Disk> {
        let image = self.image.image_alone("a volume is served")?;
        if self.read_only {
            return session.disk(&image, &self.source);
        }
        let disk = self.source.open_writable(&image, self.overlay.as_deref());
        disk.map_err(|error| match error.kind() {
            ErrorKind::Unsupported | ErrorKind::ReadOnly if error.next_step().is_none() => {
                error.with_hint("give --read-only to serve it as it is")
            }
            _ => error,
        })
    }

    /// The volume that is named, or all of the disk.
    fn volume(&self, disk: &Disk) -> Result<Volume> {
        let named = self.source.volume.volume_alone(disk)?;
        named.map_or_else(|| disk.volume("disk"), Ok)
    }

    fn device(&self, disk: &Disk) -> Result<Device> {
        let volume = self.volume(disk)?;
        let block = if self.read_only {
            BlockDevice::read_only(volume.device()?)
        } else {
            BlockDevice::writable(volume.writable_device()?)
        };
        Ok(Device {
            block: Arc::new(block.with_serial(&self.serial)),
            name: volume.name().to_owned(),
            size_bytes: volume.size_bytes(),
        })
    }

    /// Serves one after the other.
    fn serve(
        &self,
        socket: &Socket,
        device: &Arc<BlockDevice>,
        end: &End,
        session: &mut Session,
    ) -> Result<()> {
        let mut options = Options::default();
        options.queues = self.queues;
        loop {
            let served = serve(socket.listener()?, device, &options)?;
            end.ends(&served);
            match served.wait() {
                Ok(Ended::Stopped) => return Ok(()),
                ended if self.once => return ended.map(|_| ()),
                Ok(Ended::Disconnected) => {}
                Err(error) => session.warn(&error.to_string()),
            }
        }
    }

    /// Says that it is served, and what QEMU has to be told.
    fn tell(&self, session: &Session, device: &Device) -> Result<()> {
        match session.output() {
            Output::Json => self.write_json(session, device),
            Output::Text => self.write_text(device),
        }
    }

    fn write_text(&self, device: &Device) -> Result<()> {
        let path = std::path::absolute(&self.vhost_user_blk)?;
        let how = if self.read_only {
            "read-only"
        } else {
            "to read and write"
        };
        let text = format!(
            "diskfs: serving {} ({}, {}) {how} at {}; for QEMU, with its memory's size twice:\n  {}\n",
            message(&self.image.as_os_str().to_string_lossy()),
            message(&device.name),
            units(device.size_bytes),
            message(&path.to_string_lossy()),
            message(&qemu_options(&path, self.queues)),
        );
        Ok(io::stderr().write_all(text.as_bytes())?)
    }

    fn write_json(&self, session: &Session, device: &Device) -> Result<()> {
        let path = std::path::absolute(&self.vhost_user_blk)?;
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        put("socket", path.to_string_lossy().into());
        put("volume", device.name.as_str().into());
        put("size_bytes", device.size_bytes.into());
        put("read_only", self.read_only.into());
        put("qemu_options", qemu_options(&path, self.queues).into());
        let mut out = stdout()?;
        json::write(&mut out, session.command(), Value::Object(fields))?;
        Ok(out.flush()?)
    }
}

/// What makes a virtual machine use it. A comma in a name is doubled.
fn qemu_options(path: &Path, queues: NonZeroU16) -> String {
    let path = path.to_string_lossy().replace(',', ",,");
    let queues = match queues.get() {
        1 => String::new(),
        several => format!(",num-queues={several}"),
    };
    format!(
        "-m 1G -object memory-backend-memfd,id=mem,size=1G,share=on -machine memory-backend=mem \
         -chardev socket,id=disk,path={path} -device vhost-user-blk-pci,chardev=disk{queues}"
    )
}

/// A signal ends it.
struct End(Arc<Mutex<Ending>>);

#[derive(Default)]
struct Ending {
    is_asked: bool,
    serving: Option<Stopper>,
}

impl End {
    fn by(signals: Signals) -> Result<Self> {
        let ending = Arc::new(Mutex::new(Ending::default()));
        let waiting = Self(Arc::clone(&ending));
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                signals.wait();
                let mut ending = waiting.lock();
                ending.is_asked = true;
                if let Some(serving) = ending.serving.take() {
                    serving.stop();
                }
            })?;
        Ok(Self(ending))
    }

    fn lock(&self) -> MutexGuard<'_, Ending> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the signal end this, also one that came before.
    fn ends(&self, served: &Served) {
        let mut ending = self.lock();
        let stopper = served.stopper();
        if ending.is_asked {
            stopper.stop();
        }
        ending.serving = Some(stopper);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_names_are_doubled_for_qemu() {
        let one = qemu_options(Path::new("/run/a,b.sock"), NonZeroU16::MIN);
        assert!(one.contains("path=/run/a,,b.sock -device"), "{one}");
        assert!(one.ends_with("vhost-user-blk-pci,chardev=disk"), "{one}");
        let four = qemu_options(Path::new("/s"), NonZeroU16::new(4).unwrap());
        assert!(four.ends_with("chardev=disk,num-queues=4"), "{four}");
    }
}
