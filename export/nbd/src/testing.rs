//! Sessions with arbitrary peers, for the fuzzers: whatever a peer sends, a session ends.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use diskfs_block::{BlockWrite, Memory};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Runtime;

use crate::client::testing::read_replies;
use crate::protocol::{
    BASE_ALLOCATION, BlockDescriptor, BlockStatus, Chunk, ChunkType, Command, CommandFlags,
    ErrorChunk, Greeting, HandshakeFlags, Headers, Info, InfoRequest, InfoType, MetaContextReply,
    MetaContextRequest, OffsetData, OffsetHole, OptionCode, OptionReply, OptionRequest, ReplyFlags,
    ReplyType, Request, TransmissionFlags,
};
use crate::server::testing::serve_stream;
use crate::server::{Export, Options};
use crate::stream::Stream;

/// The peer of a session: it sends the bytes, and takes everything.
struct Peer {
    bytes: io::Cursor<Vec<u8>>,
}

impl AsyncRead for Peer {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_read(context, buf)
    }
}

impl AsyncWrite for Peer {
    fn poll_write(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn stream(bytes: &[u8]) -> Stream {
    Stream::other(Peer {
        bytes: io::Cursor::new(bytes.to_vec()),
    })
}

/// The runtime of sessions.
#[derive(Debug)]
pub struct Sessions(Runtime);

impl Sessions {
    /// Starts the runtime.
    ///
    /// # Errors
    /// The errors of starting threads.
    pub fn new() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(2)
            .enable_all()
            .build()?;
        Ok(Self(runtime))
    }

    /// Serves a client that sends these bytes: a handshake, then requests. Returns true if they
    /// are a whole session.
    pub fn serve(&self, bytes: &[u8]) -> bool {
        let device: Arc<dyn BlockWrite> = Arc::new(Memory::new(vec![1; 256 << 10]));
        let exports = vec![
            Arc::new(Export::writable("", Arc::clone(&device))),
            Arc::new(Export::read_only("other", device).description("read-only")),
        ];
        let options = Options::default();
        let served = serve_stream(stream(bytes), &exports, &options);
        self.0.block_on(served).is_ok()
    }

    /// Opens an export of a server that sends these bytes: a handshake, then replies to requests
    /// with the cookies 1 to 16. Returns true if they are a whole session.
    pub fn connect(&self, bytes: &[u8]) -> bool {
        self.0.block_on(read_replies(stream(bytes)))
    }
}

/// Returns what clients send in whole sessions, with each form of headers.
pub fn clients() -> [(&'static str, Vec<u8>); 3] {
    let greeting = 3_u32.to_be_bytes().to_vec();
    let name = b"other".as_slice();
    let simple = [
        greeting.clone(),
        OptionRequest::encode(OptionCode::List, b""),
        OptionRequest::encode(OptionCode::ExportName, name),
        requests(Headers::Simple),
    ];
    let structured = [
        negotiation(&greeting, OptionCode::StructuredReply),
        requests(Headers::Structured),
    ];
    let extended = [
        negotiation(&greeting, OptionCode::ExtendedHeaders),
        requests(Headers::Extended),
    ];
    [
        ("simple replies", simple.concat()),
        ("structured replies", structured.concat()),
        ("extended headers", extended.concat()),
    ]
}

fn negotiation(greeting: &[u8], headers: OptionCode) -> Vec<u8> {
    let contexts = MetaContextRequest {
        name: String::new(),
        queries: vec![BASE_ALLOCATION.into(), "base:".into()],
    };
    let info = InfoRequest {
        name: String::new(),
        requests: vec![InfoType::BlockSize, InfoType::Name, InfoType::Description],
    };
    let options = [
        OptionRequest::encode(headers, b""),
        OptionRequest::encode(OptionCode::ListMetaContext, &contexts.encode()),
        OptionRequest::encode(OptionCode::SetMetaContext, &contexts.encode()),
        OptionRequest::encode(OptionCode::Info, &info.encode()),
        OptionRequest::encode(OptionCode::Go, &info.encode()),
    ];
    [greeting, &options.concat()].concat()
}

/// Returns one request of each command.
fn requests(headers: Headers) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut filter = 8192_u64.to_be_bytes().to_vec();
    filter.extend([0; 4]);
    let is_extended = headers == Headers::Extended;
    for (cookie, command) in (1..).zip([0_u16, 1, 3, 4, 5, 6, 7, 99, 2]) {
        let command_type = Command::from_number(command);
        let mut payload: &[u8] = &[];
        let mut flags = CommandFlags::empty();
        if command_type == Some(Command::Write) {
            payload = &[7; 512];
            flags |= CommandFlags::FUA;
        } else if command_type == Some(Command::BlockStatus) && is_extended {
            payload = &filter;
            flags |= CommandFlags::PAYLOAD_LEN;
        }
        let length = if payload.is_empty() {
            65536
        } else {
            payload.len()
        };
        let request = Request {
            flags,
            command,
            cookie,
            offset: 4096,
            length: u64::try_from(length).unwrap_or_default(),
        };
        bytes.extend(request.encode(headers));
        bytes.extend(payload);
    }
    bytes
}

/// Returns what servers send in whole sessions, with structured replies and extended headers.
pub fn servers() -> [(&'static str, Vec<u8>); 2] {
    [
        ("structured replies", server(Headers::Structured)),
        ("extended headers", server(Headers::Extended)),
    ]
}

fn server(headers: Headers) -> Vec<u8> {
    let flags = HandshakeFlags::all();
    let mut bytes = Greeting { flags }.encode();
    let mut reply = |option: OptionCode, reply_type, data: &[u8]| {
        bytes.extend(OptionReply::encode(option.number(), reply_type, data));
    };
    if headers == Headers::Extended {
        reply(OptionCode::ExtendedHeaders, ReplyType::Ack, b"");
    } else {
        reply(OptionCode::ExtendedHeaders, ReplyType::Unsupported, b"no");
        reply(OptionCode::StructuredReply, ReplyType::Ack, b"");
    }
    let context = MetaContextReply {
        id: 3,
        name: BASE_ALLOCATION.into(),
    };
    let option = OptionCode::SetMetaContext;
    reply(option, ReplyType::MetaContext, &context.encode());
    reply(option, ReplyType::Ack, b"");
    let infos = [
        Info::Export {
            size_bytes: 1 << 30,
            flags: TransmissionFlags::all(),
        },
        Info::BlockSize {
            minimum: 1,
            preferred: 4096,
            maximum: 1 << 25,
        },
    ];
    for info in infos {
        reply(OptionCode::Go, ReplyType::Info, &info.encode());
    }
    reply(OptionCode::Go, ReplyType::Ack, b"");
    for (cookie, kind, payload) in chunks(headers) {
        let chunk = Chunk {
            flags: ReplyFlags::DONE,
            kind: kind.number(),
            cookie,
            length: u32::try_from(payload.len()).unwrap_or_default(),
            request_offset: Some(4096),
        };
        bytes.extend(chunk.encode(headers));
        bytes.extend(payload);
    }
    bytes
}

/// Returns chunks for the first requests of a client: their cookies, kinds and payloads.
fn chunks(headers: Headers) -> [(u64, ChunkType, Vec<u8>); 4] {
    let data = [&OffsetData { offset: 4096 }.encode()[..], &[7; 512]].concat();
    let hole = OffsetHole {
        offset: 4096,
        size_bytes: 512,
    };
    let status = BlockStatus {
        context: 3,
        runs: vec![BlockDescriptor {
            len_bytes: 512,
            flags: 3,
        }],
    };
    let kind = if headers == Headers::Extended {
        ChunkType::BlockStatusExtended
    } else {
        ChunkType::BlockStatus
    };
    let error = ErrorChunk {
        error: 5,
        message: "no".into(),
        offset: Some(4096),
    };
    [
        (1, ChunkType::OffsetData, data),
        (2, kind, status.encode(headers)),
        (3, ChunkType::ErrorOffset, error.encode()),
        (4, ChunkType::OffsetHole, hole.encode()),
    ]
}
