//! `/etc/crypttab` in the format of crypttab(5).

use crate::fields::fields;
use crate::text::lines;

/// An encrypted volume that the guest opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name of the opened volume below `/dev/mapper`.
    pub name: String,
    /// The device in the notation of the file: `UUID=...`, `/dev/vda2`.
    pub device: String,
}

/// Returns the entries of a text, in their order. Lines with fewer than two fields are skipped.
pub fn entries(text: &str) -> impl Iterator<Item = Entry> {
    lines(text).filter_map(|line| {
        let mut fields = fields(line.body);
        Some(Entry {
            name: fields.next()?,
            device: fields.next()?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_devices() {
        let text = "# x\nroot UUID=12 none luks\r\n\nswap /dev/sda2\nlost\n";
        let pairs: Vec<_> = entries(text)
            .map(|entry| (entry.name, entry.device))
            .collect();
        let expected = [("root", "UUID=12"), ("swap", "/dev/sda2")];
        assert_eq!(pairs, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    }
}
