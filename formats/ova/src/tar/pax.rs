//! Extended headers: the records of pax, and the long names of GNU tar.

use diskfs_block::bytes::len_u64;
use diskfs_block::{Error, Result};

use super::header::{Kind, until_nul};

/// The name and the size of the next member, as far as extended headers state them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Extended {
    pub(super) name: Option<Vec<u8>>,
    pub(super) size_bytes: Option<u64>,
}

impl Extended {
    /// Adds what an extended header states. Its contents begin at byte `at` of the archive.
    ///
    /// # Errors
    /// `Corrupt` for an invalid record; `Unsupported` for sparse files.
    pub(super) fn add(&mut self, kind: Kind, contents: &[u8], at: u64) -> Result<()> {
        if kind == Kind::LongName {
            self.name = Some(until_nul(contents).to_vec());
            return Ok(());
        }
        let mut rest = contents;
        while !rest.is_empty() {
            let invalid = || Error::corrupt("invalid record of an extended tar header").at(at);
            let (key, value, after) = record(rest).ok_or_else(invalid)?;
            self.keep(key, value).ok_or_else(invalid)?;
            if key.starts_with(b"GNU.sparse") {
                let reason = "unsupported sparse member of a tar archive";
                return Err(Error::unsupported(reason).at(at));
            }
            rest = after;
        }
        Ok(())
    }

    fn keep(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        match key {
            b"path" => self.name = Some(value.to_vec()),
            b"size" => self.size_bytes = Some(std::str::from_utf8(value).ok()?.parse().ok()?),
            _ => {}
        }
        Some(())
    }
}

/// Splits off the first record, `LENGTH KEY=VALUE\n`: its key and value, and what follows.
fn record(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = bytes.iter().position(|byte| *byte == b' ')?;
    let len: usize = std::str::from_utf8(bytes.get(..space)?)
        .ok()?
        .parse()
        .ok()?;
    let (record, after) = bytes.split_at_checked(len)?;
    let fields = record.get(space.checked_add(1)?..)?.strip_suffix(b"\n")?;
    let equals = fields.iter().position(|byte| *byte == b'=')?;
    let value = fields.get(equals.checked_add(1)?..)?;
    // The length includes itself, so that each record shortens the rest.
    (len_u64(len) > 0).then_some((fields.get(..equals)?, value, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_parsed() {
        let mut extended = Extended::default();
        let text = b"12 path=a/b\n20 size=99999999999\n11 mtime=1\n";
        extended.add(Kind::Extended, text, 0).unwrap();
        assert_eq!(extended.name.as_deref(), Some(&b"a/b"[..]));
        assert_eq!(extended.size_bytes, Some(99_999_999_999));
        for text in [
            &b"x"[..],
            b"0 path=a\n",
            b"99 path=a\n",
            b"9 path a\n",
            b"9 size=x\n",
        ] {
            assert!(Extended::default().add(Kind::Extended, text, 0).is_err());
        }
        let sparse = b"22 GNU.sparse.major=1\n";
        let e = Extended::default()
            .add(Kind::Extended, sparse, 0)
            .unwrap_err();
        assert_eq!(e.kind(), diskfs_block::ErrorKind::Unsupported);
    }
}
