//! Filesystems that their own programs make, check, grow and trim in the machine.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use diskfs_fixtures::{Workshop, skip};

use super::{appliance, at, check, command, diskfs, require_all, stderr};

/// Returns the appliance with programs in it.
fn appliance_with_tools() -> Option<PathBuf> {
    let appliance = appliance()?;
    if !appliance.join("tools").is_file() {
        skip("missing tools; collect them with packaging/appliance/build");
        return None;
    }
    Some(appliance)
}

/// The kinds, each with its checker on this machine.
const KINDS: [(&str, &[&str]); 5] = [
    ("xfs", &["xfs_repair", "-n"]),
    ("btrfs", &["btrfs", "check"]),
    ("ext4", &["e2fsck", "-fn"]),
    ("f2fs", &["fsck.f2fs", "--dry-run"]),
    ("ntfs", &["ntfsfix", "-n"]),
];

#[test]
fn each_kind_is_made_checked_and_grown() {
    let Some(appliance) = appliance_with_tools() else {
        return;
    };
    for (kind, checker) in KINDS {
        let Some(()) = require_all(&checker[..1]) else {
            continue;
        };
        let shop = Workshop::new().unwrap();
        let image = shop.sparse_file("disk.img", 320 << 20).unwrap();
        let words = ["mkfs", kind, "-L", "label", image.to_str().unwrap()];
        let said = diskfs(&appliance, &words.map(OsStr::new));
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains(kind) && said.contains("label"), "{said}");
        check(checker[0], &checker[1..], &image);
        // An existing filesystem is not overwritten.
        let again = command(&appliance, words).output().unwrap();
        assert!(!again.status.success());
        assert!(stderr(&again).contains("holds"), "{}", stderr(&again));

        diskfs(&appliance, &["mkdir".as_ref(), &at(&image, "/dir")]);
        let before = total_bytes(&appliance, &image);
        fs::File::options()
            .write(true)
            .open(&image)
            .unwrap()
            .set_len(640 << 20)
            .unwrap();
        diskfs(&appliance, &["resize".as_ref(), image.as_os_str()]);
        let after = total_bytes(&appliance, &image);
        assert!(
            after > before + (256 << 20),
            "{kind}: {before}, then {after}"
        );
        check(checker[0], &checker[1..], &image);
        let said = diskfs(&appliance, &["check".as_ref(), image.as_os_str()]);
        assert_eq!(said, format!("disk: {kind}, clean\n").as_bytes());
        let listed = diskfs(&appliance, &["ls".as_ref(), &at(&image, "/dir")]);
        assert_eq!(listed, b"");
    }
}

/// Returns the size of a filesystem, as it reports it.
fn total_bytes(appliance: &Path, image: &Path) -> u64 {
    let told = diskfs(
        appliance,
        &["df".as_ref(), "--json".as_ref(), image.as_os_str()],
    );
    let told: serde_json::Value = serde_json::from_slice(&told).unwrap();
    let mut found = Vec::new();
    collect(&told, "size_bytes", &mut found);
    *found.iter().max().expect("find a size")
}

fn collect(value: &serde_json::Value, key: &str, found: &mut Vec<u64>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                if name == key {
                    found.extend(value.as_u64());
                }
                collect(value, key, found);
            }
        }
        serde_json::Value::Array(values) => {
            for value in values {
                collect(value, key, found);
            }
        }
        _ => {}
    }
}

#[test]
fn damage_is_found_and_mended() {
    let Some(appliance) = appliance_with_tools() else {
        return;
    };
    let Some(()) = require_all(&["xfs_repair"]) else {
        return;
    };
    let shop = Workshop::new().unwrap();
    let image = shop.sparse_file("disk.img", 320 << 20).unwrap();
    let words = ["mkfs", "xfs", image.to_str().unwrap()].map(OsStr::new);
    diskfs(&appliance, &words);
    // The first group's header of free space (xfs(5), AGF) is in its second sector.
    let file = fs::File::options().write(true).open(&image).unwrap();
    file.write_all_at(&[0xff; 64], 512 + 16).unwrap();
    drop(file);
    let before = fs::read(&image).unwrap();
    let output = command(&appliance, ["check".as_ref(), image.as_os_str()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    // The program's report follows, in lines as it was written.
    let told = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(told.contains("damaged\n  Phase 1"), "{told}");
    let said = stderr(&output);
    assert!(said.contains("has found errors"), "{said}");
    assert!(
        !said.contains("\\n") && !told.contains("\\n"),
        "{said}{told}"
    );
    assert!(
        fs::read(&image).unwrap() == before,
        "the check has written to the image"
    );
    let words = ["check".as_ref(), "--repair".as_ref(), image.as_os_str()];
    diskfs(&appliance, &words);
    check("xfs_repair", &["-n"], &image);
}

#[test]
fn what_files_no_longer_use_is_given_back() {
    let Some(appliance) = appliance_with_tools() else {
        return;
    };
    let shop = Workshop::new().unwrap();
    let image = shop.sparse_file("disk.img", 320 << 20).unwrap();
    let words = ["mkfs", "xfs", image.to_str().unwrap()].map(OsStr::new);
    diskfs(&appliance, &words);
    let large = shop.path("large");
    fs::write(&large, vec![7; 64 << 20]).unwrap();
    diskfs(
        &appliance,
        &["cp".as_ref(), large.as_os_str(), &at(&image, "/large")],
    );
    diskfs(&appliance, &["rm".as_ref(), &at(&image, "/large")]);
    let allocated = || fs::metadata(&image).unwrap().blocks() * 512;
    let before = allocated();
    diskfs(&appliance, &["sparsify".as_ref(), image.as_os_str()]);
    let after = allocated();
    assert!(after + (60 << 20) < before, "{before}, then {after}");
    check("xfs_repair", &["-n"], &image);
}

#[test]
fn what_programs_are_told_is_as_the_schemas_say() {
    let Some(appliance) = appliance_with_tools() else {
        return;
    };
    let Some(()) = require_all(&["jsonschema"]) else {
        return;
    };
    let shop = Workshop::new().unwrap();
    let image = shop.sparse_file("disk.img", 320 << 20).unwrap();
    let path = image.to_str().unwrap();
    for words in [
        &["mkfs", "xfs", path][..],
        &["check", path],
        &["resize", path],
        &["sparsify", path],
        &["appliance", "test"],
    ] {
        let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
        let json = ["--json".as_ref()];
        let told = diskfs(&appliance, &[&words[..], &json].concat());
        let schema = diskfs(&appliance, &["schema".as_ref(), words[0]]);
        let files = [("schema.json", schema), ("told.json", told)].map(|(name, bytes)| {
            let file = image.with_file_name(name);
            fs::write(&file, bytes).unwrap();
            file
        });
        let [schema, told] = files.each_ref().map(|file| file.to_str().unwrap());
        check("jsonschema", &["-i", told], Path::new(schema));
    }
}
