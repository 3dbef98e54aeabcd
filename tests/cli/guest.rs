//! The guest's own tree: several filesystems, disks and systems.

use std::fs;
use std::path::Path;
use std::process::Command;

use diskfs_fixtures::{TempImage, image, require};
use diskfs_registry::testing::HiveBuilder;
use serde_json::Value;

use crate::{diskfs, diskfs_in};

/// Returns `guest.raw`, with its second disk beside it.
fn with_data() -> TempImage {
    let system = image("guest.raw");
    let data = image("guest-data.raw");
    fs::copy(data.path(), system.directory().join("data.raw")).unwrap();
    system
}

#[test]
fn a_path_goes_through_all_filesystems() {
    let disk = with_data();
    let cat = |path: &str| {
        let operand = format!("guest.raw:{path}");
        diskfs(&disk, &["cat", "--add", "data.raw", &operand]).text()
    };
    assert_eq!(cat("/boot/vmlinuz"), "vmlinuz\n");
    assert_eq!(cat("/home/ann/letter"), "ann/letter\n");
    // An absolute link from the root's filesystem into another one.
    assert_eq!(cat("/letter"), "ann/letter\n");
    assert_eq!(cat("/var/mail/inbox"), "ann/mail/inbox\n");
    assert_eq!(cat("/srv/my data/photos/one"), "photos/one\n");
    assert_eq!(cat("/opt/data/photos/../photos/one"), "photos/one\n");
    let listed = diskfs(&disk, &["ls", "guest.raw:/boot"]).text();
    assert_eq!(listed, "grub\nlost+found\nother\nvmlinuz\n");
}

#[test]
fn what_is_hidden_or_not_read_is_no_empty_directory() {
    let disk = image("guest.raw");
    let failure = |path: &str| {
        let operand = format!("guest.raw:{path}");
        diskfs(&disk, &["cat", &operand]).failure()
    };
    let (code, stderr) = failure("/boot/hidden");
    assert_eq!(code, 3, "{stderr}");
    let (code, stderr) = failure("/boot/other/x");
    assert_eq!(code, 4, "{stderr}");
    assert!(stderr.contains("XFS"), "{stderr}");
    // A volume that is chosen by its name is shown alone.
    let words = ["ls", "--volume", "vg-0/my-root", "guest.raw:/boot"];
    assert_eq!(diskfs(&disk, &words).text(), "below\nhidden\n");
}

#[test]
fn explain_tells_where_each_volume_is_and_why() {
    let disk = with_data();
    let text = diskfs(&disk, &["mount", "--explain", "guest.raw"]).text();
    for line in [
        "operating system 1: Debian GNU/Linux 12 (bookworm)",
        "  / from vg-0/my-root",
        "  /boot from p2 (/etc/fstab, line 3)",
        "  /home from vg-0/home (/etc/fstab, line 5)",
        "  /srv/my data skipped: no such volume: LABEL=my data; add the image that has it \
         (/etc/fstab, line 6: LABEL=my data)",
        "  /mnt/gone skipped: no such device: /dev/sda9; add the image that has it \
         (/etc/fstab, line 8: /dev/sda9)",
        "  /no/such/dir skipped: no such directory in the guest (/etc/fstab, line 10: \
         UUID=d15cf500-0000-4000-8000-0000000000b0)",
        "p3: member of an array or a volume group",
        "vg-0/swap: swap area",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let words = ["mount", "--explain", "--json", "guest.raw", "data.raw"];
    let json = diskfs(&disk, &words).json();
    let mounts = json["systems"][0]["mounts"].as_array().unwrap();
    let of = |path: &str| -> &Value {
        let found = mounts.iter().find(|mount| mount["path"] == path);
        found.unwrap_or_else(|| panic!("{path}: {json}"))
    };
    assert_eq!(of("/srv/my data")["volume"], "disk2");
    assert_eq!(
        of("/opt/data")["from"],
        "/etc/systemd/system/opt-data.mount"
    );
    assert_eq!(of("/boot/other")["mounted"], false);
    assert_eq!(of("/boot/other")["volume"], "p1");
    assert_eq!(json["not_mounted"][0]["volume"], "p3");
}

#[test]
fn inspect_tells_what_the_guest_is_and_where_that_stands() {
    let disk = with_data();
    for (file, text) in [
        ("etc/hostname", "host-1\n"),
        (
            "etc/passwd",
            "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n",
        ),
        ("etc/shadow", "root:*:1::::::\nann::1::::::\n"),
    ] {
        fs::write(disk.directory().join("new"), text).unwrap();
        diskfs(&disk, &["cp", "new", &format!("guest.raw:/{file}")]).text();
    }
    let text = diskfs(&disk, &["inspect", "--sources", "guest.raw"]).text();
    for line in [
        "operating system 1 on vg-0/my-root",
        "debian 12",
        "/etc/hostname:1",
        "root (password locked), ann (no password needed)",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let json = diskfs(&disk, &["inspect", "--json", "guest.raw"]).json();
    let system = &json["systems"][0];
    assert_eq!(system["type"], "linux");
    assert_eq!(system["hostname"], "host-1");
    assert_eq!(system["users"][1]["password"], "empty");
    assert!(system.get("sources").is_none());
    let (code, stderr) = diskfs(&image("ext4-default"), &["inspect", "ext4-default"]).failure();
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("no operating system"), "{stderr}");
}

#[test]
fn what_a_guest_calls_itself_controls_no_terminal() {
    let disk = image("guest.raw");
    fs::write(
        disk.directory().join("release"),
        "PRETTY_NAME=\"a\u{1b}[31mb\"\n",
    )
    .unwrap();
    let words = ["cp", "release", "guest.raw:/etc/os-release"];
    diskfs(&disk, &words).text();
    let text = diskfs(&disk, &["mount", "--explain", "guest.raw"]).text();
    assert!(!text.contains('\u{1b}'), "{text:?}");
    assert!(text.contains("[31mb"), "{text:?}");
}

#[test]
fn a_change_goes_where_the_guest_would_see_it() {
    let disk = with_data();
    let new = disk.directory().join("new");
    fs::write(&new, "new\n").unwrap();
    for to in [
        "/boot/grub/new",
        "/home/ann/new",
        "/opt/data/new",
        "/etc/new",
    ] {
        let operand = format!("guest.raw:{to}");
        let words = ["cp", "--add", "data.raw", "new", &operand];
        diskfs(&disk, &words).text();
    }
    for (volume, path) in [
        ("p2", "/grub/new"),
        ("vg-0/home", "/ann/new"),
        ("vg-0/my-root", "/etc/new"),
        ("disk2", "/new"),
    ] {
        let operand = format!("guest.raw:{path}");
        let words = ["cat", "--add", "data.raw", "--volume", volume, &operand];
        assert_eq!(diskfs(&disk, &words).text(), "new\n", "{volume}");
    }
    diskfs(&disk, &["mv", "guest.raw:/home/ann/new", "/etc/moved"]).text();
    for (volume, path, there) in [
        ("vg-0/home", "/ann/new", false),
        ("vg-0/my-root", "/etc/moved", true),
    ] {
        let words = ["stat", "--volume", volume, &format!("guest.raw:{path}")];
        assert_eq!(diskfs(&disk, &words).code() == Some(0), there, "{path}");
    }
    let (code, stderr) = diskfs(&disk, &["rm", "-rf", "guest.raw:/home"]).failure();
    assert_eq!(code, 1, "{stderr}");
}

#[test]
fn of_several_systems_one_is_named() {
    let disk = image("guest-two.raw");
    let (code, stderr) = diskfs(&disk, &["ls", "guest-two.raw"]).failure();
    assert_eq!(code, 2, "{stderr}");
    for part in ["1 (Linux on p1)", "2 (Fedora CoreOS 44 on p2)", "--os 1"] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    let cat = |os: &str, path: &str| {
        let operand = format!("guest-two.raw:{path}");
        diskfs(&disk, &["cat", "--os", os, &operand])
    };
    assert_eq!(cat("1", "/bin/true").text(), "bin/true\n");
    // ostree's deployment is the root, and its /var is in another directory.
    let log = cat("2", "/var/log/messages").text();
    assert_eq!(log, "ostree/deploy/fedora/var/log/messages\n");
    let same = cat("2", "/sysroot/ostree/deploy/fedora/var/log/messages").text();
    assert_eq!(same, log);
    assert_eq!(cat("3", "/x").failure().0, 3);
}

/// Copies a range of a file into a separate file, as a disk.
fn cut(from: &Path, to: &Path, start: usize, len: usize) {
    let bytes = fs::read(from).unwrap();
    fs::write(to, &bytes[start..start + len]).unwrap();
}

#[test]
fn a_group_may_lie_on_several_images() {
    const MIB: usize = 1 << 20;
    let whole = image("lvm-striped.raw");
    let directory = whole.directory();
    cut(&whole.path(), &directory.join("a.raw"), MIB, 16 * MIB);
    cut(&whole.path(), &directory.join("b.raw"), 18 * MIB, 16 * MIB);
    let one = diskfs_in(directory, &["ls", "a.raw"]);
    let (code, stderr) = one.failure();
    assert_ne!(code, 0);
    assert!(stderr.contains("on none of the disks given"), "{stderr}");
    for (first, second) in [("a.raw", "b.raw"), ("b.raw", "a.raw")] {
        let operand = format!("{first}:/size-1");
        let words = ["ls", "--add", second, "--volume", "vg-0/my-root", &operand];
        assert_eq!(diskfs_in(directory, &words).text(), "/size-1\n");
    }
    let json = diskfs_in(directory, &["info", "--json", "a.raw", "--add", "b.raw"]).json();
    let physical = json["volume_groups"][0]["physical_volumes"]
        .as_array()
        .unwrap();
    let on: Vec<_> = physical.iter().map(|pv| &pv["volume"]).collect();
    assert_eq!(on, ["disk", "disk2"]);
}

/// Makes a Windows on a FAT, which can be read without a microVM; NTFS would need one.
fn windows(system: &str) -> TempImage {
    let disk = image("fat32-small");
    let config = disk.directory().join("Windows/System32/config");
    fs::create_dir_all(&config).unwrap();
    let texts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/windows");
    let texts = texts.join(system);
    for hive in ["SOFTWARE", "SYSTEM", "SAM"] {
        let text = fs::read_to_string(texts.join(format!("{}.reg", hive.to_lowercase()))).unwrap();
        let mut builder = HiveBuilder::new();
        let prefix = format!(r"HKEY_LOCAL_MACHINE\{hive}");
        builder.reg_text(&text, &prefix).unwrap();
        fs::write(config.join(hive), builder.build()).unwrap();
    }
    diskfs(&disk, &["cp", "-r", "Windows", "fat32-small:/"]).text();
    disk
}

#[test]
fn inspect_finds_a_windows_by_its_registry() {
    let disk = windows("windows-10");
    let words = ["deploy", "fat32-small", "--hostname", "web1"];
    let (code, told) = diskfs(&disk, &words).failure();
    assert!(
        code == 4 && told.contains("not supported for Windows"),
        "{code} {told}"
    );
    let text = diskfs(&disk, &["inspect", "fat32-small"]).text();
    for part in [
        "windows 10.0.19045.3803 (22H2)",
        "Windows 10 Pro",
        "DESKTOP-7K2Q1",
        "ann (password)",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let json = diskfs(&disk, &["inspect", "--json", "fat32-small"]).json();
    let system = &json["systems"][0];
    assert_eq!(system["type"], "windows");
    assert_eq!(system["windows"]["drives"][0]["letter"], "C:");
    assert_eq!(
        system["problems"].as_array().map(Vec::len),
        Some(0),
        "{json}"
    );
}

/// The elements below a system in virt-inspector's schema (`virt-inspector.rng`), in the order of
/// virt-inspector's output.
const SYSTEM: &[&str] = &[
    "root",
    "name",
    "arch",
    "distro",
    "product_name",
    "product_variant",
    "major_version",
    "minor_version",
    "windows_systemroot",
    "windows_current_control_set",
    "package_format",
    "package_management",
    "hostname",
    "osinfo",
    "mountpoints",
    "filesystems",
    "drive_mappings",
    "applications",
];

/// The elements below an application, whose order the schema prescribes.
const APPLICATION: &[&str] = &[
    "name",
    "display_name",
    "epoch",
    "version",
    "release",
    "arch",
    "install_path",
    "publisher",
    "url",
    "source_package",
    "summary",
    "description",
];

/// The path of the schema in Debian's package.
const RNG: &str = "/usr/share/doc/guestfs-tools/virt-inspector.rng";

/// Checks that the elements of this depth are in the table, and in its order below each parent.
fn is_in_order(xml: &str, depth: usize, table: &[&str]) {
    let mut next = 0;
    for line in xml.lines() {
        let element = line.trim_start();
        let is_at = line.len() - element.len() == depth * 2 && element.starts_with('<');
        if !is_at || element.starts_with("</") {
            // The end of the parent.
            if line.len() - element.len() < depth * 2 {
                next = 0;
            }
            continue;
        }
        let name = element[1..].split(['>', '/', ' ']).next().unwrap();
        let at = table.iter().skip(next).position(|it| *it == name);
        next +=
            at.unwrap_or_else(|| panic!("{name} is not in the schema, or is out of order:\n{xml}"));
    }
}

/// The output of virt-inspector for a Windows, on a disk with an MBR.
#[test]
fn a_windows_is_written_as_virt_inspector_does() {
    const MIB: usize = 1 << 20;
    let disk = windows("windows-7");
    let fat = fs::read(disk.directory().join("fat32-small")).unwrap();
    let mut bytes = vec![0; MIB];
    bytes[440..444].copy_from_slice(&0xcafe_0001_u32.to_le_bytes());
    bytes[450] = 0x0c;
    bytes[454..458].copy_from_slice(&2048_u32.to_le_bytes());
    let sectors = u32::try_from(fat.len() / 512).unwrap();
    bytes[458..462].copy_from_slice(&sectors.to_le_bytes());
    bytes[510..512].copy_from_slice(&[0x55, 0xaa]);
    bytes.extend(fat);
    fs::write(disk.directory().join("seven.img"), bytes).unwrap();
    let xml = diskfs(&disk, &["inspect", "--xml", "seven.img"]).text();
    for line in [
        "<windows_systemroot>/Windows</windows_systemroot>",
        "<windows_current_control_set>ControlSet001</windows_current_control_set>",
        "<osinfo>win7</osinfo>",
        "<drive_mapping name=\"C\">/dev/sda1</drive_mapping>",
        "<name>Opera</name>",
        "<display_name>Opera 12.18</display_name>",
        "<install_path>C:\\Program Files\\Opera</install_path>",
        "<publisher>Opera Software ASA</publisher>",
        "<url>http://www.opera.com/</url>",
        "<description>A browser</description>",
    ] {
        assert!(
            xml.lines().any(|found| found.trim() == line),
            "{line}\n{xml}"
        );
    }
    assert!(!xml.contains("package_format"), "{xml}");
    is_in_order(&xml, 2, SYSTEM);
    let (_, applications) = xml.split_once("<applications>").unwrap();
    is_in_order(applications, 4, APPLICATION);
    if Path::new(RNG).exists() && require("xmllint").is_some() {
        fs::write(disk.directory().join("seven.xml"), xml).unwrap();
        let judge = Command::new("xmllint")
            .args(["--noout", "--relaxng", RNG, "seven.xml"])
            .current_dir(disk.directory())
            .output()
            .unwrap();
        assert!(judge.status.success(), "{judge:?}");
    }
}

/// Returns `guest.raw` with a few packages.
fn with_packages() -> TempImage {
    let disk = image("guest.raw");
    let status = "Package: bash\nStatus: install ok installed\nArchitecture: amd64\nSource: bash-src (5)\nVersion: 1:5.2-15-2+b7\nDescription: a shell\n It reads & runs <commands>.\n .\n Well.\nHomepage: https://example.org\n\n";
    fs::write(disk.directory().join("status"), status).unwrap();
    diskfs(&disk, &["mkdir", "-p", "guest.raw:/var/lib/dpkg"]).text();
    diskfs(&disk, &["cp", "status", "guest.raw:/var/lib/dpkg/status"]).text();
    disk
}

#[test]
fn inspect_keeps_to_its_schema() {
    let disk = with_packages();
    let printed = diskfs(&disk, &["inspect", "--schema"]).text();
    fs::write(disk.directory().join("schema.json"), printed).unwrap();
    for words in [
        &["inspect", "--json", "guest.raw"][..],
        &["inspect", "--json", "--sources", "guest.raw"],
    ] {
        let document = diskfs(&disk, words).text();
        fs::write(disk.directory().join("document.json"), document).unwrap();
        if require("jsonschema").is_none() {
            return;
        }
        let judge = Command::new("jsonschema")
            .args(["-i", "document.json", "schema.json"])
            .current_dir(disk.directory())
            .output()
            .unwrap();
        assert!(judge.status.success(), "{judge:?}");
    }
}

/// Checks a bill of materials with the validator of the format's authors, which must find nothing.
fn judge_bill(disk: &TempImage, format: &str, judge: &[&str]) {
    let Some((program, options)) = judge.split_first() else {
        return;
    };
    if require(program).is_none() {
        return;
    }
    let name = format!("bill.{format}.json");
    let bill = diskfs(disk, &["inspect", "--sbom", format, "guest.raw"]).text();
    fs::write(disk.directory().join(&name), bill).unwrap();
    let mut judge = diskfs_fixtures::command(program);
    let judge = judge.args(options).arg(name).current_dir(disk.directory());
    let output = judge.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn inspect_writes_what_others_read() {
    let disk = with_packages();
    let xml = diskfs(&disk, &["inspect", "--xml", "guest.raw"]).text();
    for line in [
        "    <root>/dev/vg-0/my-root</root>",
        "    <distro>debian</distro>",
        "        <epoch>1</epoch>",
        "        <version>5.2</version>",
        "        <release>15-2+b7</release>",
        "        <source_package>bash-src</source_package>",
        "        <description>It reads &amp; runs &lt;commands&gt;.",
    ] {
        assert!(xml.lines().any(|found| found == line), "{line}\n{xml}");
    }
    let bill = |format| -> Value {
        let text = diskfs(&disk, &["inspect", "--sbom", format, "guest.raw"]).text();
        serde_json::from_str(&text).unwrap()
    };
    let purl = "pkg:deb/debian/bash@1:5.2-15-2%2Bb7?arch=amd64&distro=debian-12";
    let spdx = bill("spdx");
    assert_eq!(
        spdx["packages"][1]["externalRefs"][0]["referenceLocator"],
        purl
    );
    assert_eq!(
        spdx["relationships"][1]["relatedSpdxElement"],
        spdx["packages"][1]["SPDXID"]
    );
    let cyclonedx = bill("cyclonedx");
    assert_eq!(cyclonedx["components"][0]["purl"], purl);
    assert_eq!(
        cyclonedx["dependencies"][0]["dependsOn"][0],
        cyclonedx["components"][0]["bom-ref"]
    );
    judge_bill(&disk, "spdx", &["pyspdxtools", "-i"]);
    judge_bill(&disk, "cyclonedx", &["cyclonedx-judge"]);
    let none = image("guest.raw");
    let (code, stderr) = diskfs(&none, &["inspect", "--sbom", "spdx", "guest.raw"]).failure();
    assert_eq!(code, 4, "{stderr}");
}

#[test]
fn a_fleet_has_a_line_an_image_and_goes_on_where_it_ended() {
    let disk = with_packages();
    let fleet = disk.directory().join("fleet");
    fs::create_dir_all(fleet.join("below")).unwrap();
    fs::copy(disk.path(), fleet.join("a.raw")).unwrap();
    fs::copy(disk.path(), fleet.join("below/c.raw")).unwrap();
    fs::write(fleet.join("b.raw"), [7; 4096]).unwrap();
    fs::write(fleet.join(".hidden"), [7; 4096]).unwrap();
    let lines = |text: &str| -> Vec<Value> {
        let lines = text.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let words = [
        "inspect", "--fleet", "fleet", "-j", "2", "--output", "lines",
    ];
    let (code, stderr) = diskfs(&disk, &words).failure();
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("1 of 3 images"), "{stderr}");
    let output = disk.directory().join("lines");
    let told = fs::read_to_string(&output).unwrap();
    let found = lines(&told);
    let images: Vec<_> = found
        .iter()
        .map(|line| line["image"].as_str().unwrap())
        .collect();
    assert_eq!(images, ["fleet/a.raw", "fleet/b.raw", "fleet/below/c.raw"]);
    assert_eq!(found[1]["error"]["kind"], "not_found");
    assert_eq!(found[2]["systems"][0]["distribution"], "debian");
    // As after a crash: the last line is truncated. The other images are not inspected again.
    fs::write(&output, &told[..told.len() - 40]).unwrap();
    fs::remove_file(fleet.join("a.raw")).unwrap();
    fs::copy(disk.path(), fleet.join("b.raw")).unwrap();
    let words = [
        "inspect", "--fleet", "fleet", "--output", "lines", "--resume",
    ];
    diskfs(&disk, &words).text();
    let found = lines(&fs::read_to_string(&output).unwrap());
    assert_eq!(found.len(), 3);
    assert!(found.iter().all(|line| line.get("error").is_none()));
    let shard = |shard| {
        let words = ["inspect", "--fleet", "fleet", "--shard", shard];
        let found = lines(&diskfs(&disk, &words).text());
        let images = found.iter().map(|line| line["image"].as_str().unwrap());
        images.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(shard("0/2"), ["fleet/b.raw"]);
    assert_eq!(shard("1/2"), ["fleet/below/c.raw"]);
}
