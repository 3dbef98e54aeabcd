//! Parsers for the texts of mke2fs's options `-E`, `-J`, `-T`, `-m` and `-O`.

use super::options::{BlockCount, ExtendedOptions, FormatOptions, JournalOptions, UsageType};
use crate::error::{Error, ErrorKind, Result};

impl FormatOptions {
    /// Adds the features in a list like `^resize_inode,meta_bg` (`-O`); see
    /// [`FeatureChanges::parse`](super::FeatureChanges::parse).
    ///
    /// # Errors
    /// `Invalid` for an unknown name, `Unsupported` for a feature that cannot be created.
    pub fn parse_features(&mut self, text: &str) -> Result<()> {
        self.features.parse(text)
    }

    /// Sets the extended options in a list like `stride=4,lazy_itable_init=0` (`-E`).
    ///
    /// # Errors
    /// `Invalid` for an unknown option or an invalid value, `Unsupported` for an option of mke2fs
    /// that is not supported here.
    pub fn parse_extended(&mut self, text: &str) -> Result<()> {
        for (name, value) in options(text) {
            match name {
                "hash_seed" => self.hash_seed = uuid(name, value)?,
                "encoding" => {
                    if !["utf8", "utf8-12.1"].contains(&given(name, value)?) {
                        return Err(invalid(name, value));
                    }
                    self.features.parse("casefold")?;
                }
                _ => extended(&mut self.extended, name, value)?,
            }
        }
        Ok(())
    }

    /// Sets the options of the journal in a list like `size=64,location=1g` (`-J`).
    ///
    /// # Errors
    /// `Invalid` for an unknown option or an invalid value, `Unsupported` for an external journal.
    pub fn parse_journal(&mut self, text: &str) -> Result<()> {
        options(text).try_for_each(|(name, value)| journal(&mut self.journal, name, value))
    }

    /// Sets the usage types in a list like `news` (`-T`).
    ///
    /// # Errors
    /// `Invalid` for an unknown usage type.
    pub fn parse_usage(&mut self, text: &str) -> Result<()> {
        self.usage.clear();
        for word in text.split(',').filter(|word| !word.is_empty()) {
            self.usage.push(usage(word)?);
        }
        Ok(())
    }

    /// Sets root's reserve from a percentage like `5` or `0.5` (`-m`).
    ///
    /// # Errors
    /// `Invalid` for anything but a number from 0 to 50.
    pub fn parse_reserved(&mut self, text: &str) -> Result<()> {
        const DIGITS: usize = 4;
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = fraction.get(..fraction.len().min(DIGITS)).unwrap_or("");
        let decimal = |text: &str| {
            let only_digits = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u32>().ok().filter(|_| only_digits)
        };
        let all_digits = !whole.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
        let ppm = decimal(&format!("{whole}{digits:0<DIGITS$}"));
        match ppm {
            Some(ppm) if ppm <= RESERVED_PPM_MAX && all_digits => {
                self.reserved_ppm = ppm;
                Ok(())
            }
            _ => Err(Error::new(
                ErrorKind::Invalid,
                format!("invalid reserve `{text}`: expected a percentage from 0 to 50"),
            )),
        }
    }
}

/// The maximum of root's reserve: half of the filesystem.
pub(super) const RESERVED_PPM_MAX: u32 = 500_000;

fn extended(options: &mut ExtendedOptions, name: &str, value: Option<&str>) -> Result<()> {
    match name {
        "stride" => options.stride_blocks = number(name, value)?,
        "stripe_width" | "stripe-width" => options.stripe_width_blocks = number(name, value)?,
        "resize" => options.resize = Some(block_count(name, value)?),
        "desc_size" | "desc-size" => options.descriptor_bytes = Some(number(name, value)?),
        "num_backup_sb" => options.backup_superblocks = number(name, value)?,
        "packed_meta_blocks" => options.packed_meta_blocks = flag(name, value)?,
        "lazy_itable_init" => options.lazy_inode_tables = flag(name, value)?,
        "lazy_journal_init" => options.lazy_journal = flag(name, value)?,
        "assume_storage_prezeroed" => options.assume_zeroed = flag(name, value)?,
        "discard" => options.discard = true,
        "nodiscard" => options.discard = false,
        "test_fs" => options.test_filesystem = true,
        "orphan_file_size" => options.orphan_file = Some(block_count(name, value)?),
        "root_owner" => {
            let (user, group) = given(name, value)?
                .split_once(':')
                .ok_or_else(|| invalid(name, value))?;
            options.root_owner = (number(name, Some(user))?, number(name, Some(group))?);
        }
        "root_perms" => {
            let octal = u16::from_str_radix(given(name, value)?, 8).ok();
            let permissions = octal.filter(|&bits| bits <= 0o7777);
            options.root_permissions = Some(permissions.ok_or_else(|| invalid(name, value))?);
        }
        "encoding_flags" => {
            options.strict_encoding = match given(name, value)? {
                "strict" => true,
                "" => false,
                _ => return Err(invalid(name, value)),
            };
        }
        "revision" if value == Some("1") => {}
        "revision"
        | "offset"
        | "mmp_update_interval"
        | "quotatype"
        | "root_selinux"
        | "android_sparse"
        | "no_copy_xattrs" => {
            let reason = format!("unsupported extended option `{name}`");
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        _ => return Err(unknown("extended option", name)),
    }
    Ok(())
}

fn journal(options: &mut JournalOptions, name: &str, value: Option<&str>) -> Result<()> {
    match name {
        "size" => options.size_mib = Some(number(name, value)?),
        "fast_commit_size" => options.fast_commit_kib = Some(number(name, value)?),
        "location" => options.location = Some(block_count(name, value)?),
        "device" | "v1_superblock" => {
            let reason = format!("unsupported journal option `{name}`");
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        _ => return Err(unknown("journal option", name)),
    }
    Ok(())
}

fn usage(word: &str) -> Result<UsageType> {
    Ok(match word {
        "floppy" => UsageType::Floppy,
        "small" => UsageType::Small,
        "default" => UsageType::Default,
        "big" => UsageType::Big,
        "huge" => UsageType::Huge,
        "news" => UsageType::News,
        "largefile" => UsageType::LargeFile,
        "largefile4" => UsageType::LargeFile4,
        _ => return Err(unknown("usage type", word)),
    })
}

/// Splits a list into names and values.
fn options(text: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let words = text.split(',').filter(|word| !word.is_empty());
    words.map(|word| match word.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (word, None),
    })
}

fn given<'a>(name: &str, value: Option<&'a str>) -> Result<&'a str> {
    value.ok_or_else(|| {
        let reason = format!("missing value of the option `{name}`");
        Error::new(ErrorKind::Invalid, reason).with_hint(format!("write `{name}=VALUE`"))
    })
}

fn number<T: std::str::FromStr>(name: &str, value: Option<&str>) -> Result<T> {
    let text = given(name, value)?;
    text.parse().map_err(|_| invalid(name, value))
}

/// Parses the value of an option that is either set or not; without a value it is set.
fn flag(name: &str, value: Option<&str>) -> Result<bool> {
    match value {
        None | Some("1") => Ok(true),
        Some("0") => Ok(false),
        Some(_) => Err(invalid(name, value)),
    }
}

/// Parses a number of blocks, or with a suffix (`s` for sectors, `k`, `m`, `g`, `t`) of bytes.
fn block_count(name: &str, value: Option<&str>) -> Result<BlockCount> {
    let text = given(name, value)?;
    let lower = text.to_ascii_lowercase();
    let unit_bits = match lower.bytes().last() {
        Some(b's') => Some(9),
        Some(b'k') => Some(10),
        Some(b'm') => Some(20),
        Some(b'g') => Some(30),
        Some(b't') => Some(40),
        _ => None,
    };
    let digits = lower.trim_end_matches(['s', 'k', 'm', 'g', 't']);
    let count: u64 = digits.parse().map_err(|_| invalid(name, value))?;
    let is_valid = digits
        .len()
        .saturating_add(usize::from(unit_bits.is_some()))
        == text.len();
    let count = match unit_bits {
        None => Some(BlockCount::Blocks(count)),
        Some(bits) => count
            .checked_mul(1u64.wrapping_shl(bits))
            .map(BlockCount::Bytes),
    };
    count
        .filter(|_| is_valid)
        .ok_or_else(|| invalid(name, value))
}

fn uuid(name: &str, value: Option<&str>) -> Result<[u8; 16]> {
    let text = given(name, value)?;
    let parsed = uuid::Uuid::try_parse(text);
    parsed
        .map(uuid::Uuid::into_bytes)
        .map_err(|_| invalid(name, value))
}

fn invalid(name: &str, value: Option<&str>) -> Error {
    let value = value.unwrap_or_default();
    Error::new(
        ErrorKind::Invalid,
        format!("invalid value `{value}` of the option `{name}`"),
    )
}

fn unknown(what: &str, name: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("unknown {what} `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_mke2fs_are_understood() {
        let mut options = FormatOptions::default();
        options
            .parse_extended("stride=4,stripe-width=16,lazy_itable_init=0,nodiscard,resize=4g,root_owner=5:6,root_perms=0700")
            .unwrap();
        let extended = &options.extended;
        assert_eq!(
            (extended.stride_blocks, extended.stripe_width_blocks),
            (4, 16)
        );
        assert!(!extended.lazy_inode_tables && !extended.discard);
        assert_eq!(extended.resize, Some(BlockCount::Bytes(4 << 30)));
        assert_eq!(
            (extended.root_owner, extended.root_permissions),
            ((5, 6), Some(0o700))
        );
        options
            .parse_extended("hash_seed=01020304-0506-0708-090a-0b0c0d0e0f10")
            .unwrap();
        assert_eq!(options.hash_seed[15], 16);
        options.parse_journal("size=8,location=100").unwrap();
        assert_eq!(options.journal.size_mib, Some(8));
        assert_eq!(options.journal.location, Some(BlockCount::Blocks(100)));
        options.parse_usage("news,largefile4").unwrap();
        assert_eq!(options.usage, [UsageType::News, UsageType::LargeFile4]);
    }

    #[test]
    fn invalid_texts_are_named() {
        let mut options = FormatOptions::default();
        for (text, says) in [
            ("bogus=1", "unknown extended option `bogus`"),
            ("stride", "missing value of the option `stride`"),
            ("stride=x", "invalid value `x`"),
            ("resize=4gg", "invalid value `4gg`"),
            ("resize=99999999999t", "invalid value"),
            ("quotatype=usr", "unsupported extended option"),
        ] {
            let e = options.parse_extended(text).unwrap_err();
            assert!(e.to_string().contains(says), "{e}");
        }
        assert!(options.parse_journal("device=/dev/x").is_err());
        assert!(options.parse_usage("hurd").is_err());
    }

    #[test]
    fn reserves_are_percentages() {
        let mut options = FormatOptions::default();
        for (text, ppm) in [
            ("0", 0),
            ("5", 50_000),
            ("0.5", 5000),
            ("12.34567", 123_456),
            ("50", 500_000),
        ] {
            options.parse_reserved(text).unwrap();
            assert_eq!(options.reserved_ppm, ppm, "{text}");
        }
        for text in ["50.1", "-1", "x", "", "1.x", "1.2.3", "+1"] {
            assert!(options.parse_reserved(text).is_err(), "{text}");
        }
    }
}
