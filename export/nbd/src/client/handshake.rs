//! The handshake of a client.

use diskfs_block::{Error, ErrorKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::options::Tls;
use super::shape::{Opened, Shape};
use crate::failure::Failure;
use crate::protocol::{
    BASE_ALLOCATION, ExportNameReply, Greeting, HandshakeFlags, Headers, Info, InfoRequest,
    InfoType, MetaContextReply, MetaContextRequest, OptionCode, OptionReply, OptionRequest,
    ReplyType, Violation,
};
use crate::stream::{Duplex, Stream};

/// The number of replies to one option. Ours: we ask for at most three things.
const MAX_REPLIES: usize = 64;

/// The size of the buffer for reading.
const BUFFER_BYTES: usize = 64 << 10;

/// A connection in its handshake.
pub(super) struct Handshake {
    pub(super) stream: BufReader<Box<dyn Duplex>>,
    has_zeroes: bool,
    is_fixed: bool,
}

/// A refusal, or the end of the connection.
#[derive(Debug)]
pub(super) enum Refusal {
    Failure(Failure),
    /// An error that a new connection would not change.
    Final(Error),
}

impl<T: Into<Failure>> From<T> for Refusal {
    fn from(failure: T) -> Self {
        Self::Failure(failure.into())
    }
}

/// A reply to an option that is not an error.
type Reply = (Option<ReplyType>, Vec<u8>);

/// Opens an export. Returns the stream for the transmission.
pub(super) async fn open(
    stream: Stream,
    name: &str,
    tls: Option<(&Tls, &str)>,
) -> Result<(BufReader<Box<dyn Duplex>>, Opened), Refusal> {
    let mut handshake = Handshake::greet(stream).await?;
    if let Some((tls, server)) = tls {
        handshake = handshake.start_tls(tls, server).await?;
    }
    if !handshake.is_fixed {
        let opened = handshake.export_name(name, Headers::Simple, None).await?;
        return Ok((handshake.stream, opened));
    }
    let headers = handshake.headers().await?;
    let allocation = match headers {
        Headers::Simple => None,
        Headers::Structured | Headers::Extended => handshake.allocation(name).await?,
    };
    let opened = handshake.go(name, headers, allocation).await?;
    Ok((handshake.stream, opened))
}

impl Handshake {
    async fn greet(stream: Stream) -> Result<Self, Refusal> {
        let mut stream = BufReader::with_capacity(BUFFER_BYTES, stream.duplex);
        let mut greeting = [0; Greeting::BYTES];
        stream.read_exact(&mut greeting).await?;
        let known = Greeting::decode(&greeting)?.flags & HandshakeFlags::all();
        stream.write_all(&known.bits().to_be_bytes()).await?;
        stream.flush().await?;
        Ok(Self {
            stream,
            has_zeroes: !known.contains(HandshakeFlags::NO_ZEROES),
            is_fixed: known.contains(HandshakeFlags::FIXED_NEWSTYLE),
        })
    }

    /// Sends an option. Returns its replies, or the error that ends them.
    async fn option(
        &mut self,
        option: OptionCode,
        data: &[u8],
    ) -> Result<Result<Vec<Reply>, (u32, String)>, Refusal> {
        self.stream
            .write_all(&OptionRequest::encode(option, data))
            .await?;
        self.stream.flush().await?;
        let mut replies = Vec::new();
        for _ in 0..MAX_REPLIES {
            let mut header = [0; OptionReply::BYTES];
            self.stream.read_exact(&mut header).await?;
            let header = OptionReply::decode(&header)?;
            if header.option != option.number() {
                return Err(Violation("a reply to another option").into());
            }
            let mut data = vec![0; header.length];
            self.stream.read_exact(&mut data).await?;
            if ReplyType::is_error(header.reply_type) {
                return Ok(Err((header.reply_type, printable(&data))));
            }
            let reply_type = ReplyType::from_number(header.reply_type);
            if reply_type == Some(ReplyType::Ack) {
                return Ok(Ok(replies));
            }
            replies.push((reply_type, data));
        }
        Err(Violation("more than 64 replies to an option").into())
    }

    async fn start_tls(mut self, tls: &Tls, server: &str) -> Result<Self, Refusal> {
        if !self.is_fixed {
            return Err(Refusal::Final(no_tls("the server has no TLS")));
        }
        if let Err((_, message)) = self.option(OptionCode::StartTls, b"").await? {
            let reason = format!("the server refuses TLS: {message}");
            return Err(Refusal::Final(no_tls(reason)));
        }
        if !self.stream.buffer().is_empty() {
            return Err(Violation("data between NBD_OPT_STARTTLS and TLS").into());
        }
        let name = ServerName::try_from(server.to_owned())
            .map_err(|_| Refusal::Final(Error::invalid(format!("invalid host name `{server}`"))))?;
        let connector = TlsConnector::from(std::sync::Arc::clone(&tls.0));
        let encrypted = connector.connect(name, self.stream.into_inner()).await;
        let encrypted = match encrypted {
            Ok(encrypted) => encrypted,
            // An error of TLS itself; others are errors of the stream.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                let reason = format!("cannot verify the server's TLS: {error}");
                return Err(Refusal::Final(Error::new(ErrorKind::Denied, reason)));
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Self {
            stream: BufReader::with_capacity(BUFFER_BYTES, Box::new(encrypted)),
            ..self
        })
    }

    /// Asks for the best form of replies that the server has.
    async fn headers(&mut self) -> Result<Headers, Refusal> {
        for (option, headers) in [
            (OptionCode::ExtendedHeaders, Headers::Extended),
            (OptionCode::StructuredReply, Headers::Structured),
        ] {
            match self.option(option, b"").await? {
                Ok(_) => return Ok(headers),
                Err(refused) => check_policy(&refused)?,
            }
        }
        Ok(Headers::Simple)
    }

    /// Selects the context `base:allocation`, and returns its number.
    async fn allocation(&mut self, name: &str) -> Result<Option<u32>, Refusal> {
        let request = MetaContextRequest {
            name: name.to_owned(),
            queries: vec![BASE_ALLOCATION.to_owned()],
        };
        let option = OptionCode::SetMetaContext;
        // `NBD_OPT_GO` tells the reason if the export is unknown.
        let Ok(replies) = self.option(option, &request.encode()).await? else {
            return Ok(None);
        };
        for (reply_type, data) in replies {
            if reply_type == Some(ReplyType::MetaContext) {
                let context = MetaContextReply::decode(&data)?;
                if context.name == BASE_ALLOCATION {
                    return Ok(Some(context.id));
                }
            }
        }
        Ok(None)
    }

    async fn go(
        &mut self,
        name: &str,
        headers: Headers,
        allocation: Option<u32>,
    ) -> Result<Opened, Refusal> {
        let request = InfoRequest {
            name: name.to_owned(),
            requests: vec![InfoType::BlockSize],
        };
        let replies = match self.option(OptionCode::Go, &request.encode()).await? {
            Ok(replies) => replies,
            Err((number, _)) if number == ReplyType::Unsupported.number() => {
                if headers == Headers::Extended {
                    return Err(Violation("extended headers without NBD_OPT_GO").into());
                }
                return self.export_name(name, headers, allocation).await;
            }
            Err(refused) => return Err(Refusal::Final(refusal(&refused))),
        };
        let (mut export, mut sizes) = (None, None);
        for (reply_type, data) in replies {
            if reply_type != Some(ReplyType::Info) {
                continue;
            }
            match Info::decode(&data)? {
                Some(Info::Export { size_bytes, flags }) => export = Some((size_bytes, flags)),
                Some(Info::BlockSize {
                    minimum,
                    preferred,
                    maximum,
                }) => sizes = Some((minimum, preferred, maximum)),
                _ => {}
            }
        }
        let (size_bytes, flags) = export.ok_or(Violation("an export without its size"))?;
        Ok(Opened {
            shape: Shape {
                has_allocation: allocation.is_some(),
                ..Shape::new(size_bytes, flags, sizes)?
            },
            headers,
            allocation,
        })
    }

    /// Opens an export by the option that all servers have.
    async fn export_name(
        &mut self,
        name: &str,
        headers: Headers,
        allocation: Option<u32>,
    ) -> Result<Opened, Refusal> {
        let option = OptionRequest::encode(OptionCode::ExportName, name.as_bytes());
        self.stream.write_all(&option).await?;
        self.stream.flush().await?;
        let mut reply = vec![0; ExportNameReply::bytes(self.has_zeroes)];
        self.stream.read_exact(&mut reply).await?;
        let reply = ExportNameReply::decode(&reply)?;
        Ok(Opened {
            shape: Shape {
                has_allocation: allocation.is_some(),
                ..Shape::new(reply.size_bytes, reply.flags, None)?
            },
            headers,
            allocation,
        })
    }
}

/// Fails if a refusal means that no option will work.
fn check_policy(refused: &(u32, String)) -> Result<(), Refusal> {
    let needs_tls = ReplyType::TlsRequired.number();
    if refused.0 == needs_tls {
        return Err(Refusal::Final(refusal(refused)));
    }
    Ok(())
}

/// Returns the error of a refused export.
fn refusal((number, message): &(u32, String)) -> Error {
    match ReplyType::from_number(*number) {
        Some(ReplyType::TlsRequired) => {
            Error::new(ErrorKind::Denied, "the server requires TLS").with_hint("use `nbds://`")
        }
        Some(ReplyType::Unknown) => {
            let reason = format!("no such export: {message}");
            Error::new(ErrorKind::NotFound, reason)
        }
        Some(ReplyType::Policy) => {
            let reason = format!("the server's policy denies the export: {message}");
            Error::new(ErrorKind::Denied, reason)
        }
        Some(ReplyType::Shutdown) => Error::new(ErrorKind::Io, "the server is stopping"),
        _ => {
            let reason = format!("the server refuses the export ({number:#x}): {message}");
            Error::new(ErrorKind::Io, reason)
        }
    }
}

fn no_tls(reason: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Denied, reason).with_hint("use `nbd://` for a connection without TLS")
}

/// Returns a server's message without control characters, and not too long.
pub(super) fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let visible = text.chars().filter(|letter| !letter.is_control());
    visible.take(MAX_MESSAGE_CHARS).collect()
}

/// The length up to which messages of a server are shown.
const MAX_MESSAGE_CHARS: usize = 300;
