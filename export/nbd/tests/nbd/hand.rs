//! A client whose messages are written by hand.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// A length of requests that are never done at once, on the connection's thread.
pub(crate) const LONG_BYTES: u32 = (1 << 20) + 512;
pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const WRITE_ZEROES: u16 = 6;
pub(crate) const FLUSH: u16 = 3;

pub(crate) const FUA: u16 = 1;
pub(crate) const NO_HOLE: u16 = 2;
pub(crate) const DF: u16 = 4;
pub(crate) const FAST_ZERO: u16 = 16;

pub(crate) const EPERM: u32 = 1;
pub(crate) const EIO: u32 = 5;
pub(crate) const EINVAL: u32 = 22;
pub(crate) const ENOSPC: u32 = 28;
pub(crate) const ENOTSUP: u32 = 95;

/// A chunk of a structured reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) is_last: bool,
    pub(crate) kind: u16,
    pub(crate) cookie: u64,
    pub(crate) payload: Vec<u8>,
}

impl Chunk {
    /// Returns the number of an error chunk.
    pub(crate) fn error(&self) -> u32 {
        assert_eq!(self.kind, 0x8001, "{self:?}");
        u32::from_be_bytes(self.payload[..4].try_into().unwrap())
    }
}

/// The client's side of a connection.
pub(crate) struct Hand(pub(crate) UnixStream);

impl Hand {
    /// Reads the server's greeting, and answers it.
    pub(crate) fn greet(mut stream: UnixStream) -> Self {
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting, b"NBDMAGICIHAVEOPT\0\x03");
        stream.write_all(&3_u32.to_be_bytes()).unwrap();
        Self(stream)
    }

    /// Chooses an export, with simple replies.
    pub(crate) fn go(stream: UnixStream, export: &str) -> Self {
        let mut hand = Self::greet(stream);
        hand.choose(export);
        hand
    }

    /// Chooses an export, with structured replies.
    pub(crate) fn structured(stream: UnixStream, export: &str) -> Self {
        let mut hand = Self::greet(stream);
        assert_eq!(hand.option(8, b""), [(1, vec![])]);
        hand.choose(export);
        hand
    }

    fn choose(&mut self, export: &str) {
        let mut data = u32::try_from(export.len()).unwrap().to_be_bytes().to_vec();
        data.extend(export.as_bytes());
        data.extend([0, 1, 0, 3]);
        let replies = self.option(7, &data);
        assert_eq!(replies.last(), Some(&(1, vec![])), "{replies:?}");
    }

    pub(crate) fn send_option(&mut self, option: u32, data: &[u8]) {
        let mut message = b"IHAVEOPT".to_vec();
        message.extend(option.to_be_bytes());
        message.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
        message.extend(data);
        self.0.write_all(&message).unwrap();
    }

    /// Sends an option, and returns the types and data of its replies.
    pub(crate) fn option(&mut self, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.send_option(option, data);
        let mut replies = Vec::new();
        loop {
            let header: [u8; 20] = self.bytes();
            assert_eq!(header[..8], 0x0003_e889_0455_65a9_u64.to_be_bytes());
            let kind = u32::from_be_bytes(header[12..16].try_into().unwrap());
            let len = u32::from_be_bytes(header[16..].try_into().unwrap());
            let mut data = vec![0; usize::try_from(len).unwrap()];
            self.0.read_exact(&mut data).unwrap();
            replies.push((kind, data));
            if kind == 1 || kind >= 1 << 31 {
                return replies;
            }
        }
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Sends the header of a request.
    pub(crate) fn send(&mut self, command: (u16, u16), cookie: u64, offset: u64, len: u32) {
        let (command, flags) = command;
        let mut message = 0x2560_9513_u32.to_be_bytes().to_vec();
        message.extend(flags.to_be_bytes());
        message.extend(command.to_be_bytes());
        message.extend(cookie.to_be_bytes());
        message.extend(offset.to_be_bytes());
        message.extend(len.to_be_bytes());
        self.0.write_all(&message).unwrap();
    }

    /// Reads a simple reply: the error and the cookie.
    pub(crate) fn simple(&mut self) -> (u32, u64) {
        let header: [u8; 16] = self.bytes();
        assert_eq!(header[..4], 0x6744_6698_u32.to_be_bytes());
        let error = u32::from_be_bytes(header[4..8].try_into().unwrap());
        (error, u64::from_be_bytes(header[8..].try_into().unwrap()))
    }

    /// Reads the data of a simple reply.
    pub(crate) fn data(&mut self, len: usize) -> Vec<u8> {
        let mut data = vec![0; len];
        self.0.read_exact(&mut data).unwrap();
        data
    }

    /// Reads a chunk.
    pub(crate) fn chunk(&mut self) -> Chunk {
        let header: [u8; 20] = self.bytes();
        assert_eq!(header[..4], 0x668e_33ef_u32.to_be_bytes(), "{header:x?}");
        let len = u32::from_be_bytes(header[16..].try_into().unwrap());
        Chunk {
            is_last: header[5] == 1,
            kind: u16::from_be_bytes(header[6..8].try_into().unwrap()),
            cookie: u64::from_be_bytes(header[8..16].try_into().unwrap()),
            payload: self.data(usize::try_from(len).unwrap()),
        }
    }

    /// Returns true if the server has closed the connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        !matches!(self.0.read(&mut byte), Ok(1..))
    }
}
