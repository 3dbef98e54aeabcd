//! An open OVA.

use std::sync::Arc;

use diskfs_block::bytes::index;
use diskfs_block::{BlockRead, Error, Result, Slice, read_within};

use crate::envelope::{Disk, Envelope, MAX_ENVELOPE_BYTES};
use crate::manifest::{self, FileDigest};
use crate::tar::{Member, members};

/// The most bytes of a manifest.
const MAX_MANIFEST_BYTES: u64 = 1 << 20;

/// An OVA: a tar archive of an envelope and disks.
#[derive(Debug)]
pub struct Ova {
    archive: Arc<dyn BlockRead>,
    members: Vec<Member>,
    envelope: Envelope,
    manifest: Vec<FileDigest>,
}

impl Ova {
    /// Opens an archive: reads the headers, the envelope and the manifest.
    ///
    /// # Errors
    /// `Corrupt` if the archive or the envelope is invalid or missing; `Unsupported` for members
    /// with holes, and for an envelope that is too large.
    pub fn open(archive: Arc<dyn BlockRead>) -> Result<Self> {
        let members = members(&*archive)?;
        let envelope = first_with(&members, ".ovf")
            .ok_or_else(|| Error::corrupt("invalid OVA: no member ends with .ovf").at(0))?;
        let text = contents(&*archive, envelope, MAX_ENVELOPE_BYTES)?;
        let parsed = Envelope::parse(&text).map_err(|e| e.in_file(&envelope.name))?;
        let manifest = match first_with(&members, ".mf") {
            Some(member) => manifest::parse(&contents(&*archive, member, MAX_MANIFEST_BYTES)?),
            None => Vec::new(),
        };
        Ok(Self {
            archive,
            envelope: parsed,
            manifest,
            members,
        })
    }

    /// Returns the regular files of the archive, in their order.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Returns the envelope.
    pub fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    /// Returns the disks in the envelope's order.
    pub fn disks(&self) -> &[Disk] {
        &self.envelope.disks
    }

    /// Returns the digests of the manifest. They are not checked.
    pub fn manifest(&self) -> &[FileDigest] {
        &self.manifest
    }

    /// Returns the file of a disk; `None` for an empty disk.
    ///
    /// # Errors
    /// `Unsupported` for compressed files and for files in chunks; `NotFound` for a file that is
    /// not in the archive; `Corrupt` for a name that several members have.
    pub fn device(&self, disk: &Disk) -> Result<Option<Slice>> {
        let Some(file) = &disk.file else {
            return Ok(None);
        };
        file.check_encoding()?;
        let member = self.member(&file.href)?;
        Slice::new(Arc::clone(&self.archive), member.start, member.size_bytes).map(Some)
    }

    /// Finds a member by its name, or by its name in a URI.
    fn member(&self, href: &str) -> Result<&Member> {
        let decoded = percent_decoded(href);
        let names = [Some(href), decoded.as_deref()];
        let mut found = names.into_iter().flatten().find_map(|name| {
            let mut all = self.members.iter().filter(move |it| it.name == name);
            all.next().map(|first| (first, all.next().is_some()))
        });
        match found.take() {
            Some((member, false)) => Ok(member),
            Some((member, true)) => {
                let reason = format!("invalid OVA: several members are called `{href}`");
                Err(Error::corrupt(reason).at(member.start))
            }
            None => {
                let reason = format!("the file `{href}` of the OVF is not in the archive");
                Err(Error::new(diskfs_block::ErrorKind::NotFound, reason))
            }
        }
    }
}

fn first_with<'a>(members: &'a [Member], ending: &str) -> Option<&'a Member> {
    members.iter().find(|member| {
        let start = member.name.len().saturating_sub(ending.len());
        let end = member.name.get(start..);
        end.is_some_and(|end| end.eq_ignore_ascii_case(ending))
    })
}

fn contents(archive: &dyn BlockRead, member: &Member, max_bytes: u64) -> Result<Vec<u8>> {
    if member.size_bytes > max_bytes {
        let reason = format!(
            "unsupported OVA: `{}` has more than {max_bytes} bytes",
            member.name
        );
        return Err(Error::unsupported(reason).at(member.start));
    }
    let bytes = read_within(archive, member.start, index(member.size_bytes))?;
    Ok(bytes.unwrap_or_default())
}

/// Decodes `%20` and the like in the place of a file; `None` if that is not UTF-8.
pub fn percent_decoded(href: &str) -> Option<String> {
    let mut decoded = Vec::new();
    let mut rest = href.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|it| std::str::from_utf8(it).ok());
        let digits = digits.filter(|it| it.bytes().all(|it| it.is_ascii_hexdigit()));
        let byte = digits.and_then(|it| u8::from_str_radix(it, 16).ok());
        if let Some(byte) = byte.filter(|_| *first == b'%') {
            decoded.push(byte);
            rest = after.get(2..).unwrap_or_default();
        } else {
            decoded.push(*first);
            rest = after;
        }
    }
    String::from_utf8(decoded).ok()
}
