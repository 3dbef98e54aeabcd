//! A broker in a process of its own, for a process that confines itself without a parent.
//!
//! A command forks before it confines itself: the new process serves as its broker until the
//! connection ends.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use diskfs_block::{Error, ErrorKind, File, Result};
use diskfs_image::{Access, FileOpener, Gate, NamedFile};

use crate::broker::{Broker, Grants};
use crate::message::{FileError, ToParent, ToWorker};
use crate::wire::{Frame, Incoming, Outgoing};

/// The longest request or answer that is not about files.
pub(crate) const OTHER_MAX_BYTES: u64 = 64 << 10;

/// The answer to a request that is not about files.
#[derive(Debug, Default)]
pub struct OtherAnswer {
    /// The answer.
    pub bytes: Vec<u8>,
    /// A descriptor that comes with it.
    pub descriptor: Option<OwnedFd>,
}

/// Answers requests that are not about files; it does not trust them.
pub type AnswerOther<'a> = dyn FnMut(&[u8]) -> OtherAnswer + Send + 'a;

/// Serves as the broker of the process at the other end of `socket` until it ends. `other` answers
/// requests that are not about files; it does not trust them.
///
/// # Errors
/// Fails if the process breaks the protocol.
pub fn serve_broker(
    socket: &UnixStream,
    grants: &Grants,
    other: &mut AnswerOther<'_>,
) -> io::Result<()> {
    let mut incoming = Incoming::without_descriptors(OTHER_MAX_BYTES);
    let mut broker = Broker::new(grants);
    while let Some(frame) = incoming.next::<ToParent>(socket)? {
        let mut payload = Vec::new();
        let (answer, descriptor) = match frame.message {
            ToParent::Open { path, access } => file_answer(broker.open(&path, access.into()))?,
            ToParent::OpenNamed {
                image,
                name,
                named_for,
                access,
            } => {
                let (named_for, access) = (named_for.into(), access.into());
                file_answer(broker.open_named(&image, &name, named_for, access))?
            }
            ToParent::OverlaysOf { image } => {
                (ToWorker::Overlays(broker.overlays_of(&image)), None)
            }
            ToParent::Other => {
                let answer = other(&frame.payload);
                payload = answer.bytes;
                let has_descriptor = answer.descriptor.is_some();
                (ToWorker::Other { has_descriptor }, answer.descriptor)
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        Outgoing::new(&answer, payload, descriptor)?.send_all(socket)?;
    }
    Ok(())
}

fn file_answer(opened: Result<File>) -> io::Result<(ToWorker, Option<OwnedFd>)> {
    Ok(match opened {
        Ok(file) => {
            let descriptor = file.as_fd().try_clone_to_owned()?;
            (ToWorker::File(Ok(file.path().to_owned())), Some(descriptor))
        }
        Err(error) => (ToWorker::File(Err(FileError::from(error))), None),
    })
}

/// The confined end of a broker in another process.
#[derive(Debug)]
pub struct BrokerClient {
    exchange: Mutex<Exchange>,
}

/// A request and its answer, one at a time.
#[derive(Debug)]
struct Exchange {
    socket: UnixStream,
    incoming: Incoming,
}

impl BrokerClient {
    /// Creates a client for the broker at the other end of `socket`.
    pub fn new(socket: UnixStream) -> Self {
        let incoming = Incoming::with_descriptors(u64::MAX);
        Self {
            exchange: Mutex::new(Exchange { socket, incoming }),
        }
    }

    /// Makes a request that is not about files.
    ///
    /// # Errors
    /// Fails if the broker has ended.
    pub fn ask(&self, request: &[u8]) -> Result<OtherAnswer> {
        let mut exchange = self.lock();
        let frame = exchange.ask(&ToParent::Other, request)?;
        match frame.message {
            ToWorker::Other { has_descriptor } => Ok(OtherAnswer {
                bytes: frame.payload,
                descriptor: if has_descriptor {
                    exchange.incoming.take_descriptor()
                } else {
                    None
                },
            }),
            _ => Err(violation()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Exchange> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask_for_file(&self, request: &ToParent) -> Result<File> {
        let mut exchange = self.lock();
        let frame = exchange.ask(request, b"")?;
        match (frame.message, exchange.incoming.take_descriptor()) {
            (ToWorker::File(Ok(path)), Some(fd)) => File::from_fd(fd, path),
            (ToWorker::File(Err(error)), _) => Err(error.into()),
            _ => Err(violation()),
        }
    }
}

impl Exchange {
    fn ask(&mut self, request: &ToParent, payload: &[u8]) -> Result<Frame<ToWorker>> {
        let mut answer = || {
            Outgoing::new(request, payload, None)?.send_all(&self.socket)?;
            let frame = self.incoming.next(&self.socket)?;
            frame.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
        };
        answer().map_err(|error| {
            let reason = "the process that opens files for this one has ended";
            Error::new(ErrorKind::Io, reason).with_source(error)
        })
    }
}

fn violation() -> Error {
    Error::new(ErrorKind::Io, "the broker broke the protocol")
}

impl FileOpener for BrokerClient {
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
        let answer = self.lock().ask(&ToParent::OverlaysOf { image }, b"");
        match answer.map(|frame| frame.message) {
            Ok(ToWorker::Overlays(names)) => names,
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_other_requests() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        std::fs::write(&path, "bytes").unwrap();
        let (here, there) = UnixStream::pair().unwrap();
        let grants = Grants::default().reading(&path);
        let server = std::thread::spawn(move || {
            serve_broker(&there, &grants, &mut |request| OtherAnswer {
                bytes: request.to_ascii_uppercase(),
                descriptor: None,
            })
        });
        let client = BrokerClient::new(here);
        assert!(client.open(&path, Access::Read).is_ok());
        let error = client.open(&dir.path().join("other"), Access::Read);
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Denied);
        assert_eq!(client.ask(b"abc").unwrap().bytes, b"ABC");
        assert!(client.ask(b"").unwrap().descriptor.is_none());
        drop(client);
        server.join().unwrap().unwrap();
    }
}
