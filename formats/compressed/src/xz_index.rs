//! The indexes of an xz file, which list its blocks (The .xz File Format, sections 2 and 4).

use std::io::Read;

use diskfs_block::{BlockRead, Error, Result, bytes, read_within};

use crate::units::{UNITS_MAX, Units};

const HEADER_MAGIC: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0];
const FOOTER_MAGIC: [u8; 2] = *b"YZ";
/// The length of a stream's header and of its footer.
const END_BYTES: u64 = 12;
/// The longest index that is read: some bytes for each unit.
const INDEX_MAX_BYTES: u64 = 8 << 20;
/// The most zeroes after a stream, and the most streams: programs write none, and one.
const PADDING_MAX_BYTES: u64 = 64 << 10;
const STREAMS_MAX: usize = 4096;

/// A block: its length in the file without padding, and decompressed.
type Block = (u64, u64);

/// A stream: its offset, its flags, and its blocks.
struct Stream {
    offset: u64,
    flags: u8,
    blocks: Vec<Block>,
}

/// Finds the blocks of a file; `None` if it has to be decompressed as a whole.
pub(crate) fn units(file: &dyn BlockRead) -> Result<Option<Units>> {
    let mut streams = Vec::new();
    let (mut end, mut blocks) = (file.size_bytes(), 0_usize);
    while end > 0 {
        let Some(stream) = last_stream(file, end)? else {
            return Ok(None);
        };
        blocks = blocks.saturating_add(stream.blocks.len());
        if streams.len() >= STREAMS_MAX || blocks > UNITS_MAX {
            return Ok(None);
        }
        end = stream.offset;
        streams.push(stream);
    }
    let mut units = Units::default();
    for stream in streams.iter().rev() {
        let mut offset = stream.offset.saturating_add(END_BYTES);
        for &(unpadded_bytes, unpacked_bytes) in &stream.blocks {
            if !units.push(offset, unpadded_bytes, unpacked_bytes, stream.flags) {
                return Ok(None);
            }
            offset = offset.saturating_add(padded(unpadded_bytes));
        }
    }
    Ok(Some(units))
}

/// Reads the index of the stream that ends before `end`; `None` if it is too long.
fn last_stream(file: &dyn BlockRead, end: u64) -> Result<Option<Stream>> {
    let Some(end) = without_padding(file, end)? else {
        return Ok(None);
    };
    let footer_at = end.checked_sub(END_BYTES).ok_or_else(|| no_footer(end))?;
    let footer = array::<12>(file, footer_at)?;
    let [c0, c1, c2, c3, s0, s1, s2, s3, 0, flags, y, z] = footer else {
        return Err(no_footer(footer_at));
    };
    let sums_up =
        u32::from_le_bytes([c0, c1, c2, c3]) == crc32fast::hash(&[s0, s1, s2, s3, 0, flags]);
    if [y, z] != FOOTER_MAGIC || !sums_up {
        return Err(no_footer(footer_at));
    }
    let index_bytes = u64::from(u32::from_le_bytes([s0, s1, s2, s3]))
        .saturating_add(1)
        .saturating_mul(4);
    if index_bytes > INDEX_MAX_BYTES {
        return Ok(None);
    }
    let index_at = footer_at.checked_sub(index_bytes);
    let index_at = index_at.ok_or_else(|| no_footer(footer_at))?;
    let index = read_within(file, index_at, bytes::index(index_bytes))?.unwrap_or_default();
    let blocks = parse(&index)
        .ok_or_else(|| Error::corrupt("invalid index of an xz stream").at(index_at))?;
    let lengths = blocks
        .iter()
        .map(|(unpadded_bytes, _)| padded(*unpadded_bytes));
    let blocks_bytes = lengths.fold(END_BYTES, u64::saturating_add);
    let offset = index_at.checked_sub(blocks_bytes);
    let other = || Error::corrupt("the index of an xz stream has other lengths").at(index_at);
    let offset = offset.ok_or_else(other)?;
    if array::<8>(file, offset)? != header_start(flags) {
        return Err(other());
    }
    Ok(Some(Stream {
        offset,
        flags,
        blocks,
    }))
}

/// Returns the end of the stream before padding that ends at `end`; `None` if it is too long.
fn without_padding(file: &dyn BlockRead, end: u64) -> Result<Option<u64>> {
    let start = end.saturating_sub(PADDING_MAX_BYTES);
    let len = bytes::index(end.saturating_sub(start));
    let tail = read_within(file, start, len)?.unwrap_or_default();
    let last = tail.iter().rposition(|byte| *byte != 0);
    let used = last.map(|last| bytes::len_u64(last).saturating_add(1));
    // The footer ends without a zero.
    Ok(used.map(|used| start.saturating_add(used)))
}

/// Parses an index. Returns `None` if it is invalid.
fn parse(index: &[u8]) -> Option<Vec<Block>> {
    let (content, sum) = index.split_at_checked(index.len().checked_sub(4)?)?;
    if crc32fast::hash(content) != bytes::le32(sum, 0)? {
        return None;
    }
    let [0, rest @ ..] = content else {
        return None;
    };
    let mut rest = rest;
    let count = number(&mut rest)?;
    // Each takes two bytes or more.
    if count > bytes::len_u64(rest.len()) / 2 {
        return None;
    }
    let mut blocks = Vec::with_capacity(bytes::index(count));
    for _ in 0..count {
        blocks.push((number(&mut rest)?, number(&mut rest)?));
    }
    (rest.len() < 4 && bytes::is_zero(rest)).then_some(blocks)
}

/// Takes a number in groups of 7 bits, at most 63 bits.
fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..63).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}

/// Returns a block as a stream: with a header before it, and an index and a footer behind it.
pub(crate) fn stream_of(
    block: impl Read,
    unpadded_bytes: u32,
    flags: u8,
    unpacked_bytes: usize,
) -> impl Read {
    let mut header = header_start(flags).to_vec();
    header.extend(crc32fast::hash(&[0, flags]).to_le_bytes());
    let mut end = vec![0, 1];
    put_number(&mut end, unpadded_bytes.into());
    put_number(&mut end, bytes::len_u64(unpacked_bytes));
    end.resize(end.len().next_multiple_of(4), 0);
    end.extend(crc32fast::hash(&end).to_le_bytes());
    let words = u32::try_from(end.len() / 4).unwrap_or(0).saturating_sub(1);
    let mut fields = words.to_le_bytes().to_vec();
    fields.extend([0, flags]);
    end.extend(crc32fast::hash(&fields).to_le_bytes());
    end.extend(fields);
    end.extend(FOOTER_MAGIC);
    std::io::Cursor::new(header)
        .chain(block)
        .chain(std::io::Cursor::new(end))
}

/// Returns the beginning of a stream's header: the magic number and the flags.
fn header_start(flags: u8) -> [u8; 8] {
    let mut start = [0; 8];
    bytes::put(&mut start, 0, &HEADER_MAGIC);
    bytes::put(&mut start, 7, &[flags]);
    start
}

/// Returns the length of a block with its padding.
pub(crate) const fn padded(unpadded_bytes: u64) -> u64 {
    match unpadded_bytes.checked_next_multiple_of(4) {
        Some(padded) => padded,
        None => u64::MAX,
    }
}

fn array<const N: usize>(file: &dyn BlockRead, offset: u64) -> Result<[u8; N]> {
    let mut array = [0; N];
    file.read_at(offset, &mut array)?;
    Ok(array)
}

fn no_footer(at: u64) -> Error {
    Error::corrupt("no stream of xz ends here; the file may be truncated").at(at)
}
