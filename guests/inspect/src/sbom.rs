//! Software bills of materials (SBOM) of a guest's packages, in the formats SPDX and `CycloneDX`.
//!
//! The same report always gives the same document, except for its time: unique identifiers are
//! derived from the contents.

mod cyclonedx;
mod purl;
mod spdx;

use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::packages::Package;
use super::{Packages, Report};
use diskfs_disk::time;
use diskfs_vfs::Timestamp;

/// The format of a bill of materials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SbomFormat {
    /// SPDX 2.3, as JSON (<https://spdx.github.io/spdx-spec/v2.3/>).
    Spdx,
    /// `CycloneDX` 1.6, as JSON (<https://cyclonedx.org/docs/1.6/json/>).
    CycloneDx,
}

/// Returns the bill of materials of a report as JSON. `name` is the name of the guest in it, and
/// `created` is its creation time.
///
/// The bill has no packages if the package database could not be read: see [`Report::problems`].
pub fn sbom(report: &Report, format: SbomFormat, name: &str, created: Timestamp) -> Value {
    let bill = BillOfMaterials {
        report,
        name,
        created: time::rfc3339_seconds(created),
    };
    match format {
        SbomFormat::Spdx => spdx::document(&bill),
        SbomFormat::CycloneDx => cyclonedx::document(&bill),
    }
}

/// The data of a bill of materials in either format.
struct BillOfMaterials<'r> {
    report: &'r Report,
    name: &'r str,
    created: String,
}

impl<'r> BillOfMaterials<'r> {
    fn packages(&self) -> impl Iterator<Item = &'r Package> {
        self.report.packages.installed.iter().flatten()
    }

    /// Returns the system's name and version: `debian`, `12.8`.
    fn system(&self) -> (&'r str, &'r str) {
        let release = &self.report.release;
        let name = release.distribution.as_deref().or(release.kind);
        (
            name.unwrap_or("unknown"),
            release.version.as_deref().unwrap_or_default(),
        )
    }

    fn purl(&self, package: &Package) -> Option<String> {
        let Packages { format, .. } = &self.report.packages;
        purl::of(package, (*format)?, self.system())
    }

    /// Returns a UUID that is derived from the contents, without the time (RFC 9562, version 8).
    fn uuid(&self) -> Uuid {
        let (system, version) = self.system();
        let packages = self
            .packages()
            .flat_map(|it| [&it.name, &it.version, &it.architecture].map(String::as_str));
        let mut hash = Sha256::new();
        for text in [self.name, system, version].into_iter().chain(packages) {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        let digest = hash.finalize();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        uuid::Builder::from_custom_bytes(bytes).into_uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::guest;
    use super::*;
    use crate::Depth;

    #[test]
    fn the_same_guest_has_the_same_bill() {
        let tree = guest(&[
            ("/etc/os-release", "ID=alpine\nVERSION_ID=3.19.1\n"),
            (
                "/lib/apk/db/installed",
                "P:musl\nV:1.2.4-r2\nA:x86_64\n\nP:c++\nV:1\nA:x86_64\n\n",
            ),
        ]);
        let report = Report::of(&tree, Depth::Files);
        for format in [SbomFormat::Spdx, SbomFormat::CycloneDx] {
            let bill = |name| sbom(&report, format, name, Timestamp::default());
            assert_eq!(bill("a"), bill("a"));
            assert_ne!(bill("a"), bill("b"));
            let text = bill("a").to_string();
            assert!(
                text.contains("pkg:apk/alpine/c%2B%2B@1?arch=x86_64&distro=alpine-3.19.1"),
                "{text}"
            );
            assert!(text.contains("1970-01-01T00:00:00Z"), "{text}");
        }
    }
}
