//! The worker's end of the broker.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use diskfs_block::{Error, ErrorKind, File, Result};
use diskfs_image::{Access, FileOpener, Gate, NamedFile};

use crate::broker_process::OtherAnswer;
use crate::link::Link;
use crate::message::{FileError, ToParent};

/// The answer to a request.
#[derive(Debug)]
pub(crate) enum Answer {
    File(std::result::Result<(PathBuf, std::os::fd::OwnedFd), FileError>),
    Overlays(Vec<String>),
    Other(OtherAnswer),
}

/// Asks the parent for files. Its gate decides, not the one of the options.
#[derive(Debug)]
pub(crate) struct BrokeredOpener {
    link: Arc<Link>,
    /// The answers, in the order of the requests. Locked from a request to its answer.
    answers: Mutex<mpsc::Receiver<Answer>>,
}

impl BrokeredOpener {
    pub(crate) fn new(link: Arc<Link>, answers: mpsc::Receiver<Answer>) -> Self {
        Self {
            link,
            answers: Mutex::new(answers),
        }
    }

    fn ask(&self, request: &ToParent, payload: &[u8]) -> io::Result<Answer> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        self.link.send(request, payload)?;
        answers
            .recv()
            .map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }

    /// Makes a request that is not about files.
    pub(crate) fn ask_other(&self, request: &[u8]) -> io::Result<OtherAnswer> {
        match self.ask(&ToParent::Other, request)? {
            Answer::Other(answer) => Ok(answer),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn ask_for_file(&self, request: &ToParent) -> Result<File> {
        match self.ask(request, b"").map_err(Error::from)? {
            Answer::File(Ok((path, fd))) => File::from_fd(fd, path),
            Answer::File(Err(error)) => Err(error.into()),
            Answer::Overlays(_) | Answer::Other(_) => {
                let reason = "the parent answered another request";
                Err(Error::new(ErrorKind::Io, reason))
            }
        }
    }
}

impl FileOpener for BrokeredOpener {
    fn open(&self, path: &Path, access: Access) -> Result<File> {
        self.ask_for_file(&ToParent::Open {
            path: path.to_owned(),
            access: access.into(),
        })
    }

    fn open_named(&self, named: &NamedFile<'_>, _gate: &Gate) -> Result<File> {
        self.ask_for_file(&ToParent::OpenNamed {
            image: named.image.to_owned(),
            name: named.name.to_owned(),
            named_for: named.named_for.into(),
            access: named.access.into(),
        })
    }

    fn overlays_of(&self, image: &Path, _file: &File) -> Vec<String> {
        let image = image.to_owned();
        match self.ask(&ToParent::OverlaysOf { image }, b"") {
            Ok(Answer::Overlays(names)) => names,
            _ => Vec::new(),
        }
    }
}
