//! What is known of a package.

/// An installed package, as its header has it. Text that is no UTF-8 has U+FFFD in its place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Package {
    /// The name. Keys that rpm trusts are packages, too: they are called `gpg-pubkey`.
    pub name: String,
    /// The epoch; 0 and none mean the same to rpm.
    pub epoch: Option<u32>,
    /// The version, as upstream has it.
    pub version: String,
    /// The release.
    pub release: String,
    /// The architecture; keys have none.
    pub arch: Option<String>,
    /// Who made it.
    pub vendor: Option<String>,
    /// The licence, in the words of the package.
    pub license: Option<String>,
    /// The file name of the source package.
    pub source_rpm: Option<String>,
    /// When it was installed, in seconds since 1970.
    pub install_time_seconds: Option<u64>,
    /// The sum of its files' sizes.
    pub size_bytes: Option<u64>,
    /// What it is, in a line, without translation.
    pub summary: Option<String>,
    /// What it is, in some paragraphs, without translation.
    pub description: Option<String>,
    /// Where there is more.
    pub url: Option<String>,
    /// The module that it was built for: `name:stream:version:context`.
    pub modularity_label: Option<String>,
}

impl Package {
    /// Epoch, version and release: `1:2.3-4.fc41`; without the epoch where it is 0.
    pub fn evr(&self) -> String {
        let (version, release) = (&self.version, &self.release);
        match self.epoch {
            Some(epoch) if epoch != 0 => format!("{epoch}:{version}-{release}"),
            _ => format!("{version}-{release}"),
        }
    }
}
