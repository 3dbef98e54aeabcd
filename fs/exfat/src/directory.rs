//! Decoding of directory entries into names.

use diskfs_clusters::{Directory, Name, RawEntry};

use crate::bytes::low32;
use crate::directory_entry::{END, IN_USE};
use crate::entry_set::{Assembly, EntrySet};
use crate::upcase_table::UpcaseTable;

/// Decodes one entry, and adds the name to the directory when its set is complete. Returns false at
/// the end of the directory.
pub(crate) fn decode(
    directory: &mut Directory,
    slot: u32,
    raw: &RawEntry,
    assembly: &mut Assembly,
    upcase: &UpcaseTable,
) -> bool {
    let [kind, ..] = *raw;
    if kind == END {
        return false;
    }
    directory.set_used(slot, kind & IN_USE != 0);
    if let Some(set) = assembly.take(raw)
        && let Some(displayed) = displayed_name(&set)
    {
        let end = slot.saturating_add(1);
        let first = end.saturating_sub(low32(set.len()));
        let name = Name {
            key: upcase.fold(&displayed.encode_utf16().collect::<Vec<_>>()),
            displayed: displayed.into_bytes(),
            alias: None,
            slots: first..end,
            is_directory: set.file.is_directory(),
            place: directory.place(first),
        };
        directory.put(first, name);
    }
    true
}

/// Returns the name of a file as a listing shows it; `None` for a name that could lead out of its
/// directory or that no program could pass to a system call.
fn displayed_name(set: &EntrySet) -> Option<String> {
    let text = String::from_utf16_lossy(&set.name_units());
    let sane = !matches!(text.as_str(), "" | "." | "..") && !text.contains(['/', '\0']);
    sane.then_some(text)
}

#[cfg(test)]
mod tests {
    use diskfs_vfs::Timestamp;

    use super::*;
    use crate::directory_entry::FileEntry;

    #[test]
    fn a_hostile_name_is_not_shown() {
        let empty = EntrySet::new(FileEntry::new(0, Timestamp::default()));
        let displayed = |units: &[u16]| displayed_name(&empty.named(units, 0));
        for name in ["..", ".", "a/b", "", "a\0b"] {
            assert_eq!(displayed(&name.encode_utf16().collect::<Vec<_>>()), None);
        }
        assert_eq!(displayed(&[0xd800, 97]).unwrap(), "\u{fffd}a");
    }
}
