//! Authorities that the guest trusts.

use serde::{Deserialize, Serialize};

use super::super::guest::Guest;
use super::super::text::with_line;
use crate::Result;

/// Where families keep the administrator's certificates (the last part is their suffix), and the bundle that their own
/// programs would make of them.
const PLACES: [(&str, &str, &str); 3] = [
    (
        "/etc/pki/ca-trust/source/anchors",
        "pem",
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    ),
    (
        "/etc/pki/trust/anchors",
        "pem",
        "/var/lib/ca-certificates/ca-bundle.pem",
    ),
    (
        "/usr/local/share/ca-certificates",
        "crt",
        "/etc/ssl/certs/ca-certificates.crt",
    ),
];

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
        for (dir, suffix, bundle) in PLACES {
            let text = guest.stage.text(bundle)?;
            if text.is_none() && !guest.stage.is_dir(dir)? {
                continue;
            }
            let path = format!("{dir}/{}.{suffix}", self.name);
            guest.stage.write_with(&path, &self.text(), 0o644)?;
            if let Some(text) = text {
                guest.stage.write_text(bundle, &self.with_all(text))?;
            }
            return Ok(());
        }
        Err(guest.invalid("the guest has no store of certificates: install ca-certificates in it"))
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

#[cfg(test)]
mod tests {
    use super::super::testing::{after, apply, guest, text};

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
}
