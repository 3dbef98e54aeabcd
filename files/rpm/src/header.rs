//! A package's header, as it is in databases: an index of tags, then their values. rpm,
//! `docs/manual/format_header.md` and `lib/header.c`; the tags are those of `include/rpm/rpmtag.h`.
//!
//! Numbers are big-endian. Most entries belong to an immutable region, whose own entry comes first.
//! Entries that were added at installation come after the region, and take precedence over entries
//! with the same tag.

use diskfs_block::bytes::{array, len_u64};
use diskfs_block::{Error, Result};

use crate::blob::{Blob, check_within};
use crate::package::Package;

/// The size of the introduction: the number of entries and the length of the values.
const INTRO_BYTES: u64 = 8;

/// The size of an entry: tag, type, offset, count.
const ENTRY_BYTES: usize = 16;

/// The maximum number of entries: rpm's `HEADER_TAGS_MAX`.
const MAX_ENTRIES: u32 = 0xffff;

/// The maximum length of the values: rpm's `HEADER_DATA_MAX`.
const MAX_VALUES_BYTES: u32 = 0x0fff_ffff;

/// The maximum length of name, version, release and architecture, which are together part of a file
/// name.
const MAX_NAME_BYTES: usize = 255;

/// The maximum length of other texts. The longest are licence expressions of some KiB.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// The number of bytes to read of a description. Hardly any has a quarter of it.
const MAX_DESCRIPTION_BYTES: usize = 16 << 10;

/// The size of the first piece in which the end of a text is searched. Each piece is twice as long
/// as the one before; most texts end in the first.
const SMALLEST_PIECE_BYTES: usize = 128;
const LARGEST_PIECE_BYTES: usize = 4 << 10;

/// The length of the longest character.
const MAX_UTF8_BYTES: usize = 4;

/// The tags that are read, `RPMTAG_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tag {
    Name,
    Version,
    Release,
    Epoch,
    Summary,
    Description,
    InstallTime,
    Size,
    Vendor,
    License,
    Url,
    Arch,
    SourceRpm,
    LongSize,
    ModularityLabel,
}

impl Tag {
    const COUNT: usize = 15;

    /// Returns the tag with this number, and its index in the array of entries.
    fn of(number: u32) -> Option<(usize, Self)> {
        Some(match number {
            1000 => (0, Self::Name),
            1001 => (1, Self::Version),
            1002 => (2, Self::Release),
            1003 => (3, Self::Epoch),
            1004 => (4, Self::Summary),
            1005 => (5, Self::Description),
            1008 => (6, Self::InstallTime),
            1009 => (7, Self::Size),
            1011 => (8, Self::Vendor),
            1014 => (9, Self::License),
            1020 => (10, Self::Url),
            1022 => (11, Self::Arch),
            1044 => (12, Self::SourceRpm),
            5009 => (13, Self::LongSize),
            5096 => (14, Self::ModularityLabel),
            _ => return None,
        })
    }
}

/// The location and type of a tag's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    tag: Tag,
    kind: u32,
    offset: u32,
    count: u32,
}

impl Entry {
    /// Parses an index entry. Returns it with its index in the array; `None` if the tag is not
    /// read.
    fn from_bytes(bytes: &[u8]) -> Option<(usize, Self)> {
        let field = |at| array(bytes, at).map(u32::from_be_bytes);
        let (place, tag) = Tag::of(field(0)?)?;
        let entry = Self {
            tag,
            kind: field(4)?,
            offset: field(8)?,
            count: field(12)?,
        };
        Some((place, entry))
    }
}

/// The index entries of a header. The values are read on demand.
struct Header<'b> {
    blob: &'b mut dyn Blob,
    entries: [Option<Entry>; Tag::COUNT],
    values_start: u64,
    values_bytes: u64,
}

/// Reads the package that a header describes.
///
/// # Errors
/// `Corrupt` if it is not a header, or a value is outside of it; the errors of the device.
pub(crate) fn read_package(blob: &mut dyn Blob) -> Result<Package> {
    let mut header = Header::open(blob)?;
    let name = header
        .name(Tag::Name)?
        .ok_or_else(|| missing_value("name"))?;
    header.package(name.clone()).map_err(|error| {
        let reason = format!("package `{name}`: {}", error.reason());
        Error::new(error.kind(), reason)
    })
}

impl<'b> Header<'b> {
    fn open(blob: &'b mut dyn Blob) -> Result<Self> {
        let mut intro = [0; 8];
        blob.read_at(0, &mut intro)?;
        let field = |at| array(&intro, at).map_or(0, u32::from_be_bytes);
        let (count, values_bytes) = (field(0), field(4));
        if !(1..=MAX_ENTRIES).contains(&count) || values_bytes > MAX_VALUES_BYTES {
            let reason = format!(
                "invalid header: it has {count} entries and {values_bytes} bytes of values"
            );
            return Err(Error::corrupt(reason));
        }
        let values_bytes = u64::from(values_bytes);
        let index_bytes = u64::from(count).saturating_mul(len_u64(ENTRY_BYTES));
        let values_start = INTRO_BYTES.saturating_add(index_bytes);
        check_within(values_start, values_bytes, blob.len_bytes())?;
        let entries = entries(blob, index_bytes)?;
        Ok(Self {
            blob,
            entries,
            values_start,
            values_bytes,
        })
    }

    /// Reads the values in the order in which most headers store them: those added at installation
    /// come last.
    fn package(&mut self, name: String) -> Result<Package> {
        let version = self
            .name(Tag::Version)?
            .ok_or_else(|| missing_value("version"))?;
        let release = self
            .name(Tag::Release)?
            .ok_or_else(|| missing_value("release"))?;
        let epoch = self.number(Tag::Epoch)?;
        let too_large = || Error::corrupt("invalid Epoch: it is larger than 4294967295");
        let epoch = epoch.map(u32::try_from).transpose();
        let epoch = epoch.map_err(|_| too_large())?;
        let summary = self.text(Tag::Summary)?;
        let description = self.beginning(Tag::Description, MAX_DESCRIPTION_BYTES)?;
        let size_bytes = self.number(Tag::Size)?;
        let vendor = self.text(Tag::Vendor)?;
        let license = self.text(Tag::License)?;
        let url = self.text(Tag::Url)?;
        let arch = self.name(Tag::Arch)?;
        let source_rpm = self.text(Tag::SourceRpm)?;
        let size_bytes = self.number(Tag::LongSize)?.or(size_bytes);
        let modularity_label = self.text(Tag::ModularityLabel)?;
        Ok(Package {
            name,
            epoch,
            version,
            release,
            arch,
            vendor,
            license,
            source_rpm,
            install_time_seconds: self.number(Tag::InstallTime)?,
            size_bytes,
            summary,
            description,
            url,
            modularity_label,
        })
    }

    fn entry(&self, tag: Tag) -> Option<Entry> {
        let mut entries = self.entries.iter().flatten();
        entries.find(|entry| entry.tag == tag).copied()
    }

    /// Returns the first number of a tag, of any width.
    fn number(&mut self, tag: Tag) -> Result<Option<u64>> {
        let Some(entry) = self.entry(tag) else {
            return Ok(None);
        };
        let width = match entry.kind {
            2 => 1,
            3 => 2,
            4 => 4,
            5 => 8,
            _ => return Err(unexpected_type(entry)),
        };
        let mut bytes = [0; 8];
        if let Some(end) = bytes.get_mut(8_usize.saturating_sub(width)..) {
            check_within(entry.offset.into(), len_u64(width), self.values_bytes)?;
            let at = self.values_start.saturating_add(entry.offset.into());
            self.blob.read_at(at, end)?;
        }
        Ok((entry.count > 0).then_some(u64::from_be_bytes(bytes)))
    }

    fn name(&mut self, tag: Tag) -> Result<Option<String>> {
        self.first_text(tag, MAX_NAME_BYTES)
    }

    fn text(&mut self, tag: Tag) -> Result<Option<String>> {
        self.first_text(tag, MAX_TEXT_BYTES)
    }

    /// Returns the first text of a tag. If there are translations, that is the original.
    fn first_text(&mut self, tag: Tag, max_bytes: usize) -> Result<Option<String>> {
        // One byte more than allowed shows that the text is too long.
        let text = self.beginning(tag, max_bytes.saturating_add(1))?;
        if text.as_ref().is_some_and(|text| text.len() > max_bytes) {
            let reason = format!("invalid {tag:?}: it is longer than {max_bytes} bytes");
            return Err(Error::corrupt(reason));
        }
        Ok(text)
    }

    /// Returns a text as [`first_text`](Self::first_text) does, but truncates it to `max_bytes`.
    fn beginning(&mut self, tag: Tag, max_bytes: usize) -> Result<Option<String>> {
        let Some(entry) = self.entry(tag) else {
            return Ok(None);
        };
        if !matches!(entry.kind, 6 | 8 | 9) {
            return Err(unexpected_type(entry));
        }
        let mut text = self.until_nul(entry, max_bytes)?;
        if text.len() > max_bytes {
            text.truncate(max_bytes);
            // Do not cut within a character.
            let whole = std::str::from_utf8(&text).map_or_else(|e| e.valid_up_to(), str::len);
            if max_bytes.saturating_sub(whole) < MAX_UTF8_BYTES {
                text.truncate(whole);
            }
        }
        let text = String::from_utf8(text);
        let lossy = |error: std::string::FromUtf8Error| {
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        };
        Ok(Some(text.unwrap_or_else(lossy)))
    }

    /// Reads up to the next NUL, or at least one byte more than `max_bytes`.
    fn until_nul(&mut self, entry: Entry, max_bytes: usize) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        let mut at = u64::from(entry.offset);
        let mut buf = [0; LARGEST_PIECE_BYTES];
        let mut piece_bytes = SMALLEST_PIECE_BYTES;
        while text.len() <= max_bytes {
            let left = self.values_bytes.saturating_sub(at);
            let len = piece_bytes.min(usize::try_from(left).unwrap_or(piece_bytes));
            let piece = buf.get_mut(..len).unwrap_or_default();
            if piece.is_empty() {
                return Err(Error::corrupt(format!(
                    "invalid {:?}: missing NUL at its end",
                    entry.tag
                )));
            }
            self.blob
                .read_at(self.values_start.saturating_add(at), piece)?;
            let end = piece.iter().position(|byte| *byte == 0);
            text.extend(piece.iter().take(end.unwrap_or(len)));
            if end.is_some() {
                break;
            }
            at = at.saturating_add(len_u64(len));
            piece_bytes = piece_bytes.saturating_mul(2).min(LARGEST_PIECE_BYTES);
        }
        Ok(text)
    }
}

/// Returns the entries of the tags that are read. The last entry of a tag takes precedence.
fn entries(blob: &mut dyn Blob, index_bytes: u64) -> Result<[Option<Entry>; Tag::COUNT]> {
    let mut index = vec![0; diskfs_block::bytes::index(index_bytes)];
    blob.read_at(INTRO_BYTES, &mut index)?;
    let mut found = [None; Tag::COUNT];
    for (place, entry) in index
        .chunks_exact(ENTRY_BYTES)
        .filter_map(Entry::from_bytes)
    {
        if let Some(place) = found.get_mut(place) {
            *place = Some(entry);
        }
    }
    Ok(found)
}

fn missing_value(what: &str) -> Error {
    Error::corrupt(format!("invalid header: missing {what}"))
}

fn unexpected_type(entry: Entry) -> Error {
    Error::corrupt(format!(
        "invalid {:?}: unexpected type {}",
        entry.tag, entry.kind
    ))
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "small numbers")]
mod tests {
    use super::*;
    use crate::blob::InMemory;

    /// Builds a header with these entries and values.
    fn header(entries: &[(u32, u32, u32, &[u8])]) -> Vec<u8> {
        let mut index = Vec::new();
        let mut values = Vec::new();
        for (tag, kind, count, value) in entries {
            for field in [*tag, *kind, values.len() as u32, *count] {
                index.extend(field.to_be_bytes());
            }
            values.extend(*value);
        }
        let intro = [entries.len() as u32, values.len() as u32];
        let intro = intro.into_iter().flat_map(u32::to_be_bytes);
        intro.chain(index).chain(values).collect()
    }

    fn read(bytes: Vec<u8>) -> Result<Package> {
        read_package(&mut InMemory(bytes))
    }

    const NVR: [(u32, u32, u32, &[u8]); 3] = [
        (1000, 6, 1, b"bash\0"),
        (1001, 6, 1, b"5.2\0"),
        (1002, 6, 1, b"1\0"),
    ];

    #[test]
    fn what_was_added_counts() {
        let mut entries = NVR.to_vec();
        entries.extend([
            (1003, 4, 1, &[0, 0, 0, 7][..]),
            (1004, 9, 2, b"shell\0Schale\0"),
            (1009, 4, 1, &[0, 0, 1, 0]),
            (5009, 5, 1, &[0, 0, 0, 2, 0, 0, 0, 1]),
            (1000, 6, 1, b"zsh\0"),
        ]);
        let package = read(header(&entries)).unwrap();
        assert_eq!((&*package.name, &*package.evr()), ("zsh", "7:5.2-1"));
        assert_eq!(package.summary.as_deref(), Some("shell"));
        assert_eq!(package.size_bytes, Some(0x2_0000_0001));
        assert_eq!((package.arch, package.install_time_seconds), (None, None));
    }

    #[test]
    fn what_lies_outside_is_reported() {
        let error = |bytes| read(bytes).unwrap_err().to_string();
        let whole = header(&NVR);
        for len in 0..whole.len() {
            assert!(read(whole[..len].to_vec()).is_err(), "{len}");
        }
        assert!(error(header(&NVR[1..])).contains("missing name"));
        let cut = [NVR[0], NVR[1], (1002, 6, 1, b"1")];
        assert!(error(header(&cut)).contains("`bash`: invalid Release: missing NUL"));
        let odd = [NVR[0], NVR[1], NVR[2], (1003, 6, 1, b"x\0")];
        assert!(error(header(&odd)).contains("invalid Epoch: unexpected type 6"));
        let short = [NVR[0], NVR[1], NVR[2], (1003, 4, 1, b"\0\0\0")];
        assert!(error(header(&short)).contains("are needed at byte"));
        let long = [b'x'; 300];
        let long = [(1000, 6, 1, &long[..]), NVR[1], NVR[2]];
        assert!(error(header(&long)).contains("longer than 255"));
        let mut far = whole.clone();
        far[8 + 8..8 + 12].copy_from_slice(&[0xff; 4]);
        assert!(error(far).contains("missing NUL"));
        for (at, count) in [(0, 0), (0, 0x8000_0000_u32), (0, 70_000), (4, u32::MAX)] {
            let mut many = whole.clone();
            many[at..at + 4].copy_from_slice(&count.to_be_bytes());
            assert!(error(many).contains("invalid header: it has"));
        }
    }

    #[test]
    fn text_is_made_utf8() {
        let latin = [(1000, 6, 1, &b"a\xe4\0"[..]), NVR[1], NVR[2]];
        assert_eq!(read(header(&latin)).unwrap().name, "a\u{fffd}");
    }

    #[test]
    fn a_long_description_is_cut_between_characters() {
        let long = "\u{fc}".repeat(MAX_DESCRIPTION_BYTES) + "\0";
        let odd = format!("x{long}");
        for text in [long, odd] {
            let bytes = header(&[
                (1000, 6, 1, b"bash\0"),
                (1001, 6, 1, b"5\0"),
                (1002, 6, 1, b"1\0"),
                (1005, 9, 1, text.as_bytes()),
            ]);
            let package = read_package(&mut InMemory(bytes)).unwrap();
            let description = package.description.unwrap();
            assert!(text.starts_with(&description));
            assert!(description.len() > MAX_DESCRIPTION_BYTES - 2);
            assert!(description.len() <= MAX_DESCRIPTION_BYTES);
        }
    }
}
