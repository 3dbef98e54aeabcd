//! `/etc/crypttab`, as crypttab(5) has it.

use super::fstab::fields;

/// An encrypted volume that the guest opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CryptEntry {
    /// What is inside is `/dev/mapper/` and this.
    pub(super) name: String,
    pub(super) device: String,
}

/// The entries, in their order.
pub(super) fn parse(text: &[u8]) -> Vec<CryptEntry> {
    let lines = text.split(|&byte| byte == b'\n');
    let entries = lines.filter_map(|line| {
        let mut fields = fields(line);
        let mut next = || Some(String::from_utf8_lossy(&fields.next()?).into_owned());
        Some(CryptEntry {
            name: next()?,
            device: next()?,
        })
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_devices() {
        let entries = parse(b"# x\nroot UUID=12 none luks\n\nswap /dev/sda2\nlost\n");
        let pairs: Vec<_> = entries
            .iter()
            .map(|e| (e.name.as_str(), e.device.as_str()))
            .collect();
        assert_eq!(pairs, [("root", "UUID=12"), ("swap", "/dev/sda2")]);
    }
}
