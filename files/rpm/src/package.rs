//! The description of an installed package.

/// An installed package with the fields of its header. Invalid UTF-8 in texts is replaced by
/// U+FFFD.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Package {
    /// The name. Public keys that rpm trusts are packages, too, with the name `gpg-pubkey`.
    pub name: String,
    /// The epoch. For rpm, a missing epoch is the same as 0.
    pub epoch: Option<u32>,
    /// The upstream version.
    pub version: String,
    /// The release of the package.
    pub release: String,
    /// The architecture; `None` for public keys.
    pub arch: Option<String>,
    /// The vendor who built the package.
    pub vendor: Option<String>,
    /// The licence as the package states it.
    pub license: Option<String>,
    /// The file name of the source package.
    pub source_rpm: Option<String>,
    /// The time of installation in seconds since 1970.
    pub install_time_seconds: Option<u64>,
    /// The sum of its files' sizes.
    pub size_bytes: Option<u64>,
    /// The summary in one line, untranslated.
    pub summary: Option<String>,
    /// The description in some paragraphs, untranslated.
    pub description: Option<String>,
    /// The URL of the project.
    pub url: Option<String>,
    /// The module of which the package is a part: `name:stream:version:context`.
    pub modularity_label: Option<String>,
}

impl Package {
    /// Returns epoch, version and release as `1:2.3-4.fc41`; without the epoch if that is 0.
    pub fn evr(&self) -> String {
        let (version, release) = (&self.version, &self.release);
        match self.epoch {
            Some(epoch) if epoch != 0 => format!("{epoch}:{version}-{release}"),
            _ => format!("{version}-{release}"),
        }
    }
}
