//! Authorities that the guest trusts.

mod name_hash;

use serde::{Deserialize, Serialize};

use super::super::guest::Guest;
use super::super::stage::Kind;
use super::super::text::with_line;
use diskfs_disk::Result;

/// Where a family keeps certificates.
struct Store {
    /// Where the administrator's are.
    dir: &'static str,
    /// How they end.
    suffix: &'static str,
    /// All that are trusted, as the family's own programs make it.
    bundle: &'static str,
    /// Where each has a file of its own, which OpenSSL finds by its hash.
    hashed: &'static [&'static str],
}

const STORES: [Store; 3] = [
    Store {
        dir: "/etc/pki/ca-trust/source/anchors",
        suffix: "pem",
        bundle: "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
        hashed: &["/etc/pki/ca-trust/extracted/pem/directory-hash"],
    },
    Store {
        dir: "/etc/pki/trust/anchors",
        suffix: "pem",
        bundle: "/var/lib/ca-certificates/ca-bundle.pem",
        // The first is OpenSSL's own, the second is what /etc/ssl/certs leads to.
        hashed: &[
            "/var/lib/ca-certificates/openssl",
            "/var/lib/ca-certificates/pem",
        ],
    },
    Store {
        dir: "/usr/local/share/ca-certificates",
        suffix: "crt",
        bundle: "/etc/ssl/certs/ca-certificates.crt",
        hashed: &["/etc/ssl/certs"],
    },
];

/// More certificates than have one hash.
const MAX_SAME: u32 = 100;

/// What a certificate stands between (RFC 7468).
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// A certificate of an authority, in PEM. It is put where the guest's programs look for such, and into the bundle that
/// they have made, so that it counts before they run again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// What it is called, without a suffix.
    pub name: String,
    /// One certificate or several.
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
        Err(guest.invalid("the guest has no store of certificates: install ca-certificates in it"))
    }

    /// Puts each certificate into the directory where OpenSSL looks for it, with a symlink that is called by its hash.
    /// A single one is there by a symlink itself, as `update-ca-certificates` does it.
    fn put_by_hash(&self, guest: &mut Guest, dir: &str, store: &str) -> Result<()> {
        let certificates = self.certificates();
        for (certificate, number) in certificates.iter().zip(1_usize..) {
            let Some(hash) = name_hash::of_pem(certificate) else {
                guest.note(format!(
                    "certificate {number} of {} can't be read: {dir} has no link to it",
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
            return Err(guest.invalid(format!("`{}` is no name of a certificate", self.name)));
        }
        if self.certificates().is_empty() {
            return Err(guest.invalid(format!("`{}` is no certificate in PEM", self.name)));
        }
        Ok(())
    }

    /// Each from its first line to its last.
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

    /// The bundle with those that it hasn't.
    fn with_all(&self, mut bundle: String) -> String {
        for certificate in self.certificates() {
            if !bundle.contains(&certificate) {
                bundle = with_line(bundle, &certificate);
            }
        }
        bundle
    }
}

/// Links the first name of a hash that is free, unless one of them leads to the file.
fn link_by_hash(guest: &mut Guest, dir: &str, file: &str, hash: u32) -> Result<()> {
    for count in 0..MAX_SAME {
        let link = format!("{dir}/{hash:08x}.{count}");
        match guest.stage.link_entry(&link)?.map(|entry| entry.kind) {
            None => return guest.stage.symlink(&link, file),
            Some(Kind::Symlink(target)) if target.rsplit('/').next() == Some(file) => return Ok(()),
            Some(_) => {}
        }
    }
    Err(guest.invalid(format!(
        "{dir} has {MAX_SAME} certificates with the hash {hash:08x}"
    )))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use diskfs_fixtures::require;

    use super::super::testing::{after, apply, guest, text};
    use crate::Kind;

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

    /// A certificate that openssl makes, and its hash.
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
        assert_eq!(link.unwrap().kind, Kind::Symlink("mine.pem".to_owned()));
        assert_eq!(text(&guest, "/etc/ssl/certs/mine.pem"), pem);
    }

    #[test]
    fn what_only_looks_like_one_has_no_hash() {
        let mut guest = guest("-- /etc/ssl/certs/ca-certificates.crt --\nold\n");
        apply(&mut guest, STEP).unwrap();
        assert!(guest.report("certificate").notes[0].contains("can't be read"));
        for pem in ["", "====", "MAA=", "MAMCAQA=", "MIAA"] {
            assert_eq!(super::name_hash::of_pem(pem), None, "{pem}");
        }
    }
}
