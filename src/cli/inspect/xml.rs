//! The report in the XML format of virt-inspector(1), for programs that read that.
//!
//! Devices have the names of libguestfs' appliance: `p1` of the first disk is `/dev/sda1`, a
//! logical volume is `/dev/GROUP/NAME`.

use std::io::{self, Write};

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use diskfs::Result;
use diskfs::inspect::{Package, Program, Release};

use super::{DriveMapping, Guest};

/// The XML writer.
type Xml<W> = Writer<W>;

pub(super) fn write(out: &mut impl Write, guests: &[Guest]) -> Result<()> {
    let mut xml = Writer::new_with_indent(&mut *out, b' ', 2);
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    element(&mut xml, "operatingsystems", |xml| {
        guests.iter().try_for_each(|guest| system(xml, guest))
    })?;
    Ok(writeln!(out)?)
}

fn element<W: Write>(
    xml: &mut Xml<W>,
    name: &str,
    inner: impl FnOnce(&mut Xml<W>) -> io::Result<()>,
) -> io::Result<()> {
    xml.create_element(name).write_inner_content(inner)?;
    Ok(())
}

/// Writes an element with a text, unless the text is empty.
fn text<W: Write>(xml: &mut Xml<W>, name: &str, text: &str) -> io::Result<()> {
    if !text.is_empty() {
        let text = plain(text);
        let element = xml.create_element(name);
        element.write_text_content(BytesText::new(&text))?;
    }
    Ok(())
}

/// Removes the characters that XML cannot represent (XML 1.0, section 2.2).
fn plain(text: &str) -> String {
    let is_char = |c: &char| !c.is_control() || matches!(c, '\t' | '\n' | '\r');
    let is_noncharacter = |c: char| matches!(c, '\u{fffe}' | '\u{ffff}');
    let chars = text.chars().filter(is_char);
    chars.filter(|c| !is_noncharacter(*c)).collect()
}

fn system<W: Write>(xml: &mut Xml<W>, guest: &Guest) -> io::Result<()> {
    let report = &guest.report;
    let release = &report.release;
    let (major, minor) = version(release);
    let distro = distro(release.distribution.as_deref().unwrap_or_default());
    let known = |text: &Option<String>| text.clone().unwrap_or_default();
    element(xml, "operatingsystem", |xml| {
        text(xml, "root", &device(&guest.volume))?;
        text(xml, "name", release.kind.unwrap_or("unknown"))?;
        text(xml, "arch", &known(&report.architecture))?;
        text(xml, "distro", distro)?;
        // For Debian, virt-inspector writes the version here.
        let product = match distro {
            "debian" => known(&release.version),
            _ => known(&release.product),
        };
        text(xml, "product_name", &product)?;
        text(xml, "product_variant", &known(&release.variant))?;
        text(xml, "major_version", &major.to_string())?;
        text(xml, "minor_version", &minor.to_string())?;
        let windows = report.windows.as_ref();
        if let Some(windows) = windows {
            text(xml, "windows_systemroot", &windows.system_root)?;
            let set = windows.control_set;
            let set = set.map(|set| format!("ControlSet{set:03}"));
            text(xml, "windows_current_control_set", &known(&set))?;
        }
        // virt-inspector writes no package format for Windows.
        let format = report.packages.format.filter(|_| windows.is_none());
        text(xml, "package_format", format.unwrap_or_default())?;
        text(
            xml,
            "package_management",
            report.packages.manager.unwrap_or_default(),
        )?;
        text(xml, "hostname", &known(&report.hostname))?;
        let osinfo = match windows {
            Some(_) => osinfo_of_windows(release),
            None => osinfo(distro, major, minor),
        };
        text(xml, "osinfo", &osinfo)?;
        filesystems(xml, guest)?;
        if !guest.drives.is_empty() {
            element(xml, "drive_mappings", |xml| {
                guest
                    .drives
                    .iter()
                    .try_for_each(|drive| mapping(xml, drive))
            })?;
        }
        element(xml, "applications", |xml| {
            if let Some(windows) = windows {
                let mut programs = windows.programs.iter();
                return programs.try_for_each(|it| program(xml, it));
            }
            let mut packages = report.packages.installed.iter().flatten();
            packages.try_for_each(|package| application(xml, package))
        })
    })
}

fn filesystems<W: Write>(xml: &mut Xml<W>, guest: &Guest) -> io::Result<()> {
    element(xml, "mountpoints", |xml| {
        for mounted in &guest.filesystems {
            let element = xml.create_element("mountpoint");
            let device = device(&mounted.volume);
            let path = plain(&mounted.path);
            element
                .with_attribute(("dev", device.as_str()))
                .write_text_content(BytesText::new(&path))?;
        }
        Ok(())
    })?;
    element(xml, "filesystems", |xml| {
        for mounted in &guest.filesystems {
            let device = device(&mounted.volume);
            let element = xml.create_element("filesystem");
            let element = element.with_attribute(("dev", device.as_str()));
            element.write_inner_content(|xml| {
                text(xml, "type", &mounted.filesystem)?;
                text(xml, "label", &mounted.label)?;
                text(xml, "uuid", mounted.uuid.as_deref().unwrap_or_default())
            })?;
        }
        Ok(())
    })
}

/// Writes a package, with its version split into `EPOCH:VERSION-RELEASE`.
fn application<W: Write>(xml: &mut Xml<W>, package: &Package) -> io::Result<()> {
    let (epoch, rest) = match package.version.split_once(':') {
        Some((epoch, rest)) => (epoch, rest),
        None => ("", package.version.as_str()),
    };
    // If there are several dashes, the version ends at the first one.
    let (version, release) = rest.split_once('-').unwrap_or((rest, ""));
    let known = |text: &Option<String>| text.clone().unwrap_or_default();
    element(xml, "application", |xml| {
        text(xml, "name", &package.name)?;
        text(xml, "epoch", epoch)?;
        text(xml, "version", version)?;
        text(xml, "release", release)?;
        text(xml, "arch", &package.architecture)?;
        text(xml, "url", &known(&package.url))?;
        text(xml, "source_package", &known(&package.source))?;
        text(xml, "summary", &known(&package.summary))?;
        text(xml, "description", &known(&package.description))
    })
}

/// Writes a drive letter and its device.
fn mapping<W: Write>(xml: &mut Xml<W>, drive: &DriveMapping) -> io::Result<()> {
    let letter = plain(&drive.letter);
    let element = xml.create_element("drive_mapping");
    let element = element.with_attribute(("name", letter.as_str()));
    element.write_text_content(BytesText::new(&device(&drive.volume)))?;
    Ok(())
}

/// Writes an installed program of Windows.
fn program<W: Write>(xml: &mut Xml<W>, program: &Program) -> io::Result<()> {
    let known = |text: &Option<String>| text.clone().unwrap_or_default();
    element(xml, "application", |xml| {
        text(xml, "name", &program.id)?;
        text(xml, "display_name", &program.name)?;
        text(xml, "version", &known(&program.version))?;
        text(xml, "arch", &known(&program.architecture))?;
        text(xml, "install_path", &known(&program.install_path))?;
        text(xml, "publisher", &known(&program.publisher))?;
        text(xml, "url", &known(&program.url))?;
        text(xml, "description", &known(&program.description))
    })
}

/// Returns the device of a volume: `/dev/sda1` for `p1`, `/dev/sdb1` for `disk2/p1`, `/dev/vg/lv`
/// for `vg/lv`.
fn device(volume: &str) -> String {
    let (disk, rest) = match volume.strip_prefix("disk") {
        Some(rest) => {
            let (number, rest) = rest.split_once('/').unwrap_or((rest, ""));
            (number.parse().unwrap_or(1), rest)
        }
        None => (1_usize, volume),
    };
    let letter = char::from(b'a' + u8::try_from(disk.saturating_sub(1) % 26).unwrap_or(0));
    let number = rest.strip_prefix('p').and_then(|it| it.parse::<u32>().ok());
    match (rest, number) {
        ("", _) => format!("/dev/sd{letter}"),
        (_, Some(number)) => format!("/dev/sd{letter}{number}"),
        (name, None) => format!("/dev/{name}"),
    }
}

/// Returns libguestfs' name of a distribution, which differs for some of them.
fn distro(id: &str) -> &str {
    match id {
        "" => "unknown",
        "alpine" => "alpinelinux",
        "arch" => "archlinux",
        "kali" => "kalilinux",
        "ol" => "oraclelinux",
        "opensuse-leap" | "opensuse-tumbleweed" => "opensuse",
        id => id,
    }
}

/// Returns the first two numbers of the version.
fn version(release: &Release) -> (u32, u32) {
    let version = release.version.as_deref().unwrap_or_default();
    let mut numbers = version.split('.').map(|it| it.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    (next(), next())
}

/// Returns the short ID in libosinfo's database.
fn osinfo(distro: &str, major: u32, minor: u32) -> String {
    match distro {
        "debian" | "fedora" | "rocky" | "almalinux" => format!("{distro}{major}"),
        "ubuntu" => format!("ubuntu{major}.{minor:02}"),
        "centos" if major >= 8 => format!("centos{major}"),
        "centos" => format!("centos{major}.{minor}"),
        "rhel" | "opensuse" | "alpinelinux" | "freebsd" => format!("{distro}{major}.{minor}"),
        "oraclelinux" => format!("ol{major}.{minor}"),
        "sles" if minor == 0 => format!("sles{major}"),
        "sles" => format!("sles{major}sp{minor}"),
        "archlinux" | "gentoo" => distro.to_owned(),
        _ => "unknown".to_owned(),
    }
}

/// Returns the short ID of a Windows version: by the version, and for versions 10 and 11 by the
/// build.
fn osinfo_of_windows(release: &Release) -> String {
    let is_server = release
        .variant
        .as_deref()
        .is_some_and(|it| it.starts_with("Server"));
    let version = release.version.as_deref().unwrap_or_default();
    let build = version.split('.').nth(2).and_then(|it| it.parse().ok());
    let build: u32 = build.unwrap_or(0);
    let known = match (self::version(release), is_server) {
        ((5, 1), _) => "winxp",
        ((5, 2), _) => "win2k3",
        ((6, 0), false) => "winvista",
        ((6, 0), true) => "win2k8",
        ((6, 1), false) => "win7",
        ((6, 1), true) => "win2k8r2",
        ((6, 2), false) => "win8",
        ((6, 2), true) => "win2k12",
        ((6, 3), false) => "win8.1",
        ((6, 3), true) => "win2k12r2",
        ((10, 0), false) if build >= 22_000 => "win11",
        ((10, 0), false) => "win10",
        ((10, 0), true) if build >= 26_100 => "win2k25",
        ((10, 0), true) if build >= 20_348 => "win2k22",
        ((10, 0), true) if build >= 17_763 => "win2k19",
        ((10, 0), true) => "win2k16",
        _ => "unknown",
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_appliance() {
        for (volume, expected) in [
            ("p1", "/dev/sda1"),
            ("disk", "/dev/sda"),
            ("disk2", "/dev/sdb"),
            ("disk2/p3", "/dev/sdb3"),
            ("vg-0/my-root", "/dev/vg-0/my-root"),
        ] {
            assert_eq!(device(volume), expected, "{volume}");
        }
        assert_eq!(osinfo("ubuntu", 22, 4), "ubuntu22.04");
        assert_eq!(plain("a\u{1}b\u{ffff}\tc"), "ab\tc");
    }
}
