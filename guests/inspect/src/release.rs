//! The operating system: os-release(5), or the older release file of its distribution.

use serde::Serialize;

use super::files::Files;
use diskfs_etc::os_release::{OsRelease, PLACES};
use diskfs_etc::shell::{assigned, settings};

/// The identity of an operating system.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Release {
    /// The kind of operating system: `linux`, `freebsd`, `android` or `windows`.
    #[serde(rename = "type")]
    pub kind: Option<&'static str>,
    /// The distribution, as `ID` of os-release(5): `debian`.
    pub distribution: Option<String>,
    /// The distributions that it is derived from, the closest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub like: Vec<String>,
    /// The version: `12`, `8.10`.
    pub version: Option<String>,
    /// The code name of the version: `bookworm`.
    pub code_name: Option<String>,
    /// The name for people: `Debian GNU/Linux 12 (bookworm)`.
    pub product: Option<String>,
    /// The edition: `server`.
    pub variant: Option<String>,
}

/// The release files of one line, and the distribution of each. Some distributions still have them.
/// The order matters: derivatives also have the file of the original.
const RELEASE_FILES: [(&str, &str); 16] = [
    ("/etc/oracle-release", "ol"),
    ("/etc/rocky-release", "rocky"),
    ("/etc/almalinux-release", "almalinux"),
    ("/etc/anolis-release", "anolis"),
    ("/etc/openEuler-release", "openEuler"),
    ("/etc/kylin-release", "kylin"),
    ("/etc/UnionTech-release", "uos"),
    ("/etc/centos-release", "centos"),
    ("/etc/fedora-release", "fedora"),
    ("/etc/system-release", "amzn"),
    ("/etc/redhat-release", "rhel"),
    ("/etc/SuSE-release", "sles"),
    ("/etc/gentoo-release", "gentoo"),
    ("/etc/alpine-release", "alpine"),
    ("/etc/arch-release", "arch"),
    ("/etc/debian_version", "debian"),
];

/// Reads the identity of the operating system.
pub(super) fn of(files: &Files<'_>) -> Release {
    // The os-release file of CirrOS is that of its build system.
    let found = from_cirros(files)
        .or_else(|| from_os_release(files))
        .or_else(|| from_lsb_release(files))
        .or_else(|| from_release_file(files))
        .or_else(|| from_freebsd(files))
        .or_else(|| from_android(files));
    found.unwrap_or_default()
}

fn from_os_release(files: &Files<'_>) -> Option<Release> {
    let (path, release) = PLACES
        .iter()
        .find_map(|path| Some((path, OsRelease::new(files.text(path)?))))?;
    let field = |question, name| field(files, path, release.get(name), question);
    let distribution = field("distribution", "ID")?;
    let kind = match distribution.as_str() {
        "freebsd" => "freebsd",
        _ => "linux",
    };
    let like = release.get("ID_LIKE").map(|(_, like)| like);
    let like = like.iter().flat_map(|like| like.split_whitespace());
    let version = field("version", "VERSION_ID");
    let has_edition = release.get("VARIANT_ID").is_some();
    Some(Release {
        kind: Some(kind),
        like: like.map(str::to_owned).collect(),
        code_name: field("code_name", "VERSION_CODENAME")
            .or_else(|| field("code_name", "UBUNTU_CODENAME"))
            // Fedora has its edition in these parentheses.
            .or_else(|| in_parentheses(&field("code_name", "VERSION").filter(|_| !has_edition)?)),
        product: field("product", "PRETTY_NAME").or_else(|| field("product", "NAME")),
        variant: field("variant", "VARIANT_ID"),
        // Debian's stable releases and CentOS before Stream have a more exact version in another
        // file.
        version: more_exact(files, &distribution, version.as_deref()).or(version),
        distribution: Some(distribution),
    })
}

/// Returns a version that starts with `version` and is longer.
fn more_exact(files: &Files<'_>, distribution: &str, version: Option<&str>) -> Option<String> {
    let version = version?;
    let path = match distribution {
        "debian" => "/etc/debian_version",
        "centos" => "/etc/centos-release",
        "alpine" => "/etc/alpine-release",
        _ => return None,
    };
    let text = files.text(path)?;
    let mut words = text.split_whitespace();
    let minor = |word: &&str| {
        let rest = word.strip_prefix(version);
        rest.is_some_and(|rest| rest.starts_with('.'))
    };
    let found = words.find(minor)?.to_owned();
    files.add_source("version", path, Some(1));
    Some(found)
}

/// Reads the release file of Ubuntu, Mint and others before os-release (`lsb_release(1)`), and of
/// `OpenWrt`, which uses the same names.
fn from_lsb_release(files: &Files<'_>) -> Option<Release> {
    ["/etc/lsb-release", "/etc/openwrt_release"]
        .iter()
        .find_map(|path| {
            let text = files.text(path)?;
            let field = |question, name| field(files, path, assigned(&text, name), question);
            Some(Release {
                kind: Some("linux"),
                distribution: Some(field("distribution", "DISTRIB_ID")?.to_lowercase()),
                version: field("version", "DISTRIB_RELEASE"),
                code_name: field("code_name", "DISTRIB_CODENAME"),
                product: field("product", "DISTRIB_DESCRIPTION"),
                ..Release::default()
            })
        })
}

/// Returns a value that was found in a line of a file, and records the line as its source.
fn field(
    files: &Files<'_>,
    path: &str,
    found: Option<(usize, String)>,
    question: &'static str,
) -> Option<String> {
    let (line, value) = found?;
    files.add_source(question, path, Some(line));
    Some(value)
}

fn from_cirros(files: &Files<'_>) -> Option<Release> {
    let path = ["/etc/cirros/version", "/etc/br-version"];
    let (path, text) = path
        .iter()
        .find_map(|path| Some((path, files.text(path)?)))?;
    files.add_source("distribution", path, Some(1));
    Some(Release {
        kind: Some("linux"),
        distribution: Some("cirros".to_owned()),
        version: text.split_whitespace().next().map(str::to_owned),
        product: Some(format!("CirrOS {}", text.trim())),
        ..Release::default()
    })
}

fn from_release_file(files: &Files<'_>) -> Option<Release> {
    RELEASE_FILES.iter().find_map(|(path, id)| {
        let text = files.text(path)?;
        let line = text.lines().next().unwrap_or_default().trim();
        files.add_source("distribution", path, Some(1));
        files.add_source("version", path, Some(1));
        // A word such as `wheezy/sid` means that the version does not exist yet.
        let mut words = line.split_whitespace();
        let version = words.find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
        let patch_level = assigned_with_blanks(&text, "PATCHLEVEL").filter(|it| it != "0");
        let product = match *id {
            "debian" => format!("Debian GNU/Linux {line}"),
            "alpine" => format!("Alpine Linux {line}"),
            "arch" => "Arch Linux".to_owned(),
            _ => line.to_owned(),
        };
        Some(Release {
            kind: Some("linux"),
            distribution: Some((*id).to_owned()),
            version: version.map(|version| match patch_level {
                Some(patch_level) => format!("{version}.{patch_level}"),
                None => version.to_owned(),
            }),
            // SUSE has the architecture in these parentheses.
            code_name: in_parentheses(line).filter(|_| *id != "sles"),
            product: Some(product),
            ..Release::default()
        })
    })
}

/// Finds `NAME = VALUE`, the format of the further lines of `/etc/SuSE-release`.
fn assigned_with_blanks(text: &str, name: &str) -> Option<String> {
    settings(text).find_map(|(_, line)| {
        let (found, value) = line.split_once(" = ")?;
        (found == name).then(|| value.trim().to_owned())
    })
}

/// Reads the version of FreeBSD before os-release, from the script freebsd-version(1).
fn from_freebsd(files: &Files<'_>) -> Option<Release> {
    const PATH: &str = "/bin/freebsd-version";
    let (line, version) = assigned(&files.text(PATH)?, "USERLAND_VERSION")?;
    files.add_source("version", PATH, Some(line));
    let number = version
        .split_once('-')
        .map_or(&*version, |(number, _)| number);
    Some(Release {
        kind: Some("freebsd"),
        distribution: Some("freebsd".to_owned()),
        version: Some(number.to_owned()),
        product: Some(format!("FreeBSD {version}")),
        ..Release::default()
    })
}

/// Reads `build.prop` of Android, whose system partition is the root or is mounted below it.
fn from_android(files: &Files<'_>) -> Option<Release> {
    let places = [
        "/system/build.prop",
        "/build.prop",
        "/system/system/build.prop",
    ];
    let (path, text) = places
        .iter()
        .find_map(|path| Some((path, files.text(path)?)))?;
    let property = |name| {
        settings(&text).find_map(|(line, text)| {
            let (found, value) = text.split_once('=')?;
            (found == name && !value.is_empty()).then(|| (line, value.to_owned()))
        })
    };
    let (line, version) = property("ro.build.version.release")
        .or_else(|| property("ro.system.build.version.release"))?;
    files.add_source("version", path, Some(line));
    let model = ["ro.product.model", "ro.product.system.model"]
        .iter()
        .find_map(|it| property(it));
    let model = model.map(|(_, model)| format!(" on {model}"));
    Some(Release {
        kind: Some("android"),
        distribution: Some("android".to_owned()),
        product: Some(format!("Android {version}{}", model.unwrap_or_default())),
        version: Some(version),
        // The code name `REL` marks a release.
        code_name: property("ro.build.version.codename")
            .map(|(_, name)| name)
            .filter(|name| name != "REL"),
        ..Release::default()
    })
}

/// Returns the text in parentheses: `bookworm` from `12 (bookworm)`.
fn in_parentheses(text: &str) -> Option<String> {
    let (_, rest) = text.rsplit_once('(')?;
    let (name, _) = rest.split_once(')')?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::testing::guest;
    use super::*;

    fn release(tree: &[(&str, &str)]) -> (Option<String>, Option<String>, Option<String>) {
        let filesystem = guest(tree);
        let files = Files::new(&filesystem);
        let found = of(&files);
        assert_eq!(files.finish().1, []);
        (found.distribution, found.version, found.code_name)
    }

    fn expected(
        distribution: &str,
        version: &str,
        code_name: &str,
    ) -> (Option<String>, Option<String>, Option<String>) {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        (some(distribution), some(version), some(code_name))
    }

    #[test]
    fn by_os_release() {
        let debian = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_ID=\"12\"\nVERSION=\"12 (bookworm)\"\nVERSION_CODENAME=bookworm\nID=debian\n";
        let tree = [
            ("/usr/lib/os-release", debian),
            ("/etc/debian_version", "12.8\n"),
        ];
        assert_eq!(release(&tree), expected("debian", "12.8", "bookworm"));
        let rhel = "NAME=\"Red Hat Enterprise Linux\"\nVERSION=\"8.5 (Ootpa)\"\nID=\"rhel\"\nVERSION_ID=\"8.5\"\n";
        let tree = [("/etc/os-release", rhel), ("/etc/redhat-release", "x\n")];
        assert_eq!(release(&tree), expected("rhel", "8.5", "Ootpa"));
        let stream = "ID=\"centos\"\nVERSION_ID=\"9\"\nVERSION=\"9\"\n";
        let tree = [
            ("/etc/os-release", stream),
            ("/etc/centos-release", "CentOS Stream release 9\n"),
        ];
        assert_eq!(release(&tree), expected("centos", "9", ""));
    }

    #[test]
    fn by_what_there_was_before() {
        for (path, line, expected) in [
            (
                "/etc/centos-release",
                "CentOS release 6.10 (Final)\n",
                expected("centos", "6.10", "Final"),
            ),
            (
                "/etc/redhat-release",
                "Red Hat Enterprise Linux Server release 6.9 (Santiago)\n",
                expected("rhel", "6.9", "Santiago"),
            ),
            (
                "/etc/debian_version",
                "6.0.10\n",
                expected("debian", "6.0.10", ""),
            ),
            (
                "/etc/debian_version",
                "wheezy/sid\n",
                expected("debian", "", ""),
            ),
            (
                "/etc/br-version",
                "0.3.4\n",
                expected("cirros", "0.3.4", ""),
            ),
            (
                "/bin/freebsd-version",
                "#!/bin/sh\nUSERLAND_VERSION=\"12.1-RELEASE-p2\"\n",
                expected("freebsd", "12.1", ""),
            ),
            (
                "/etc/openwrt_release",
                "DISTRIB_ID='OpenWrt'\nDISTRIB_RELEASE='15.05'\n",
                expected("openwrt", "15.05", ""),
            ),
            (
                "/etc/lsb-release",
                "DISTRIB_ID=Ubuntu\nDISTRIB_RELEASE=10.04\nDISTRIB_CODENAME=lucid\n",
                expected("ubuntu", "10.04", "lucid"),
            ),
        ] {
            assert_eq!(release(&[(path, line)]), expected, "{path}");
        }
        assert_eq!(release(&[]), expected("", "", ""));
    }
}
