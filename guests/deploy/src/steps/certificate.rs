//! The step `certificate`: CA certificates that the guest trusts.

mod name_hash;

use serde::{Deserialize, Serialize};

use super::super::guest::Guest;
use super::super::stage::EntryKind;
use super::super::text::with_line;
use diskfs_disk::Result;

/// The certificate directories of a family of distributions.
struct TrustStore {
    /// The directory for certificates that the administrator adds.
    dir: &'static str,
    /// The suffix of the file names.
    suffix: &'static str,
    /// The bundle of all trusted certificates, which the distribution's own tools generate.
    bundle: &'static str,
    /// The directories with one file per certificate, where OpenSSL finds certificates by their
    /// hash.
    hashed: &'static [&'static str],
}

const STORES: [TrustStore; 3] = [
    TrustStore {
        dir: "/etc/pki/ca-trust/source/anchors",
        suffix: "pem",
        bundle: "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
        hashed: &["/etc/pki/ca-trust/extracted/pem/directory-hash"],
    },
    TrustStore {
        dir: "/etc/pki/trust/anchors",
        suffix: "pem",
        bundle: "/var/lib/ca-certificates/ca-bundle.pem",
        // The first directory is OpenSSL's own; `/etc/ssl/certs` is a symlink to the second one.
        hashed: &[
            "/var/lib/ca-certificates/openssl",
            "/var/lib/ca-certificates/pem",
        ],
    },
    TrustStore {
        dir: "/usr/local/share/ca-certificates",
        suffix: "crt",
        bundle: "/etc/ssl/certs/ca-certificates.crt",
        hashed: &["/etc/ssl/certs"],
    },
];

/// The limit on certificates with the same hash, which is larger than any real number of them.
const MAX_SAME: u32 = 100;

/// The lines that enclose a certificate (RFC 7468).
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// CA certificates in PEM form. They are also added to the bundle that the distribution's tools
/// have generated, so that they are trusted before these tools run again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// The file name in the trust store, without a suffix.
    pub name: String,
    /// The certificates in PEM form, one or more.
    pub pem: String,
}

impl Certificate {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        self.check(guest)?;
        for store in STORES {
            let bundle = guest.stage.text(store.bundle)?;
            if bundle.is_none() && !guest.stage.is_dir(store.dir)? {
                continue;
            }
            let path = format!("{}/{}.{}", store.dir, self.name, store.suffix);
            guest.stage.write_with(&path, &self.text(), 0o644)?;
            if let Some(text) = bundle {
                guest.stage.write_text(store.bundle, &self.with_all(text))?;
            }
            for hashed in store.hashed {
                if guest.stage.is_dir(hashed)? {
                    self.put_by_hash(guest, hashed, &path)?;
                }
            }
            return Ok(());
        }
        Err(guest
            .invalid("ca-certificates is not installed in the guest; install the package first"))
    }

    /// Adds each certificate to a directory where OpenSSL finds certificates by symlinks named
    /// after their hashes. A single certificate gets there as a symlink itself, as with
    /// `update-ca-certificates`.
    fn put_by_hash(&self, guest: &mut Guest, dir: &str, store: &str) -> Result<()> {
        let certificates = self.certificates();
        for (certificate, number) in certificates.iter().zip(1_usize..) {
            let Some(hash) = name_hash::of_pem(certificate) else {
                guest.note(format!(
                    "cannot parse certificate {number} of {}: no hash link to it was created in \
                     {dir}",
                    self.name
                ));
                continue;
            };
            let file = match number {
                1 => format!("{}.pem", self.name),
                _ => format!("{}-{number}.pem", self.name),
            };
            let path = format!("{dir}/{file}");
            if certificates.len() == 1 {
                guest.stage.symlink(&path, store)?;
            } else {
                let text = format!("{certificate}\n");
                guest.stage.write_with(&path, &text, 0o644)?;
            }
            link_by_hash(guest, dir, &file, hash)?;
        }
        Ok(())
    }

    fn check(&self, guest: &Guest) -> Result<()> {
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if self.name.is_empty() || self.name.starts_with('.') || !self.name.bytes().all(is_good) {
            return Err(guest.invalid(format!(
                "invalid certificate name `{}`: expected letters, digits and `-_.`, not \
                 starting with a dot",
                self.name
            )));
        }
        if self.certificates().is_empty() {
            return Err(guest.invalid(format!(
                "missing certificate: `{}` contains no certificate in PEM form",
                self.name
            )));
        }
        Ok(())
    }

    /// Returns each certificate, from its BEGIN line to its END line.
    fn certificates(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut open: Option<Vec<&str>> = None;
        for line in self.pem.lines().map(str::trim) {
            if line == BEGIN {
                open = Some(Vec::new());
            }
            if let Some(lines) = &mut open {
                lines.push(line);
            }
            if line == END {
                found.extend(open.take().map(|lines| lines.join("\n")));
            }
        }
        found
    }

    fn text(&self) -> String {
        self.certificates().join("\n") + "\n"
    }

    /// Returns the bundle with the certificates that it did not contain appended.
    fn with_all(&self, mut bundle: String) -> String {
        for certificate in self.certificates() {
            if !bundle.contains(&certificate) {
                bundle = with_line(bundle, &certificate);
            }
        }
        bundle
    }
}

/// Creates a symlink with the first unused name for a hash, unless one of them already points to
/// the file.
fn link_by_hash(guest: &mut Guest, dir: &str, file: &str, hash: u32) -> Result<()> {
    for count in 0..MAX_SAME {
        let link = format!("{dir}/{hash:08x}.{count}");
        match guest.stage.link_entry(&link)?.map(|entry| entry.kind) {
            None => return guest.stage.symlink(&link, file),
            Some(EntryKind::Symlink(target)) if target.rsplit('/').next() == Some(file) => {
                return Ok(());
            }
            Some(_) => {}
        }
    }
    Err(guest.invalid(format!(
        "too many certificates with the hash {hash:08x} in {dir}: at most {MAX_SAME}"
    )))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use diskfs_fixtures::require;

    use super::super::testing::{after, apply, guest, text};
    use crate::EntryKind;

    const STEP: &str = "- certificate:\n    name: mine\n    pem: |\n      x\n      -----BEGIN CERTIFICATE-----\n      MIIB\n      -----END CERTIFICATE-----";

    #[test]
    fn it_is_in_the_store_and_in_the_bundle() {
        let pem = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
        let debian = after("-- /etc/ssl/certs/ca-certificates.crt --\nold\n", STEP);
        assert_eq!(
            text(&debian, "/usr/local/share/ca-certificates/mine.crt"),
            pem
        );
        assert_eq!(
            text(&debian, "/etc/ssl/certs/ca-certificates.crt"),
            format!("old\n{pem}")
        );
        let tree = "-- /etc/pki/ca-trust/source/anchors/x --\nx\n-- /etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem --\nold\n";
        let fedora = after(tree, STEP);
        assert_eq!(
            text(&fedora, "/etc/pki/ca-trust/source/anchors/mine.pem"),
            pem
        );
        let bundle = "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem";
        assert_eq!(text(&fedora, bundle), format!("old\n{pem}"));
    }

    #[test]
    fn what_is_none_is_refused() {
        let tree = "-- /etc/ssl/certs/ca-certificates.crt --\nold\n";
        for step in [
            "- certificate: {name: x, pem: hello}",
            "- certificate: {name: ../x, pem: hello}",
        ] {
            assert!(apply(&mut guest(tree), step).is_err());
        }
        assert!(apply(&mut guest("-- /etc/x --\n"), STEP).is_err());
    }

    /// Creates a certificate with openssl, and returns it with its hash.
    fn made(subject: &str) -> (String, String) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cert.pem");
        let openssl = |args: &[&str]| {
            let output = Command::new("openssl")
                .args(args)
                .current_dir(dir.path())
                .output();
            let output = output.unwrap();
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        let new = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out cert.pem -utf8 -multivalue-rdn -subj";
        let mut args: Vec<&str> = new.split(' ').collect();
        args.push(subject);
        openssl(&args);
        let hash = openssl(&["x509", "-in", "cert.pem", "-noout", "-hash"]);
        (std::fs::read_to_string(path).unwrap(), hash)
    }

    fn step(name: &str, pem: &str) -> String {
        let pem = pem.replace('\n', "\n      ");
        format!("- certificate:\n    name: {name}\n    pem: |\n      {pem}")
    }

    #[test]
    fn hashes_are_those_of_openssl() {
        if require("openssl").is_none() {
            return;
        }
        for subject in [
            "/C=DE/O=My  Company /CN=Root CA",
            "/CN=J\u{f6}rg  \u{c4}rger",
            "/O=a/CN=b+OU=c/emailAddress=A@B.example",
            "/DC=example/DC=Org/CN=x",
            "/CN=\u{4e2d}\u{6587}",
        ] {
            let (pem, hash) = made(subject);
            let found = super::name_hash::of_pem(&pem).unwrap();
            assert_eq!(format!("{found:08x}"), hash, "{subject}");
        }
    }

    #[test]
    fn openssl_finds_it_by_its_hash() {
        if require("openssl").is_none() {
            return;
        }
        let (pem, hash) = made("/CN=mine");
        let tree = format!(
            "-- /etc/ssl/certs/ca-certificates.crt --\nold\n-- /etc/ssl/certs/{hash}.0 -> other.pem --\n"
        );
        let guest = after(&tree, &step("mine", &pem));
        let link = guest
            .stage
            .link_entry(&format!("/etc/ssl/certs/{hash}.1"))
            .unwrap();
        assert_eq!(
            link.unwrap().kind,
            EntryKind::Symlink("mine.pem".to_owned())
        );
        assert_eq!(text(&guest, "/etc/ssl/certs/mine.pem"), pem);
    }

    #[test]
    fn what_only_looks_like_one_has_no_hash() {
        let mut guest = guest("-- /etc/ssl/certs/ca-certificates.crt --\nold\n");
        apply(&mut guest, STEP).unwrap();
        assert!(guest.report("certificate").notes[0].contains("cannot parse"));
        for pem in ["", "====", "MAA=", "MAMCAQA=", "MIAA"] {
            assert_eq!(super::name_hash::of_pem(pem), None, "{pem}");
        }
    }
}
