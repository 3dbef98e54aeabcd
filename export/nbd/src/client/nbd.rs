//! The block device that a server exports.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use diskfs_block::{BlockRead, Error, ErrorKind, Extent, ExtentKind, Result, check_bounds, len_of};

use super::allocation::Allocation;
use super::exchange::{Question, Sent};
use super::links::Links;
use super::options::Options;
use super::peer::{Connect, Peer};
use super::pending::Kind;
use super::uri::Uri;
use crate::protocol::{Command, TransmissionFlags};

/// The number of pieces of one read or write that are in flight.
pub(super) const IN_FLIGHT: usize = 16;

/// The length of the range of one question for allocation: the longest aligned one without extended
/// headers.
const MAX_STATUS_BYTES: u64 = 2 << 30;

/// The length of one request that writes zeroes or discards: servers may refuse longer ones.
pub(super) const MAX_ZEROES_BYTES: u64 = 32 << 20;

/// A block device that an NBD server exports.
///
/// Reads are repeated over a new connection if one is lost. A write whose answer is lost fails: it
/// is unknown whether the server has done it.
#[derive(Debug)]
pub struct Nbd {
    pub(super) links: Links,
    pub(super) allocation: Allocation,
    /// Held while the edges of an unaligned write are read and written.
    pub(super) edges: Mutex<()>,
}

impl Nbd {
    /// Connects to a server, and opens its export.
    ///
    /// # Errors
    /// * [`ErrorKind::NotFound`] if the server has no such export.
    /// * [`ErrorKind::Denied`] if TLS is missing on one side, or a certificate is not trusted.
    /// * [`ErrorKind::Io`] if the server cannot be reached, or violates the protocol.
    pub fn connect(uri: &Uri, options: Options) -> Result<Self> {
        let peer = Peer::of_uri(uri, options.tls(uri)?);
        Self::open(peer, options)
    }

    /// Opens an export over the connections of a connector, without TLS. `name` is the name of the
    /// device in errors.
    ///
    /// # Errors
    /// Returns the errors of [`connect`](Self::connect) and of the connector.
    pub fn connect_by(
        connector: Arc<dyn Connect>,
        name: &str,
        export: &str,
        options: Options,
    ) -> Result<Self> {
        Self::open(Peer::of_connector(connector, name, export), options)
    }

    fn open(peer: Peer, options: Options) -> Result<Self> {
        Ok(Self {
            links: Links::open(peer, options)?,
            allocation: Allocation::default(),
            edges: Mutex::default(),
        })
    }

    /// Returns true if the server allows writing.
    pub fn is_writable(&self) -> bool {
        !self.has(TransmissionFlags::READ_ONLY)
    }

    /// Returns the name of the device in errors: the URI.
    pub(super) fn name(&self) -> &str {
        self.links.name()
    }

    pub(super) fn has(&self, flag: TransmissionFlags) -> bool {
        self.links.shape.has(flag)
    }

    pub(super) fn unit(&self) -> u64 {
        self.links.shape.unit.into()
    }

    pub(super) fn piece_bytes(&self) -> usize {
        usize::try_from(self.links.shape.piece_bytes()).unwrap_or(usize::MAX)
    }

    /// Reads a range that is aligned to the unit of requests.
    pub(super) fn read_aligned(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let mut in_flight: VecDeque<(Question, Sent, &mut [u8])> = VecDeque::new();
        let mut at = offset;
        for part in buf.chunks_mut(self.piece_bytes()) {
            if in_flight.len() >= IN_FLIGHT
                && let Some(first) = in_flight.pop_front()
            {
                self.receive(first)?;
            }
            let question = Question {
                command: Command::Read,
                kind: Kind::Read,
                offset: at,
                len_bytes: len_of(part),
            };
            at = at.saturating_add(question.len_bytes);
            let sent = self.links.ask(question, self.links.deadline())?;
            in_flight.push_back((question, sent, part));
        }
        in_flight.into_iter().try_for_each(|it| self.receive(it))
    }

    fn receive(&self, (question, sent, part): (Question, Sent, &mut [u8])) -> Result<()> {
        let answer = self.links.answer(question, sent)?;
        if answer.data.len() != part.len() {
            return Err(Error::new(ErrorKind::Io, "a read of another length"));
        }
        part.copy_from_slice(&answer.data);
        Ok(())
    }

    /// Asks the server for the runs from `offset` on.
    fn ask_allocation(&self, offset: u64) -> Result<()> {
        let start = offset.saturating_sub(offset.checked_rem(self.unit()).unwrap_or(0));
        let left = self.size_bytes().saturating_sub(start);
        let question = Question {
            command: Command::BlockStatus,
            kind: Kind::Status,
            offset: start,
            len_bytes: left.min(MAX_STATUS_BYTES),
        };
        let generation = self.allocation.generation();
        let sent = self.links.ask(question, self.links.deadline())?;
        let answer = self.links.answer(question, sent)?;
        self.allocation
            .set(generation, start, &answer.runs, self.size_bytes());
        Ok(())
    }

    /// Returns the beginning of the aligned range around a range, and a buffer for it.
    pub(super) fn widened(&self, offset: u64, len_bytes: u64) -> Result<(u64, Vec<u8>)> {
        let unit = self.unit();
        let start = offset.saturating_sub(offset.checked_rem(unit).unwrap_or(0));
        let end = offset.saturating_add(len_bytes).next_multiple_of(unit);
        let len = usize::try_from(end.saturating_sub(start))
            .map_err(|_| Error::invalid("the range is too long"))?;
        Ok((start, vec![0; len]))
    }

    pub(super) fn is_aligned(&self, offset: u64, len_bytes: u64) -> bool {
        offset.is_multiple_of(self.unit()) && len_bytes.is_multiple_of(self.unit())
    }
}

impl BlockRead for Nbd {
    fn size_bytes(&self) -> u64 {
        self.links.shape.size_bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_bounds(offset, len_of(buf), self.size_bytes())?;
        if self.is_aligned(offset, len_of(buf)) {
            return self.read_aligned(offset, buf);
        }
        let (start, mut whole) = self.widened(offset, len_of(buf))?;
        self.read_aligned(start, &mut whole)?;
        let skip = usize::try_from(offset.saturating_sub(start)).unwrap_or(usize::MAX);
        let end = skip.saturating_add(buf.len());
        buf.copy_from_slice(whole.get(skip..end).unwrap_or_default());
        Ok(())
    }

    fn extent_at(&self, offset: u64) -> Result<Extent> {
        check_bounds(offset, 1, self.size_bytes())?;
        let unknown = Extent {
            len_bytes: self.size_bytes().saturating_sub(offset),
            kind: ExtentKind::Data,
        };
        if !self.links.shape.has_allocation {
            return Ok(unknown);
        }
        if let Some(extent) = self.allocation.get(offset) {
            return Ok(extent);
        }
        self.ask_allocation(offset)?;
        // Another thread may have written meanwhile, or asked for another place.
        Ok(self.allocation.get(offset).unwrap_or(Extent {
            len_bytes: unknown.len_bytes.min(self.unit()),
            ..unknown
        }))
    }

    fn block_size(&self) -> u32 {
        self.links.shape.preferred
    }

    fn will_need(&self, offset: u64, len_bytes: u64) {
        let is_within = check_bounds(offset, len_bytes, self.size_bytes()).is_ok();
        if !self.has(TransmissionFlags::SEND_CACHE) || !is_within {
            return;
        }
        let question = Question {
            command: Command::Cache,
            kind: Kind::Plain,
            offset,
            len_bytes: len_bytes.min(MAX_ZEROES_BYTES),
        };
        if self.is_aligned(offset, question.len_bytes) && self.links.is_idle() {
            // Its answer is of no interest.
            let _ = self.links.ask(question, self.links.deadline());
        }
    }
}

impl Drop for Nbd {
    fn drop(&mut self) {
        self.links.close();
    }
}
