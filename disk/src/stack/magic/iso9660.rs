//! ISO 9660 (ECMA-119, 8.4 and 8.5): descriptors in sectors of 2048 bytes, from the sixteenth on.
//! The date of the last modification, or else of the creation, takes the place of a UUID.

use diskfs_block::{BlockRead, Result};

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

const SECTOR: u64 = 2048;
const PRIMARY: u64 = 16 * SECTOR;
/// The limit on descriptors; discs have a few, and bootable discs one more.
const MAX_DESCRIPTORS: u64 = 16;

/// Returns true if the device has an ISO 9660 filesystem, whatever else it has.
pub(in crate::stack) fn is_on(device: &dyn BlockRead) -> Result<bool> {
    let mut magic = [0; 6];
    if device.size_bytes() < PRIMARY + SECTOR {
        return Ok(false);
    }
    device.read_at(PRIMARY, &mut magic)?;
    Ok(magic == *b"\x01CD001")
}

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    view.has(PRIMARY, b"\x01CD001").then(|| {
        let uuid = [830, 813]
            .into_iter()
            .find_map(|at| date_as_uuid(view.array(PRIMARY + at)));
        filesystem("iso9660", label(view), uuid)
    })
}

/// Returns the label. Joliet's label has lower-case letters and spaces but half the length, so the
/// rest comes from the primary label if both start alike.
fn label(view: &View<'_>) -> Vec<u8> {
    let primary: [u8; 32] = view.array(PRIMARY + 40);
    let trimmed = view.label::<32>(PRIMARY + 40);
    let Some(descriptor) = joliet(view) else {
        return trimmed;
    };
    let units: [u8; 32] = view.array(descriptor + 40);
    let units = units
        .chunks_exact(2)
        .map(|unit| u16::from_be_bytes([unit[0], unit[1]]));
    let units: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
    let mut text = String::from_utf16_lossy(&units);
    let alike = |(unit, byte): (&u16, &u8)| {
        let unit = u8::try_from(*unit).unwrap_or(0);
        *byte == b'_' || byte.eq_ignore_ascii_case(&unit)
    };
    if units.len() == 16 && units.iter().zip(&primary).all(alike) {
        text.push_str(&String::from_utf8_lossy(&primary[16..]));
    }
    let joliet = text.trim_end_matches(['\0', ' ']);
    match joliet {
        "" => trimmed,
        _ => joliet.as_bytes().to_vec(),
    }
}

/// Returns the supplementary descriptor that has an escape sequence of Joliet.
fn joliet(view: &View<'_>) -> Option<u64> {
    let descriptors = (1..MAX_DESCRIPTORS).map(|n| PRIMARY + n * SECTOR);
    descriptors
        .take_while(|at| view.has(at + 1, b"CD001") && view.u8(*at) != 255)
        .filter(|at| view.u8(*at) == 2)
        .find(|at| {
            [b"%/@", b"%/C", b"%/E"]
                .iter()
                .any(|escape| view.has(at + 88, *escape))
        })
}

/// Returns the digits of a date in groups; `None` if the date is not set.
fn date_as_uuid(date: [u8; 16]) -> Option<String> {
    let is_given = date.iter().all(u8::is_ascii_digit) && date != [b'0'; 16];
    let digits = std::str::from_utf8(&date).ok().filter(|_| is_given)?;
    Some(super::uuid::grouped(digits, &[4, 2, 2, 2, 2, 2, 2]))
}
