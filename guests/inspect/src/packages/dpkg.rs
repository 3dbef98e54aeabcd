//! dpkg's database: deb-status in dpkg(1), deb822(5).

use super::{LIMIT_BYTES, MAX_PACKAGES, Package, Paragraph, paragraphs};
use crate::files::Files;

const STATUS: &str = "/var/lib/dpkg/status";

/// The status files of `OpenWrt`'s opkg, which have the same format.
const OPKG_STATUS: [&str; 2] = ["/usr/lib/opkg/status", "/var/lib/opkg/status"];

/// The directory with one file per package, in images without dpkg.
const STATUS_DIR: &str = "/var/lib/dpkg/status.d";

pub(super) fn installed_by_opkg(files: &Files<'_>) -> Option<Result<Vec<Package>, ()>> {
    OPKG_STATUS.iter().find_map(|path| of_status(files, path))
}

/// Parses a file with all packages.
fn of_status(files: &Files<'_>, path: &str) -> Option<Result<Vec<Package>, ()>> {
    if !files.exists(path) {
        return None;
    }
    let Some(status) = files.bytes(path, LIMIT_BYTES) else {
        return Some(Err(()));
    };
    files.add_source("packages", path, None);
    let text = String::from_utf8_lossy(&status);
    Some(Ok(parse(&text, DefaultState::Unknown)))
}

pub(super) fn installed(files: &Files<'_>) -> Option<Result<Vec<Package>, ()>> {
    if let Some(found) = of_status(files, STATUS) {
        return Some(found);
    }
    if !files.exists(STATUS_DIR) {
        return None;
    }
    files.add_source("packages", STATUS_DIR, None);
    let names = files.names(STATUS_DIR);
    // The checksums of the packages' files are in the same directory.
    let names = names
        .iter()
        .filter(|name| !name.ends_with(".md5sums"))
        .take(MAX_PACKAGES);
    let packages = names.filter_map(|name| files.text(&format!("{STATUS_DIR}/{name}")));
    Some(Ok(packages
        .flat_map(|text| parse(&text, DefaultState::Installed))
        .collect()))
}

/// The state of a package whose paragraph does not have one.
#[derive(Clone, Copy)]
enum DefaultState {
    Unknown,
    Installed,
}

fn parse(text: &str, begins: DefaultState) -> Vec<Package> {
    let begin = || Paragraph {
        is_installed: matches!(begins, DefaultState::Installed),
        ..Paragraph::default()
    };
    paragraphs(text, begin, |paragraph, line| {
        // Continuation lines of a field start with a space.
        if let Some(more) = line.strip_prefix(' ') {
            if paragraph.is_described {
                if !paragraph.description.is_empty() {
                    paragraph.description.push('\n');
                }
                paragraph.description.push_str(more);
            }
            return;
        }
        let Some((field, value)) = line.split_once(':') else {
            return;
        };
        let value = value.trim();
        paragraph.is_described = field == "Description";
        match field {
            "Package" => paragraph.name = Some(value),
            "Version" => paragraph.version = Some(value),
            "Architecture" => paragraph.architecture = Some(value),
            // The format is `name (version)`, with the version only if it differs.
            "Source" => paragraph.source = value.split_whitespace().next(),
            "Description" => paragraph.summary = Some(value),
            "Homepage" => paragraph.url = Some(value),
            "Status" => paragraph.is_installed = value.ends_with(" installed"),
            _ => {}
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::guest;

    #[test]
    fn only_what_is_installed() {
        let status = "Package: a\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1:2.0-1\nDescription: x\n Package: no\n\nPackage: gone\nStatus: deinstall ok config-files\nVersion: 1\n\nPackage: half\nStatus: install ok half-installed\nVersion: 1\n\nPackage: b\nStatus: hold ok installed\nVersion: 3\nArchitecture: all";
        let found = parse(status, DefaultState::Unknown);
        let names: Vec<_> = found
            .iter()
            .map(|it| (&*it.name, &*it.version, &*it.architecture))
            .collect();
        assert_eq!(names, [("a", "1:2.0-1", "amd64"), ("b", "3", "all")]);
        assert_eq!(
            parse(
                "Package: base-files\nVersion: 12\n",
                DefaultState::Installed
            )
            .len(),
            1
        );
    }

    #[test]
    fn images_without_dpkg_have_a_file_a_package() {
        let tree = guest(&[
            (
                "/var/lib/dpkg/status.d/tzdata",
                "Package: tzdata\nVersion: 2024a-0\nArchitecture: all\n",
            ),
            ("/var/lib/dpkg/status.d/tzdata.md5sums", "0  usr/share/x\n"),
        ]);
        let files = Files::new(&tree);
        let found = installed(&files).unwrap().unwrap();
        assert_eq!((found.len(), &*found[0].version), (1, "2024a-0"));
        assert_eq!(files.finish().1, []);
    }
}
