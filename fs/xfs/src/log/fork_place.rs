//! The places of the two forks in an inode.

use crate::bytes::index;

/// The offset of the forks in an inode of version 3, and of older ones.
const FORKS_VERSION_3: usize = 176;
const FORKS_VERSION_2: usize = 100;
/// The offset of `di_forkoff`: where the attribute fork starts, in units of eight bytes after the
/// start of the forks; 0 without one.
const FORK_OFFSET: usize = 82;

/// A fork's bytes in an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ForkPlace {
    pub(super) start: usize,
    pub(super) len: usize,
}

impl ForkPlace {
    /// Returns the places of the data fork and of the attribute fork; `None` if they exceed the
    /// inode.
    pub(super) fn both_of(inode: &[u8], is_version_3: bool) -> Option<(Self, Self)> {
        let start = if is_version_3 {
            FORKS_VERSION_3
        } else {
            FORKS_VERSION_2
        };
        let len = inode.len().checked_sub(start)?;
        let offset = index(*inode.get(FORK_OFFSET)?).saturating_mul(8);
        let split = if offset == 0 { len } else { offset };
        let attributes = Self {
            start: start.saturating_add(split),
            len: len.checked_sub(split)?,
        };
        Some((Self { start, len: split }, attributes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_fork_ends_the_data_fork() {
        let place = |start, len| ForkPlace { start, len };
        let mut inode = vec![0; 512];
        let forks = ForkPlace::both_of(&inode, true);
        assert_eq!(forks, Some((place(176, 336), place(512, 0))));
        inode[82] = 24;
        let forks = ForkPlace::both_of(&inode, true);
        assert_eq!(forks, Some((place(176, 192), place(368, 144))));
        let forks = ForkPlace::both_of(&inode, false);
        assert_eq!(forks, Some((place(100, 192), place(292, 220))));
        inode[82] = 43;
        assert_eq!(ForkPlace::both_of(&inode, true), None);
    }
}
