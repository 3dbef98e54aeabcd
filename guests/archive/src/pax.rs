//! Pax headers: keywords and values before a member (POSIX.1-2017, pax, "pax Header Block").

use std::collections::BTreeMap;

use diskfs_disk::Result;
use diskfs_disk::time;
use diskfs_vfs::Timestamp;

use crate::acl_text;
use crate::damage::wrong;
use crate::libarchive;

/// The keywords and values of a pax header, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pax(Vec<(Vec<u8>, Vec<u8>)>);

impl Pax {
    /// Parses records: the length in decimal digits, a space, keyword, `=`, value, a newline.
    pub(crate) fn parse(mut bytes: &[u8]) -> Result<Self> {
        let mut records = Vec::new();
        while !bytes.is_empty() && bytes[0] != 0 {
            let (record, rest) = split_record(bytes).ok_or_else(|| wrong("pax header"))?;
            records.push(record);
            bytes = rest;
        }
        Ok(Self(records))
    }

    /// Returns these records, overridden by `over`.
    pub(crate) fn with(&self, over: Self) -> Self {
        let mut all = self.0.clone();
        all.extend(over.0);
        Self(all)
    }

    /// Returns the last value of a keyword; an empty value counts as missing.
    pub(crate) fn text(&self, keyword: &[u8]) -> Option<Vec<u8>> {
        let mut found = self.0.iter().rev().filter(|(name, _)| name == keyword);
        let value = &found.next()?.1;
        (!value.is_empty()).then(|| value.clone())
    }

    fn parsed<T>(
        &self,
        keyword: &[u8],
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.text(keyword) else {
            return Ok(None);
        };
        let parsed = std::str::from_utf8(&value).ok().and_then(parse);
        parsed.map(Some).ok_or_else(|| wrong("pax header"))
    }

    pub(crate) fn number(&self, keyword: &[u8]) -> Result<Option<u64>> {
        self.parsed(keyword, |text| text.parse().ok())
    }

    pub(crate) fn time(&self, keyword: &[u8]) -> Result<Option<Timestamp>> {
        self.parsed(keyword, time::parse_decimal)
    }

    /// Returns the keywords and values in order.
    pub(crate) fn records(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let records = self.0.iter();
        records.map(|(keyword, value)| (keyword.as_slice(), value.as_slice()))
    }

    /// Returns the extended attributes in the order of their names, and whether there is an ACL
    /// with names that have no number. The last value of each attribute counts. Attributes in the
    /// format of GNU tar and star (`SCHILY.xattr`) override those of libarchive.
    pub(crate) fn xattrs(&self) -> Result<(Vec<Record>, bool)> {
        let mut pairs = BTreeMap::new();
        let mut named_acls = Vec::new();
        for (keyword, value) in self.records() {
            if let Some(name) = keyword.strip_prefix(b"LIBARCHIVE.xattr.") {
                pairs.insert(libarchive::name(name), libarchive::value(value)?);
            } else if keyword == b"RHT.security.selinux" {
                // The kernel stores the context with its terminating zero.
                let context = [value, b"\0"].concat();
                pairs.insert(b"security.selinux".to_vec(), context);
            } else if let Some(name) = acl_text::attribute(keyword) {
                match acl_text::parse(value)? {
                    Some(acl) => drop(pairs.insert(name.to_vec(), acl)),
                    None => named_acls.push(name),
                }
            }
        }
        for (keyword, value) in self.records() {
            if let Some(name) = keyword.strip_prefix(b"SCHILY.xattr.") {
                pairs.insert(name.to_vec(), value.to_vec());
            }
        }
        let has_named_acl = named_acls.iter().any(|name| !pairs.contains_key(*name));
        Ok((pairs.into_iter().collect(), has_named_acl))
    }
}

type Record = (Vec<u8>, Vec<u8>);

fn split_record(bytes: &[u8]) -> Option<(Record, &[u8])> {
    let blank = bytes.iter().position(|byte| *byte == b' ')?;
    let len: usize = std::str::from_utf8(&bytes[..blank]).ok()?.parse().ok()?;
    let record = bytes.get(blank + 1..len)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|byte| *byte == b'=')?;
    let pair = (record[..equals].to_vec(), record[equals + 1..].to_vec());
    Some((pair, &bytes[len..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_may_hold_newlines_and_zeroes() {
        let pax = Pax::parse(b"30 SCHILY.xattr.user.a=x\n=\n\x00\xff\n12 path=a/b\n").unwrap();
        assert_eq!(
            pax.xattrs().unwrap().0,
            [(b"user.a".to_vec(), b"x\n=\n\x00\xff".to_vec())]
        );
        assert_eq!(pax.text(b"path").unwrap(), b"a/b");
        let over = Pax::parse(b"10 path=c\n\0\0").unwrap();
        assert_eq!(pax.with(over).text(b"path").unwrap(), b"c");
        for bad in [
            &b"8 path=c\n"[..],
            b"11 path=c\n",
            b"x path=c\n",
            b"10 pathxc\n",
        ] {
            assert!(Pax::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn attributes_of_all_writers_are_read() {
        let record = |text: &str| {
            let len = text.len() + 2;
            let len = len + (len + 2).to_string().len();
            format!("{len} {text}\n")
        };
        let text = [
            record("LIBARCHIVE.xattr.user.a%3Db=eHl6"),
            record("RHT.security.selinux=system_u:object_r:bin_t:s0"),
            record("SCHILY.acl.access=user::rw-,user:7:r--,group::r--,mask::r--,other::---"),
        ]
        .concat();
        let (xattrs, has_named_acl) = Pax::parse(text.as_bytes()).unwrap().xattrs().unwrap();
        assert!(!has_named_acl);
        let names: Vec<_> = xattrs
            .iter()
            .map(|(name, _)| String::from_utf8_lossy(name))
            .collect();
        assert_eq!(
            names,
            ["security.selinux", "system.posix_acl_access", "user.a=b"]
        );
        assert_eq!(xattrs[0].1, b"system_u:object_r:bin_t:s0\0");
        assert_eq!(xattrs[2].1, b"xyz");
        let named = record("SCHILY.acl.access=user::rw-,user:ann:r--,group::r--,other::---");
        assert!(Pax::parse(named.as_bytes()).unwrap().xattrs().unwrap().1);
        let both = named + &record("SCHILY.xattr.system.posix_acl_access=x");
        assert!(!Pax::parse(both.as_bytes()).unwrap().xattrs().unwrap().1);
    }
}
