//! The replies of a server.

use tokio::io::{AsyncRead, AsyncReadExt};

use super::handshake::printable;
use super::pending::{Kind, Pending, Table};
use super::shape::Opened;
use crate::failure::Failure;
use crate::protocol::{
    BlockStatus, Chunk, ChunkType, ErrorChunk, Headers, MAX_DESCRIPTORS, OffsetData, OffsetHole,
    ReplyFlags, ReplyHeader, SimpleReply, Violation,
};

/// The number of descriptors that a server may send. More than ours sends: others follow the
/// specification, which advises at most 2^20.
const MAX_RUNS: usize = MAX_DESCRIPTORS.saturating_mul(64);

/// Reads replies until the stream ends.
pub(super) async fn read_all(
    stream: &mut (impl AsyncRead + Unpin),
    opened: &Opened,
    table: &Table,
) -> Failure {
    loop {
        if let Err(failure) = read(stream, opened, table).await {
            return failure;
        }
    }
}

/// Reads one reply or one chunk.
async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    opened: &Opened,
    table: &Table,
) -> Result<(), Failure> {
    let mut header = [0; 32];
    let (magic, _) = header
        .split_first_chunk_mut::<{ ReplyHeader::MAGIC_BYTES }>()
        .ok_or(Violation("truncated message"))?;
    stream.read_exact(magic).await?;
    let len = ReplyHeader::bytes(opened.headers, *magic)?;
    let rest = header.get_mut(ReplyHeader::MAGIC_BYTES..len);
    stream.read_exact(rest.unwrap_or_default()).await?;
    match ReplyHeader::decode(header.get(..len).unwrap_or_default())? {
        ReplyHeader::Simple(reply) => simple(stream, opened.headers, table, reply).await,
        ReplyHeader::Chunk(chunk) => any_chunk(stream, opened, table, &chunk).await,
    }
}

async fn simple(
    stream: &mut (impl AsyncRead + Unpin),
    headers: Headers,
    table: &Table,
    reply: SimpleReply,
) -> Result<(), Failure> {
    let pending = table.get(reply.cookie)?;
    if reply.error != 0 {
        pending.set_error(reply.error, String::new());
    } else if pending.kind != Kind::Plain && headers != Headers::Simple {
        return Err(Violation("a simple reply to a request for data").into());
    } else if pending.kind == Kind::Read {
        data(stream, &pending, pending.offset, pending.len_bytes).await?;
    }
    Ok(table.finish(reply.cookie)?)
}

/// Reads a part of a read.
async fn data(
    stream: &mut (impl AsyncRead + Unpin),
    pending: &Pending,
    offset: u64,
    len_bytes: u64,
) -> Result<(), Failure> {
    if len_bytes == 0 && pending.len_bytes == 0 {
        return Ok(());
    }
    pending.cover(offset, len_bytes)?;
    let mut buffer = pending.take_data();
    let start = usize::try_from(offset.saturating_sub(pending.offset)).unwrap_or(usize::MAX);
    let len = usize::try_from(len_bytes).unwrap_or(usize::MAX);
    let part = buffer
        .get_mut(start..start.saturating_add(len))
        .ok_or(Violation("a chunk is not within its read"))?;
    stream.read_exact(part).await?;
    pending.put_data(buffer);
    Ok(())
}

async fn any_chunk(
    stream: &mut (impl AsyncRead + Unpin),
    opened: &Opened,
    table: &Table,
    chunk: &Chunk,
) -> Result<(), Failure> {
    let pending = table.get(chunk.cookie)?;
    if chunk.request_offset.is_some_and(|it| it != pending.offset) {
        return Err(Violation("a chunk with another request's offset").into());
    }
    let is_last = chunk.flags.contains(ReplyFlags::DONE);
    match ChunkType::from_number(chunk.kind) {
        Some(ChunkType::None) if chunk.length == 0 && is_last => {}
        Some(ChunkType::OffsetData) if pending.kind == Kind::Read => {
            let mut head = [0; 8];
            stream.read_exact(&mut head).await?;
            let head = OffsetData::decode(&head)?;
            let len_bytes = chunk.length.saturating_sub(OffsetData::BYTES);
            data(stream, &pending, head.offset, len_bytes.into()).await?;
        }
        Some(ChunkType::OffsetHole) if pending.kind == Kind::Read => {
            let payload = payload(stream, chunk, OffsetHole::BYTES).await?;
            let hole = OffsetHole::decode(&payload)?;
            pending.put_hole(hole.offset, hole.size_bytes.into())?;
        }
        Some(ChunkType::BlockStatus | ChunkType::BlockStatusExtended)
            if pending.kind == Kind::Status =>
        {
            let most = BlockStatus::bytes(opened.headers, MAX_RUNS);
            let payload = payload(stream, chunk, u32::try_from(most).unwrap_or(u32::MAX)).await?;
            let status = BlockStatus::decode(opened.headers, &payload)?;
            // A context that was not asked for is ignored.
            if Some(status.context) == opened.allocation {
                pending.set_runs(status.runs);
            }
        }
        _ if ChunkType::is_error(chunk.kind) => {
            let payload = payload(stream, chunk, ErrorChunk::MAX_BYTES).await?;
            let error = ErrorChunk::decode(chunk.kind, &payload)?;
            pending.set_error(error.error, printable(error.message.as_bytes()));
        }
        _ => return Err(Violation("an unexpected chunk").into()),
    }
    if is_last {
        table.finish(chunk.cookie)?;
    }
    Ok(())
}

/// Reads the payload of a chunk of at most `most` bytes.
async fn payload(
    stream: &mut (impl AsyncRead + Unpin),
    chunk: &Chunk,
    most: u32,
) -> Result<Vec<u8>, Failure> {
    if chunk.length > most {
        return Err(Violation("a chunk is too long").into());
    }
    let len = usize::try_from(chunk.length).map_err(|_| Violation("a chunk is too long"))?;
    // A length is only a claim: memory is allocated as the data arrive.
    let mut payload = Vec::new();
    stream
        .take(chunk.length.into())
        .read_to_end(&mut payload)
        .await?;
    if payload.len() < len {
        return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
    }
    Ok(payload)
}
