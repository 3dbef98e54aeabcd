//! File metadata and its changes in their wire formats.

use diskfs_vfs::{
    Device, FileFlags, FileType, InodeNumber, Metadata, SetMetadata, SetTime, Timestamp,
};
use serde::{Deserialize, Serialize};

use super::{Checked, Violation};

const NANOSECONDS_PER_SECOND: u32 = 1_000_000_000;

/// [`Metadata`] in its wire format, not yet checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    inode: u64,
    generation: u32,
    mode: u32,
    links: u32,
    uid: u32,
    gid: u32,
    size_bytes: u64,
    allocated_bytes: u64,
    accessed: WireTime,
    modified: WireTime,
    changed: WireTime,
    created: Option<WireTime>,
    device: Option<(u32, u32)>,
    block_size: u32,
    flags: u8,
}

/// A [`Timestamp`] in its wire format: seconds and nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireTime(i64, u32);

impl From<Timestamp> for WireTime {
    fn from(time: Timestamp) -> Self {
        Self(time.seconds, time.nanoseconds)
    }
}

impl TryFrom<WireTime> for Timestamp {
    type Error = Violation;

    fn try_from(WireTime(seconds, nanoseconds): WireTime) -> Checked<Self> {
        if nanoseconds >= NANOSECONDS_PER_SECOND {
            return Err(Violation("invalid time: nanoseconds out of range"));
        }
        Ok(Self {
            seconds,
            nanoseconds,
        })
    }
}

impl From<&Metadata> for Attributes {
    fn from(metadata: &Metadata) -> Self {
        Self {
            inode: metadata.inode.0,
            generation: metadata.generation,
            mode: metadata.mode(),
            links: metadata.links,
            uid: metadata.uid,
            gid: metadata.gid,
            size_bytes: metadata.size_bytes,
            allocated_bytes: metadata.allocated_bytes,
            accessed: metadata.accessed.into(),
            modified: metadata.modified.into(),
            changed: metadata.changed.into(),
            created: metadata.created.map(Into::into),
            device: metadata.device.map(|device| (device.major, device.minor)),
            block_size: metadata.block_size,
            flags: flag_bits(metadata.flags),
        }
    }
}

impl TryFrom<Attributes> for Metadata {
    type Error = Violation;

    fn try_from(raw: Attributes) -> Checked<Self> {
        /// The maximum file size: elsewhere, offsets in files are signed.
        const MAX_SIZE: u64 = u64::MAX >> 1;
        let file_type = FileType::from_mode(raw.mode).filter(|_| raw.mode <= 0o177_777);
        let file_type = file_type.ok_or(Violation("unknown file type"))?;
        if raw.size_bytes > MAX_SIZE || raw.allocated_bytes > MAX_SIZE {
            return Err(Violation("invalid file size"));
        }
        Ok(Self {
            inode: InodeNumber(raw.inode),
            generation: raw.generation,
            file_type,
            permissions: low_bits(raw.mode),
            links: raw.links,
            uid: raw.uid,
            gid: raw.gid,
            size_bytes: raw.size_bytes,
            allocated_bytes: raw.allocated_bytes,
            accessed: raw.accessed.try_into()?,
            modified: raw.modified.try_into()?,
            changed: raw.changed.try_into()?,
            created: raw.created.map(TryInto::try_into).transpose()?,
            device: raw.device.map(|(major, minor)| Device { major, minor }),
            block_size: raw.block_size,
            flags: flags_of(raw.flags).ok_or(Violation("unknown file flags"))?,
        })
    }
}

fn low_bits(mode: u32) -> u16 {
    u16::try_from(mode & 0o7777).unwrap_or_default()
}

/// Returns the bits of [`FileFlags`], in the order of its fields.
fn flag_bits(flags: FileFlags) -> u8 {
    let bits = [
        flags.immutable,
        flags.append_only,
        flags.encrypted,
        flags.verity,
        flags.casefold,
        flags.no_dump,
    ];
    bits.iter()
        .rev()
        .fold(0, |bits, &bit| (bits << 1) | u8::from(bit))
}

fn flags_of(bits: u8) -> Option<FileFlags> {
    let is_set = |bit: u8| bits & (1 << bit) != 0;
    (bits < 1 << 6).then(|| FileFlags {
        immutable: is_set(0),
        append_only: is_set(1),
        encrypted: is_set(2),
        verity: is_set(3),
        casefold: is_set(4),
        no_dump: is_set(5),
    })
}

/// A [`SetMetadata`] in its wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    permissions: Option<u16>,
    uid: Option<u32>,
    gid: Option<u32>,
    accessed: Option<WireSetTime>,
    modified: Option<WireSetTime>,
    changed: Option<WireSetTime>,
    flags: Option<u8>,
}

/// A [`SetTime`] in its wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum WireSetTime {
    Now,
    At(WireTime),
}

impl From<SetTime> for WireSetTime {
    fn from(time: SetTime) -> Self {
        match time {
            SetTime::Now => Self::Now,
            SetTime::At(time) => Self::At(time.into()),
        }
    }
}

impl TryFrom<WireSetTime> for SetTime {
    type Error = Violation;

    fn try_from(when: WireSetTime) -> Checked<Self> {
        Ok(match when {
            WireSetTime::Now => Self::Now,
            WireSetTime::At(time) => Self::At(time.try_into()?),
        })
    }
}

impl From<&SetMetadata> for Change {
    fn from(change: &SetMetadata) -> Self {
        Self {
            permissions: change.permissions,
            uid: change.uid,
            gid: change.gid,
            accessed: change.accessed.map(Into::into),
            modified: change.modified.map(Into::into),
            changed: change.changed.map(Into::into),
            flags: change.flags.map(flag_bits),
        }
    }
}

impl TryFrom<Change> for SetMetadata {
    type Error = Violation;

    fn try_from(raw: Change) -> Checked<Self> {
        let flags = raw
            .flags
            .map(|bits| flags_of(bits).ok_or(Violation("unknown file flags to set")));
        Ok(Self {
            permissions: raw.permissions.map(|bits| bits & 0o7777),
            uid: raw.uid,
            gid: raw.gid,
            accessed: raw.accessed.map(TryInto::try_into).transpose()?,
            modified: raw.modified.map(TryInto::try_into).transpose()?,
            changed: raw.changed.map(TryInto::try_into).transpose()?,
            flags: flags.transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use diskfs_vfs::FsRead;
    use diskfs_vfs::testing::MemoryFs;

    use super::*;

    fn root() -> Metadata {
        let fs = MemoryFs::new();
        fs.metadata(fs.root()).unwrap()
    }

    #[test]
    fn metadata_comes_as_it_went() {
        let mut metadata = root();
        metadata.flags.immutable = true;
        metadata.flags.no_dump = true;
        metadata.device = Some(Device { major: 8, minor: 1 });
        let back = Metadata::try_from(Attributes::from(&metadata));
        assert_eq!(back, Ok(metadata));
    }

    #[test]
    fn what_can_not_be_is_refused() {
        let good = Attributes::from(&root());
        let spoil: [fn(&mut Attributes); 6] = [
            |raw| raw.mode = 0o170_000,
            |raw| raw.mode |= 1 << 20,
            |raw| raw.size_bytes = 1 << 63,
            |raw| raw.allocated_bytes = u64::MAX,
            |raw| raw.modified.1 = NANOSECONDS_PER_SECOND,
            |raw| raw.flags = 1 << 6,
        ];
        for spoil in spoil {
            let mut bad = good.clone();
            spoil(&mut bad);
            assert!(Metadata::try_from(bad).is_err());
        }
    }
}
