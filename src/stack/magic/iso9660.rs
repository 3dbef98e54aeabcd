//! ISO 9660 (ECMA-119, 8.4): the primary volume descriptor in sector 16 of 2048 bytes. The date of the
//! last modification stands in for a UUID, or that of the creation.

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

const DESCRIPTOR: u64 = 16 * 2048;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    view.has(DESCRIPTOR, b"\x01CD001").then(|| {
        let uuid = [830, 813]
            .into_iter()
            .find_map(|at| date_as_uuid(view.array(DESCRIPTOR + at)));
        filesystem("iso9660", view.label::<32>(DESCRIPTOR + 40), uuid)
    })
}

/// Digits of a date, grouped; `None` for a date that is not given.
fn date_as_uuid(date: [u8; 16]) -> Option<String> {
    let is_given = date.iter().all(u8::is_ascii_digit) && date != [b'0'; 16];
    let digits = std::str::from_utf8(&date).ok().filter(|_| is_given)?;
    Some(super::uuid::grouped(digits, &[4, 2, 2, 2, 2, 2, 2]))
}
