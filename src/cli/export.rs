//! The command `diskfs export`.

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
/// The virtual machine (QEMU, cloud-hypervisor, or any other that supports vhost-user-blk) sees a
/// disk: the whole image, or the selected volume, which can be a partition or a volume of LVM, RAID
/// or LUKS. It can write to the disk, unless --read-only is given; with --overlay, the image stays
/// unchanged. Data that the virtual machine flushes is durable. The image is locked while it is
/// served.
///
/// Serves one virtual machine after the other, until a signal ends the program (Ctrl-C, kill); with
/// --once, only the first one. At the end, all written data is made durable, and the socket is
/// removed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs export debian.qcow2 --vhost-user-blk /run/debian.sock
  diskfs export debian.qcow2 --vhost-user-blk debian.sock --overlay changes.qcow2
  diskfs export lab.qcow2 --vhost-user-blk data.sock --volume vg0/data --read-only

To use the disk, QEMU must share the memory of its virtual machine:
  qemu-system-x86_64 -m 2G -object memory-backend-memfd,id=mem,size=2G,share=on \\
    -machine memory-backend=mem -chardev socket,id=disk,path=/run/debian.sock \\
    -device vhost-user-blk-pci,chardev=disk")]
pub(super) struct Export {
    /// The image to serve
    #[arg(value_name = "IMG")]
    image: Operand,

    /// The path of the vhost-user-blk socket to create
    #[arg(long, value_name = "SOCKET", required = true)]
    vhost_user_blk: PathBuf,

    /// Refuse writes; other processes can then read the image, too
    #[arg(short, long, conflicts_with = "overlay")]
    read_only: bool,

    /// Write all changes to FILE, a qcow2 overlay of IMG that is created if it does not exist
    #[arg(long, value_name = "FILE")]
    overlay: Option<PathBuf>,

    /// Exit when the first virtual machine has disconnected
    #[arg(long)]
    once: bool,

    /// The maximum number of queues; best is one per processor of the virtual machine
    #[arg(long, value_name = "N", default_value = "1")]
    queues: NonZeroU16,

    /// The serial number of the disk, at most 20 bytes
    #[arg(long, value_name = "TEXT", default_value = "diskfs")]
    serial: String,

    #[command(flatten)]
    source: SourceArgs,
}

pub(super) fn run(args: &Export, session: &mut Session) -> Result<()> {
    // Signals are blocked before other threads start: a signal that is delivered to one of these
    // would end the whole process.
    let signals = Signals::block();
    let socket = Socket::bind(&args.vhost_user_blk)?;
    let new_overlay = args.overlay.as_deref().filter(|path| !path.exists());
    let disk = args.open(session)?;
    let device = args.device(&disk);
    session.print_warnings(&disk);
    let device = device.inspect_err(|_| target::remove_new_overlay(new_overlay))?;
    let served = args.print_address(session, &device).and_then(|()| {
        let end = Shutdown::on_signal(signals)?;
        args.serve(&socket, &device.block, &end, session)
    });
    let failed = device.block.first_error();
    drop(device);
    drop(socket);
    let closed = disk.close();
    served.and(closed)?;
    failed.map_or(Ok(()), |error| {
        let reason = format!("a request of the virtual machine failed: {error}");
        Err(Error::new(ErrorKind::Io, reason))
    })
}

/// The device that is served.
struct Device {
    block: Arc<BlockDevice>,
    name: String,
    size_bytes: u64,
}

impl Export {
    fn open(&self, session: &mut Session) -> Result<Disk> {
        let image = self.image.image_alone("to serve")?;
        if self.read_only {
            return session.disk(&image, &self.source);
        }
        let disk = self.source.open_writable(&image, self.overlay.as_deref());
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

    /// Serves virtual machines one after the other.
    fn serve(
        &self,
        socket: &Socket,
        device: &Arc<BlockDevice>,
        end: &Shutdown,
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

    /// Reports that the device is served, and the options for QEMU.
    fn print_address(&self, session: &Session, device: &Device) -> Result<()> {
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
            "read-write"
        };
        let text = format!(
            "diskfs: serving {} ({}, {}) {how} at {}; options for QEMU (give its memory's size in both places):\n  {}\n",
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

/// Returns the QEMU options that use the disk. A comma in a name is doubled.
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

/// The end of serving, when a signal arrives.
struct Shutdown(Arc<Mutex<Ending>>);

#[derive(Default)]
struct Ending {
    is_asked: bool,
    serving: Option<Stopper>,
}

impl Shutdown {
    fn on_signal(signals: Signals) -> Result<Self> {
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

    /// Makes a signal stop `served`, even one that has already arrived.
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
