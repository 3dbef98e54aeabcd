//! A disk as a raw image that is a FUSE mount.

use std::fs::{self, OpenOptions};
use std::io::{self, PipeReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use diskfs::export::DiskFile;
use diskfs::export::fuse::{Access, EndState, Mounted, Options, Writes, mount, mount_writable};
use diskfs::vfs::FileType;
use diskfs::{Error, Result};
use serde_json::{Map, Value};

use super::super::mount::companion::Companion;
use super::super::mount::mount_source;
use super::super::show::json::put_name;
use super::super::show::name::message;
use super::Exported;
use super::ways::{Stop, Way};

/// The time that processes have to close the file after a signal.
const GRACE: Duration = Duration::from_secs(1);

/// A mount whose root is a regular file.
pub(super) struct FuseFile {
    path: PathBuf,
    _made: MadeFile,
    mounted: Mounted,
    companion: Companion,
    /// The end of the mount, which is stopped while it is in use.
    ended: Receiver<Result<()>>,
    send: Sender<Result<()>>,
}

/// A file that was made as a mount point, and is removed at the end.
struct MadeFile(Option<PathBuf>);

impl MadeFile {
    fn new(path: &Path) -> Result<Self> {
        match OpenOptions::new().write(true).create_new(true).open(path) {
            Ok(_) => Ok(Self(Some(path.to_owned()))),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Self(None)),
            Err(error) => Err(Error::from(error).in_file(path)),
        }
    }
}

impl Drop for MadeFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}

impl FuseFile {
    pub(super) fn new(
        path: &Path,
        disk: &Exported,
        (source, allocated_bytes): (&Path, u64),
        access: Access,
    ) -> Result<Self> {
        let made = MadeFile::new(path)?;
        let (orphaned, pipe): (PipeReader, _) = io::pipe()?;
        let mut companion = Companion { pipe };
        Companion::start(&std::path::absolute(path)?, orphaned, None)?;
        let options = Options {
            source: mount_source(source)?,
            root: FileType::Regular,
            access,
            writes: Writes::Direct,
            ..Options::default()
        };
        let mounted = match disk {
            Exported::ReadOnly(device) => {
                let file = DiskFile::read_only(Arc::clone(device), allocated_bytes);
                mount(Arc::new(file), path, &options)
            }
            Exported::Writable(device) => {
                let file = DiskFile::writable(Arc::clone(device), allocated_bytes);
                mount_writable(Arc::new(file), path, &options)
            }
        }?;
        companion.watch_over(mounted.id(), mounted.mountpoint())?;
        let (send, ended) = mpsc::channel();
        Ok(Self {
            path: mounted.mountpoint().to_owned(),
            _made: made,
            mounted,
            companion,
            ended,
            send,
        })
    }
}

impl Way for FuseFile {
    fn place(&self) -> String {
        format!("as the file {}", message(&self.path.to_string_lossy()))
    }

    fn add_fields(&self, fields: &mut Map<String, Value>) {
        let path = self.path.as_os_str().as_encoded_bytes();
        put_name(fields, "fuse_file", path);
    }

    fn stop(&self) -> Stop {
        let (send, ending) = (self.send.clone(), self.mounted.ending());
        Box::new(move || match ending.end(GRACE) {
            Ok(EndState::ByItself) => {}
            Ok(EndState::Now) => drop(send.send(Ok(()))),
            Err(error) => drop(send.send(Err(error))),
        })
    }

    fn serve(self: Box<Self>, _: &dyn Fn(String)) -> Result<()> {
        let Self {
            mounted,
            companion,
            ended,
            send,
            ..
        } = *self;
        thread::Builder::new()
            .name("fuse".to_owned())
            .spawn(move || send.send(mounted.serve()))?;
        let served = ended.recv().unwrap_or(Ok(()));
        if served.is_ok() {
            companion.release();
        }
        served
    }
}
