//! A disk as a vhost-user-blk device.

use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use diskfs::export::vhost_user::{BlockDevice, Ended, Options, Stopper, serve};
use diskfs::{Error, ErrorKind, Result};
use serde_json::{Map, Value};

use super::super::show::name::message;
use super::super::socket::Socket;
use super::Exported;
use super::ways::{Stop, Way};

/// A device that serves one virtual machine after the other.
pub(super) struct VhostUser {
    socket: Socket,
    path: PathBuf,
    device: Arc<BlockDevice>,
    queues: NonZeroU16,
    is_once: bool,
    ending: Arc<Mutex<Ending>>,
}

/// The end of serving, which may be asked for before a virtual machine is served.
#[derive(Default)]
struct Ending {
    is_asked: bool,
    serving: Option<Stopper>,
}

fn locked(ending: &Mutex<Ending>) -> MutexGuard<'_, Ending> {
    ending.lock().unwrap_or_else(PoisonError::into_inner)
}

impl VhostUser {
    pub(super) fn new(
        socket: Socket,
        path: &Path,
        disk: &Exported,
        (serial, queues, is_once): (&str, NonZeroU16, bool),
    ) -> Result<Self> {
        let device = match disk {
            Exported::ReadOnly(device) => BlockDevice::read_only(Arc::clone(device)),
            Exported::Writable(device) => BlockDevice::writable(Arc::clone(device)),
        };
        Ok(Self {
            socket,
            path: std::path::absolute(path)?,
            device: Arc::new(device.with_serial(serial)),
            queues,
            is_once,
            ending: Arc::default(),
        })
    }

    /// Serves virtual machines one after the other.
    fn serve_all(&self, warn: &dyn Fn(String)) -> Result<()> {
        let mut options = Options::default();
        options.queues = self.queues;
        loop {
            let served = serve(self.socket.listener()?, &self.device, &options)?;
            {
                let mut ending = locked(&self.ending);
                let stopper = served.stopper();
                if ending.is_asked {
                    stopper.stop();
                }
                ending.serving = Some(stopper);
            }
            match served.wait() {
                Ok(Ended::Stopped) => return Ok(()),
                ended if self.is_once => return ended.map(|_| ()),
                Ok(Ended::Disconnected) => {}
                Err(error) => warn(error.to_string()),
            }
        }
    }
}

impl Way for VhostUser {
    fn place(&self) -> String {
        let options = qemu_options(&self.path, self.queues);
        format!(
            "at {}; options for QEMU (give its memory's size in both places):\n  {}",
            message(&self.path.to_string_lossy()),
            message(&options),
        )
    }

    fn add_fields(&self, fields: &mut Map<String, Value>) {
        let options = qemu_options(&self.path, self.queues);
        let path = self.path.to_string_lossy();
        fields.insert("socket".to_owned(), path.into());
        fields.insert("qemu_options".to_owned(), options.into());
    }

    fn stop(&self) -> Stop {
        let ending = Arc::clone(&self.ending);
        Box::new(move || {
            let mut ending = locked(&ending);
            ending.is_asked = true;
            if let Some(serving) = ending.serving.take() {
                serving.stop();
            }
        })
    }

    fn serve(self: Box<Self>, warn: &dyn Fn(String)) -> Result<()> {
        self.serve_all(warn)?;
        self.device.first_error().map_or(Ok(()), |error| {
            let reason = format!("a request of the virtual machine failed: {error}");
            Err(Error::new(ErrorKind::Io, reason))
        })
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
