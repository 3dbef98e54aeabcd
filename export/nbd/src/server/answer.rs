//! The replies to a request, in the form that was negotiated.

use std::sync::Arc;

use diskfs_block::Error;
use tokio::sync::OwnedSemaphorePermit;

use crate::protocol::{
    BlockStatus, Chunk, ChunkType, ErrorChunk, ErrorNumber, Headers, OffsetData, OffsetHole,
    ReplyFlags, Request, SimpleReply,
};
use crate::stream::{Buffer, Message, Outbox};

/// The replies to one request. The request is in progress until its last reply is sent.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) outbox: Arc<Outbox>,
    pub(super) headers: Headers,
    pub(super) cookie: u64,
    pub(super) request_offset: u64,
    pub(super) permits: Vec<OwnedSemaphorePermit>,
}

impl Answer {
    /// Begins the answer to a request.
    pub(super) fn to(
        request: &Request,
        outbox: &Arc<Outbox>,
        headers: Headers,
        permits: Vec<OwnedSemaphorePermit>,
    ) -> Self {
        Self {
            outbox: Arc::clone(outbox),
            headers,
            cookie: request.cookie,
            request_offset: request.offset,
            permits,
        }
    }

    /// Reports success, without data.
    pub(super) fn success(self) {
        if self.headers == Headers::Extended {
            self.last_chunk(ChunkType::None, Vec::new(), Buffer::default());
        } else {
            self.simple(0, Buffer::default());
        }
    }

    /// Reports the success of a read: all of the data at once.
    pub(super) fn data(self, offset: u64, data: Buffer) {
        if self.headers == Headers::Simple {
            self.simple(0, data);
        } else if data.is_empty() {
            self.last_chunk(ChunkType::None, Vec::new(), data);
        } else {
            let head = OffsetData { offset }.encode().to_vec();
            self.last_chunk(ChunkType::OffsetData, head, data);
        }
    }

    /// Sends a part of a read.
    pub(super) fn some_data(&self, offset: u64, data: Buffer) {
        let head = OffsetData { offset }.encode().to_vec();
        let message = self.chunk(ChunkType::OffsetData, ReplyFlags::empty(), head, data);
        self.outbox.send(message);
    }

    /// Sends a part of a read that is zeroes.
    pub(super) fn hole(&self, offset: u64, size_bytes: u32) {
        let hole = OffsetHole { offset, size_bytes };
        let message = self.chunk(
            ChunkType::OffsetHole,
            ReplyFlags::empty(),
            hole.encode(),
            Buffer::default(),
        );
        self.outbox.send(message);
    }

    /// Ends the chunks of a request that succeeded.
    pub(super) fn end(self) {
        self.last_chunk(ChunkType::None, Vec::new(), Buffer::default());
    }

    /// Reports the status of a range, in each of the contexts.
    pub(super) fn statuses(self, statuses: &[BlockStatus]) {
        let chunk_type = if self.headers == Headers::Extended {
            ChunkType::BlockStatusExtended
        } else {
            ChunkType::BlockStatus
        };
        for status in statuses {
            let payload = status.encode(self.headers);
            let flags = ReplyFlags::empty();
            let message = self.chunk(chunk_type, flags, payload, Buffer::default());
            self.outbox.send(message);
        }
        self.end();
    }

    /// Reports a failure.
    pub(super) fn error(self, number: ErrorNumber, message: &str, offset: Option<u64>) {
        if self.headers == Headers::Simple {
            self.simple(number.number(), Buffer::default());
            return;
        }
        let error = ErrorChunk {
            error: number.number(),
            message: message.to_owned(),
            offset,
        };
        self.last_chunk(error.chunk_type(), error.encode(), Buffer::default());
    }

    /// Reports a failure of the device. The paths of the host's files are not sent.
    pub(super) fn failure(self, error: &Error) {
        self.error(ErrorNumber::of(error.kind()), error.reason(), None);
    }

    fn simple(self, error: u32, data: Buffer) {
        let head = SimpleReply {
            error,
            cookie: self.cookie,
        };
        let message = Message::new(head.encode(), data).holding(self.permits);
        self.outbox.send(message);
    }

    fn last_chunk(mut self, chunk_type: ChunkType, head: Vec<u8>, data: Buffer) {
        let permits = std::mem::take(&mut self.permits);
        let message = self.chunk(chunk_type, ReplyFlags::DONE, head, data);
        self.outbox.send(message.holding(permits));
    }

    /// Returns a chunk whose payload is `payload` and `data`.
    fn chunk(
        &self,
        chunk_type: ChunkType,
        flags: ReplyFlags,
        payload: Vec<u8>,
        data: Buffer,
    ) -> Message {
        let length = payload.len().saturating_add(data.len());
        let header = Chunk {
            flags,
            kind: chunk_type.number(),
            cookie: self.cookie,
            length: u32::try_from(length).unwrap_or(u32::MAX),
            request_offset: Some(self.request_offset),
        };
        let mut head = header.encode(self.headers);
        head.extend(payload);
        Message::new(head, data)
    }
}
