//! Decoding of directory entries into names.

use diskfs_clusters::{Directory, Name, RawEntry};

use crate::bytes::low32;
use crate::code_page::CodePage;
use crate::directory_entry::{DELETED, LONG_NAME, LONG_NAME_MASK, ShortEntry};
use crate::long_name::{Assembly, fold_shown};
use crate::short_name;

pub(crate) const DOT: &[u8; 11] = b".          ";
pub(crate) const DOT_DOT: &[u8; 11] = b"..         ";

/// Decodes one entry, and adds the name to the directory when it is complete. Returns false at the
/// end of the directory.
pub(crate) fn decode(
    directory: &mut Directory,
    slot: u32,
    raw: &RawEntry,
    assembly: &mut Assembly,
    code_page: CodePage,
) -> bool {
    let entry = ShortEntry::from_bytes(*raw);
    if entry.is_end() {
        return false;
    }
    let [first, ..] = entry.name;
    directory.set_used(slot, first != DELETED);
    if first == DELETED {
        *assembly = Assembly::default();
        return true;
    }
    if entry.attributes & LONG_NAME_MASK == LONG_NAME {
        assembly.take(raw);
        return true;
    }
    let parts = low32(assembly.len());
    let long = assembly.finish(short_name::checksum(&entry.name));
    if entry.is_label() || entry.name == *DOT || entry.name == *DOT_DOT {
        return true;
    }
    let first_slot = match long {
        Some(_) => slot.saturating_sub(parts),
        None => slot,
    };
    let shown = long.unwrap_or_else(|| short_name::display(&entry.name, entry.case, code_page));
    let key = fold_shown(&shown);
    let alias = short_name::key(&entry.name, code_page);
    let name = Name {
        displayed: shown,
        alias: (alias != key).then_some(alias),
        key,
        slots: first_slot..slot.saturating_add(1),
        is_directory: entry.is_directory(),
        place: directory.place(slot),
    };
    directory.put(slot, name);
    true
}
