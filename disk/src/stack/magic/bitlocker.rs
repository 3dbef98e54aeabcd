//! `BitLocker`. The boot sector has its name in place of the OEM ID; on removable disks the OEM ID
//! is that of FAT, and a GUID identifies it. The volume's own GUID and description are in the FVE
//! metadata that the boot sector points to (libbde, "`BitLocker` Drive Encryption (BDE) format").

use super::found::container;
use super::view::View;
use crate::stack::content::Content;

const SIGNATURE: &[u8; 8] = b"-FVE-FS-";
const TO_GO: &[u8; 16] = b"\x3b\xd6\x67\x49\x29\x2e\xd8\x4a\x83\x99\xf6\xa3\x39\xe3\xd0\x01";

/// The sizes of the metadata block's header, and of the header of the entries after it.
const BLOCK_HEADER: u64 = 64;
const HEADER: u64 = 48;
/// The limit on entries; real volumes have about a dozen.
const MAX_ENTRIES: usize = 64;
const ENTRY_HEADER: u64 = 8;
const DESCRIPTION: u16 = 7;
const UTF16: u16 = 2;
/// The limit on a description in UTF-16.
const MAX_DESCRIPTION_BYTES: usize = 256;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    let metadata_at = if view.has(0, b"\xeb\x52\x90-FVE-FS-") {
        0 // The metadata of Vista is elsewhere.
    } else if view.has(3, SIGNATURE) {
        view.le64(176)
    } else if view.has(3, b"MSWIN4.1") && view.has(424, TO_GO) {
        view.le64(440)
    } else {
        return None;
    };
    let (label, uuid) = match metadata_at {
        at if at != 0 && at % 64 == 0 && view.has(at, SIGNATURE) => {
            let header = at.saturating_add(BLOCK_HEADER);
            (description(view, header), guid(view, header))
        }
        _ => (Vec::new(), None),
    };
    Some(container("BitLocker", label, uuid))
}

/// Returns the volume's GUID. Its first three numbers are little-endian.
fn guid(view: &View<'_>, header: u64) -> Option<String> {
    let mut bytes: [u8; 16] = view.array(header.saturating_add(16));
    bytes[0..4].reverse();
    bytes[4..6].reverse();
    bytes[6..8].reverse();
    super::uuid::text(bytes)
}

fn description(view: &View<'_>, header: u64) -> Vec<u8> {
    let end = header.saturating_add(u64::from(view.le32(header)));
    let mut at = header.saturating_add(HEADER);
    for _ in 0..MAX_ENTRIES {
        let entry_bytes = u64::from(view.le16(at));
        let next = at.saturating_add(entry_bytes);
        if entry_bytes < ENTRY_HEADER || next > end {
            break;
        }
        let kinds = (view.le16(at + 2), view.le16(at + 4));
        if kinds == (DESCRIPTION, UTF16) {
            let len = usize::try_from(entry_bytes - ENTRY_HEADER).unwrap_or(usize::MAX);
            let len = len.min(MAX_DESCRIPTION_BYTES);
            let text = view.with(at + ENTRY_HEADER, len, utf16);
            return text.unwrap_or_default();
        }
        at = next;
    }
    Vec::new()
}

fn utf16(bytes: &[u8]) -> Vec<u8> {
    let units = bytes
        .as_chunks()
        .0
        .iter()
        .map(|unit| u16::from_le_bytes(*unit));
    let units: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
    String::from_utf16_lossy(&units).into_bytes()
}
