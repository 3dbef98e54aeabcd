//! Stratis: the static header, in two copies (Stratis Software Design, "Blockdev metadata").

use super::found::container;
use super::view::View;
use crate::stack::content::Content;

/// The offsets of the two copies.
const COPIES: [u64; 2] = [512, 9 * 512];

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    let is_header = |at: &u64| view.has(at + 4, b"!Stra0tis\x86\xff\x02^\x41rh");
    let at = COPIES.into_iter().find(is_header)?;
    // The UUID of the device, stored as text without dashes.
    let uuid = String::from_utf8(view.label::<32>(at + 64)).ok();
    let uuid = uuid.filter(|uuid| uuid.len() == 32);
    let uuid = uuid.map(|uuid| super::uuid::grouped(&uuid, &[8, 4, 4, 4, 12]));
    Some(container("stratis", Vec::new(), uuid))
}
