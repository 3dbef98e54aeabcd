//! Features to set and to clear, as the option `-O` names them.

use crate::error::{Error, ErrorKind, Result};
use crate::features::{Compatible, Features, Incompatible, ReadOnlyCompatible};

/// The features that a new filesystem can have.
pub(super) const SUPPORTED: Features = Features {
    compatible: Compatible::HAS_JOURNAL
        .union(Compatible::RESIZE_INODE)
        .union(Compatible::DIR_INDEX)
        .union(Compatible::EXT_ATTR)
        .union(Compatible::SPARSE_SUPER2)
        .union(Compatible::FAST_COMMIT)
        .union(Compatible::STABLE_INODES)
        .union(Compatible::ORPHAN_FILE),
    incompatible: Incompatible::FILETYPE
        .union(Incompatible::EXTENTS)
        .union(Incompatible::META_BG)
        .union(Incompatible::FLEX_BG)
        .union(Incompatible::EA_INODE)
        .union(Incompatible::SIXTY_FOUR_BIT)
        .union(Incompatible::INLINE_DATA)
        .union(Incompatible::ENCRYPT)
        .union(Incompatible::CASEFOLD)
        .union(Incompatible::CSUM_SEED)
        .union(Incompatible::LARGE_DIR),
    read_only_compatible: ReadOnlyCompatible::LARGE_FILE
        .union(ReadOnlyCompatible::HUGE_FILE)
        .union(ReadOnlyCompatible::DIR_NLINK)
        .union(ReadOnlyCompatible::EXTRA_ISIZE)
        .union(ReadOnlyCompatible::SPARSE_SUPER)
        .union(ReadOnlyCompatible::GDT_CSUM)
        .union(ReadOnlyCompatible::BIGALLOC)
        .union(ReadOnlyCompatible::METADATA_CSUM)
        .union(ReadOnlyCompatible::PROJECT)
        .union(ReadOnlyCompatible::VERITY),
};

/// Changes of the default features of a new filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeatureChanges {
    set: Features,
    cleared: Features,
}

impl Default for FeatureChanges {
    fn default() -> Self {
        Self {
            set: Features::EMPTY,
            cleared: Features::EMPTY,
        }
    }
}

impl FeatureChanges {
    /// Adds the changes in a list like `^resize_inode,meta_bg`, with the names of mke2fs: a `^`
    /// clears a feature, and `none` clears all.
    ///
    /// # Errors
    /// `Invalid` for an unknown name; `Unsupported` for a feature that exists, but that a new
    /// filesystem cannot have.
    pub fn parse(&mut self, text: &str) -> Result<()> {
        let words = text.split([',', ' ']);
        for word in words.map(str::trim).filter(|word| !word.is_empty()) {
            if word == "none" {
                self.cleared = Features::ALL;
                self.set = Features::EMPTY;
            } else if let Some(name) = word.strip_prefix(['^', '-']) {
                let feature = named(name)?;
                self.set = self.set.difference(feature);
                self.cleared = self.cleared.union(feature);
            } else {
                let feature = supported(word)?;
                self.cleared = self.cleared.difference(feature);
                self.set = self.set.union(feature);
            }
        }
        Ok(())
    }

    /// Returns `defaults` with the changes.
    pub(super) fn apply(&self, defaults: Features) -> Features {
        defaults.difference(self.cleared).union(self.set)
    }

    /// Returns true if these features were asked for by name.
    pub(super) fn asks_for(&self, features: Features) -> bool {
        self.set.union(features) == self.set
    }
}

fn named(name: &str) -> Result<Features> {
    // The names that mke2fs also accepts.
    let name = match name {
        "extents" => "extent",
        "uninit_groups" => "uninit_bg",
        "fname_encoding" => "casefold",
        name => name,
    };
    Features::named(name).ok_or_else(|| {
        let reason = format!("unknown feature `{name}`");
        Error::new(ErrorKind::Invalid, reason).with_hint("use a name that `dumpe2fs -h` prints")
    })
}

fn supported(name: &str) -> Result<Features> {
    let feature = named(name)?;
    if SUPPORTED.union(feature) == SUPPORTED {
        return Ok(feature);
    }
    let reason = format!("cannot create a filesystem with the feature `{name}`");
    let hint = match name {
        "quota" => "create it without, and add it with `tune2fs -O quota`",
        "mmp" => "create it without, and add it with `tune2fs -O mmp`",
        _ => "leave the feature out",
    };
    Err(Error::new(ErrorKind::Unsupported, reason).with_hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<FeatureChanges> {
        let mut changes = FeatureChanges::default();
        changes.parse(text).map(|()| changes)
    }

    #[test]
    fn later_words_override_earlier_ones() {
        let defaults = Features {
            compatible: Compatible::HAS_JOURNAL,
            ..Features::EMPTY
        };
        let names = |text: &str| parsed(text).unwrap().apply(defaults).names().join(" ");
        assert_eq!(names(""), "has_journal");
        assert_eq!(names("^has_journal,extents"), "extent");
        assert_eq!(names("none,extent,^extent"), "");
        assert_eq!(names("none, has_journal"), "has_journal");
    }

    #[test]
    fn refused_words_are_named() {
        for (text, kind, says) in [
            (
                "extent,bogus",
                ErrorKind::Invalid,
                "unknown feature `bogus`",
            ),
            ("quota", ErrorKind::Unsupported, "`quota`"),
            ("journal_dev", ErrorKind::Unsupported, "`journal_dev`"),
            ("orphan_present", ErrorKind::Unsupported, "orphan_present"),
        ] {
            let e = parsed(text).unwrap_err();
            assert_eq!(e.kind(), kind);
            assert!(e.to_string().contains(says), "{e}");
        }
        assert!(parsed("^quota").is_ok());
    }
}
