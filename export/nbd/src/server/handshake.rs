//! The handshake of a server: the options of a client, until it chooses an export.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use super::catalog::Exports;
use super::export::Export;
use super::haggling::{Haggling, Next, Reply, ack, error};
use super::options::{Mode, Tls};
use crate::failure::Failure;
use crate::protocol::{
    ExportNameReply, Greeting, HandshakeFlags, Headers, OptionCode, OptionReply, OptionRequest,
    ReplyType, Violation,
};
use crate::stream::{DirectWrite, Duplex, Stream};

/// The number of options in a handshake. Ours: a client sends about one for each export.
const MAX_OPTIONS: usize = 1024;

/// The size of the buffer for reading.
pub(super) const BUFFER_BYTES: usize = 32 << 10;

/// A connection whose client chose an export.
pub(super) struct Negotiated {
    pub(super) stream: BufReader<Box<dyn Duplex>>,
    pub(super) direct: Option<Arc<dyn DirectWrite>>,
    pub(super) export: Arc<Export>,
    pub(super) headers: Headers,
    /// The numbers of the metadata contexts that the client selected.
    pub(super) contexts: Vec<u32>,
}

/// A handshake in progress.
struct Handshake<'a> {
    stream: BufReader<Box<dyn Duplex>>,
    direct: Option<Arc<dyn DirectWrite>>,
    haggling: Haggling<'a>,
    tls: &'a Tls,
    is_encrypted: bool,
    has_zeroes: bool,
}

/// Does the handshake. Returns `None` if the client ended it.
pub(super) async fn negotiate(
    stream: Stream,
    exports: &Exports,
    tls: &Tls,
) -> Result<Option<Negotiated>, Failure> {
    let mut handshake = Handshake {
        stream: BufReader::with_capacity(BUFFER_BYTES, stream.duplex),
        direct: stream.direct,
        haggling: Haggling::new(exports),
        tls,
        is_encrypted: false,
        has_zeroes: true,
    };
    handshake.greet().await?;
    for _ in 0..MAX_OPTIONS {
        match handshake.option().await? {
            (it, Next::Option) => handshake = it,
            (it, Next::Transmission(export)) => return Ok(Some(it.negotiated(export))),
            (_, Next::End) => return Ok(None),
        }
    }
    Err(Violation("more than 1024 options").into())
}

impl Handshake<'_> {
    async fn greet(&mut self) -> Result<(), Failure> {
        let flags = HandshakeFlags::FIXED_NEWSTYLE | HandshakeFlags::NO_ZEROES;
        self.write(&Greeting { flags }.encode()).await?;
        let answer = HandshakeFlags::from_bits(self.stream.read_u32().await?);
        let answer = answer.ok_or(Violation("unknown flags of a client"))?;
        self.has_zeroes = !answer.contains(HandshakeFlags::NO_ZEROES);
        Ok(())
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await?;
        Ok(())
    }

    async fn reply(&mut self, option: u32, replies: &[Reply]) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        for (reply_type, data) in replies {
            bytes.extend(OptionReply::encode(option, *reply_type, data));
        }
        self.write(&bytes).await
    }

    /// Reads one option and answers it.
    async fn option(mut self) -> Result<(Self, Next), Failure> {
        let mut header = [0; OptionRequest::BYTES];
        self.stream.read_exact(&mut header).await?;
        let header = OptionRequest::decode(&header)?;
        let mut data = vec![0; header.length];
        self.stream.read_exact(&mut data).await?;
        match OptionCode::from_number(header.option) {
            Some(OptionCode::Abort) => {
                self.reply(header.option, &[ack()]).await?;
                Ok((self, Next::End))
            }
            Some(OptionCode::StartTls) => Ok((self.start_tls(&data).await?, Next::Option)),
            Some(OptionCode::ExportName) => {
                let export = self.export_name(&data).await?;
                Ok((self, Next::Transmission(export)))
            }
            _ if self.needs_tls() => {
                self.reply(header.option, &[error(ReplyType::TlsRequired, "use TLS")])
                    .await?;
                Ok((self, Next::Option))
            }
            known => {
                let (replies, next) = self.haggling.answer(known, &data);
                self.reply(header.option, &replies).await?;
                Ok((self, next))
            }
        }
    }

    fn needs_tls(&self) -> bool {
        matches!(self.tls.0, Mode::Required(_)) && !self.is_encrypted
    }

    /// Answers `NBD_OPT_EXPORT_NAME`, which has no errors: the connection ends instead.
    async fn export_name(&mut self, data: &[u8]) -> Result<Arc<Export>, Failure> {
        if self.needs_tls() {
            return Err(Violation("an export without TLS").into());
        }
        if self.haggling.headers == Headers::Extended {
            return Err(Violation("NBD_OPT_EXPORT_NAME with extended headers").into());
        }
        let name = str::from_utf8(data).map_err(|_| Violation("a name is not UTF-8"))?;
        let export = self
            .haggling
            .export(name)
            .map_err(|_| Violation("the export is not available"))?
            .ok_or(Violation("unknown export"))?;
        if export.sizes.minimum > 1 {
            return Err(Violation("NBD_OPT_EXPORT_NAME has no block sizes").into());
        }
        let reply = ExportNameReply {
            size_bytes: export.device.reader().size_bytes(),
            flags: export.flags(self.haggling.headers, false),
        };
        self.write(&reply.encode(self.has_zeroes)).await?;
        Ok(export)
    }

    /// Answers `NBD_OPT_STARTTLS`, and encrypts the stream.
    async fn start_tls(mut self, data: &[u8]) -> Result<Self, Failure> {
        let number = OptionCode::StartTls.number();
        match self.tls_config(data) {
            Err(refused) => {
                self.reply(number, &[refused]).await?;
                Ok(self)
            }
            Ok(config) => {
                // An attacker may have put options before the client's TLS: they must not count as
                // encrypted ones.
                if !self.stream.buffer().is_empty() {
                    return Err(Violation("data between NBD_OPT_STARTTLS and TLS").into());
                }
                self.reply(number, &[ack()]).await?;
                self.encrypt(config).await
            }
        }
    }

    /// Returns the configuration of TLS, or the reply that refuses it.
    fn tls_config(&self, data: &[u8]) -> Result<Arc<ServerConfig>, Reply> {
        match &self.tls.0 {
            Mode::Off => Err(error(ReplyType::Policy, "the server has no TLS")),
            _ if self.is_encrypted => Err(error(ReplyType::Invalid, "TLS is in use")),
            _ if !data.is_empty() => Err(error(ReplyType::Invalid, "unexpected data")),
            Mode::Allowed(config) | Mode::Required(config) => Ok(Arc::clone(config)),
        }
    }

    /// Does the handshake of TLS. Nothing that was negotiated before counts afterwards.
    async fn encrypt(self, config: Arc<ServerConfig>) -> Result<Self, Failure> {
        let acceptor = TlsAcceptor::from(config);
        let encrypted = acceptor.accept(self.stream.into_inner()).await?;
        Ok(Self {
            stream: BufReader::with_capacity(BUFFER_BYTES, Box::new(encrypted)),
            direct: None,
            is_encrypted: true,
            haggling: Haggling::new(self.haggling.exports),
            ..self
        })
    }

    fn negotiated(self, export: Arc<Export>) -> Negotiated {
        Negotiated {
            contexts: self.haggling.contexts(&export).to_vec(),
            stream: self.stream,
            direct: self.direct,
            headers: self.haggling.headers,
            export,
        }
    }
}
