//! The upload of an image to a registry.
//!
//! A confined command reads the image, and its broker has the credentials. For each blob, they have
//! a socket: the broker says whether the registry needs the blob, the command sends its bytes, and
//! the broker says how it ended. A command that is not confined has a thread in place of the broker.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use diskfs::{Error, ErrorKind, Result};
use diskfs_oci::Digest;
use diskfs_sandbox::BrokerClient;

use super::broker::Connected;
use super::shown;
use super::uploads::{Item, PushRequest, Reply, Uploads};
use crate::cli::sandbox;

/// The number of times that a blob is sent, if the connection is lost, and the pause before the
/// second one; further ones are longer.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// The number of bytes to send at once.
const PIECE_BYTES: usize = 256 << 10;

/// An image in a registry to which this command uploads.
pub(crate) struct PushTarget {
    uri: String,
    end: End,
}

/// The end that speaks with the registry, as this process sees it.
enum End {
    Broker(Arc<BrokerClient>),
    Here(Uploads),
}

impl PushTarget {
    /// Prepares uploads to the image that a URI names.
    pub(crate) fn new(uri: &str) -> Self {
        let end = match sandbox::broker() {
            Some(broker) => End::Broker(broker),
            None => End::Here(Uploads::default()),
        };
        Self {
            uri: uri.to_owned(),
            end,
        }
    }

    /// Uploads a blob, unless the registry has it; returns true if it was uploaded. `open` opens its
    /// contents, again after a lost connection. `advance` is called with the length of each piece.
    pub(crate) fn blob(
        &mut self,
        digest: &Digest,
        size_bytes: u64,
        open: &dyn Fn() -> Result<Box<dyn Read>>,
        advance: &mut dyn FnMut(u64),
    ) -> Result<bool> {
        let item = Item {
            digest: digest.to_string(),
            size_bytes,
            manifest: None,
            is_tagged: false,
        };
        let mut counted = 0;
        let mut attempt = 1;
        loop {
            let mut sent = 0;
            let mut once = |len| {
                sent += len;
                advance(sent.max(counted) - counted);
                counted = sent.max(counted);
            };
            match self.send(&item, &mut *open()?, &mut once) {
                Err(error) if error.kind() == ErrorKind::Io && sent > 0 && attempt < ATTEMPTS => {
                    tracing::warn!("{error}; the upload begins again");
                    thread::sleep(PAUSE * attempt);
                    attempt += 1;
                }
                uploaded => {
                    advance(size_bytes.saturating_sub(counted));
                    return uploaded;
                }
            }
        }
    }

    /// Uploads a manifest by its digest, and then by its tag if the URI has one.
    pub(crate) fn manifest(
        &mut self,
        digest: &Digest,
        media_type: &str,
        document: &[u8],
    ) -> Result<()> {
        for is_tagged in [false, true] {
            let item = Item {
                digest: digest.to_string(),
                size_bytes: document.len() as u64,
                manifest: Some(media_type.to_owned()),
                is_tagged,
            };
            self.send(&item, &mut { document }, &mut |_| ())?;
        }
        Ok(())
    }

    /// Sends an item; returns false if the registry has it already.
    fn send(
        &mut self,
        item: &Item,
        contents: &mut dyn Read,
        advance: &mut dyn FnMut(u64),
    ) -> Result<bool> {
        let in_uri = |error: Error| match error.path() {
            Some(_) => error,
            None => error.in_file(shown(&self.uri)),
        };
        let request = PushRequest {
            push_uri: self.uri.clone(),
            item: item.clone(),
        };
        let socket = match &mut self.end {
            End::Here(uploads) => uploads.begin(request)?,
            End::Broker(broker) => ask(broker, &request)?,
        };
        let socket = UnixStream::from(socket);
        let mut replies = BufReader::new(&socket);
        match read(&mut replies).map_err(in_uri)? {
            Reply::Send => {}
            Reply::Exists => return Ok(false),
            Reply::Done => return Err(broken().into()),
            Reply::Failed(failure) => return Err(in_uri(failure.into())),
        }
        let sent = copy(contents, &socket, advance);
        // It fails only if the other end has gone.
        let _ = socket.shutdown(Shutdown::Write);
        if let Err(Stopped::Reading(error)) = sent {
            return Err(error);
        }
        match read(&mut replies).map_err(in_uri)? {
            Reply::Done => Ok(true),
            Reply::Failed(failure) => Err(in_uri(failure.into())),
            Reply::Send | Reply::Exists => Err(broken().into()),
        }
    }
}

/// Asks the broker for the socket of an item.
fn ask(broker: &BrokerClient, request: &PushRequest) -> Result<OwnedFd> {
    let request = serde_json::to_vec(request).map_err(io::Error::from)?;
    let answer = broker.ask(&request)?;
    let answered = serde_json::from_slice(&answer.bytes).map_err(io::Error::from)?;
    match (answered, answer.descriptor) {
        (Connected::Failed(failure), _) => Err(failure.into()),
        (_, Some(socket)) => Ok(socket),
        (_, None) => Err(broken().into()),
    }
}

/// The reason why a copy stopped.
enum Stopped {
    Reading(Error),
    /// The other end, which then says why.
    Writing,
}

/// Sends the contents of an item.
fn copy(
    contents: &mut dyn Read,
    mut socket: &UnixStream,
    advance: &mut dyn FnMut(u64),
) -> std::result::Result<(), Stopped> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let len = contents.read(&mut piece);
        let len = len.map_err(|error| Stopped::Reading(error.into()))?;
        if len == 0 {
            return Ok(());
        }
        let sent = socket.write_all(piece.get(..len).unwrap_or_default());
        sent.map_err(|_| Stopped::Writing)?;
        advance(len as u64);
    }
}

fn read(replies: &mut impl BufRead) -> Result<Reply> {
    let mut line = String::new();
    replies.take(64 << 10).read_line(&mut line)?;
    if line.is_empty() {
        return Err(broken().into());
    }
    Ok(serde_json::from_str(&line).map_err(io::Error::from)?)
}

/// Returns the error of another end that does not answer as it should.
fn broken() -> io::Error {
    io::Error::other("the broker sent no answer")
}
