//! Package URLs (<https://github.com/package-url/purl-spec>).

use std::fmt::Write;

use crate::packages::Package;

/// Returns the URL of a package of a format, on a system with a name and version; `None` for
/// formats without package URLs.
pub(super) fn of(
    package: &Package,
    format: &str,
    (system, version): (&str, &str),
) -> Option<String> {
    let kind = match format {
        "deb" | "apk" | "rpm" => format,
        "ipk" => "opkg",
        "pacman" => "alpm",
        _ => return None,
    };
    // An epoch of rpm is a qualifier; in other formats it is a part of the version.
    let (epoch, plain) = match package.version.split_once(':') {
        Some((epoch, plain)) if format == "rpm" => (Some(epoch), plain),
        _ => (None, package.version.as_str()),
    };
    let distro = match version {
        "" => system.to_owned(),
        version => format!("{system}-{version}"),
    };
    // Qualifiers are sorted by name.
    let qualifiers = [
        ("arch", Some(package.architecture.as_str())),
        ("distro", Some(&distro)),
        ("epoch", epoch),
    ];
    let qualifiers = qualifiers
        .iter()
        .filter_map(|(name, value)| Some((name, value.filter(|it| !it.is_empty())?)))
        .map(|(name, value)| format!("{name}={}", encoded(value)));
    let qualifiers = qualifiers.collect::<Vec<_>>().join("&");
    let namespace = encoded(&system.to_ascii_lowercase());
    let name = match format {
        "deb" | "apk" | "pacman" => encoded(&package.name.to_ascii_lowercase()),
        _ => encoded(&package.name),
    };
    Some(format!(
        "pkg:{kind}/{namespace}/{name}@{}?{qualifiers}",
        encoded(plain)
    ))
}

/// Percent-encodes a text: all characters but letters, digits, `.`, `-`, `_`, `~` and the colon.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b'~' | b':' => {
                encoded.push(byte.into());
            }
            byte => {
                let _ = write!(encoded, "%{byte:02X}"); // Writing to a String does not fail.
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_has_its_own() {
        let package = |name: &str, version: &str| Package {
            name: name.to_owned(),
            version: version.to_owned(),
            architecture: "amd64".to_owned(),
            ..Package::default()
        };
        let system = ("debian", "12.8");
        for (format, name, version, expected) in [
            (
                "deb",
                "g++",
                "4:12.2.0-3",
                Some("pkg:deb/debian/g%2B%2B@4:12.2.0-3?arch=amd64&distro=debian-12.8"),
            ),
            (
                "rpm",
                "bind",
                "32:9.16-1.el9",
                Some("pkg:rpm/debian/bind@9.16-1.el9?arch=amd64&distro=debian-12.8&epoch=32"),
            ),
            (
                "pacman",
                "a",
                "1~b+c-1",
                Some("pkg:alpm/debian/a@1~b%2Bc-1?arch=amd64&distro=debian-12.8"),
            ),
            ("windows", "a", "1", None),
        ] {
            let found = of(&package(name, version), format, system);
            assert_eq!(found.as_deref(), expected);
        }
    }
}
