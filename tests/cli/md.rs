//! RAID of md.

use diskfs_fixtures::{image, pattern};

use crate::diskfs;

#[test]
fn arrays_are_volumes() {
    let image = image("md.raw");
    let info = diskfs(&image, &["info", "--json", "md.raw"]).json();
    let arrays = info["arrays"].as_array().unwrap();
    let name = |row: &serde_json::Value| row["name"].as_str().unwrap().to_owned();
    let raid6 = arrays.iter().find(|row| name(row).ends_with("raid6"));
    let raid6 = raid6.unwrap();
    assert_eq!(
        (&raid6["level"], &raid6["volume"]),
        (&"raid6".into(), &"md7".into())
    );
    let members = raid6["members"].as_array().unwrap();
    let expected: Vec<String> = (22..27).map(|n| format!("p{n}")).collect();
    assert_eq!(members, &expected);
    let text = diskfs(&image, &["info", "md.raw"]).text();
    assert!(text.contains("p22, p23, p24, p25, p26"), "{text}");
}

#[test]
fn an_array_is_read_and_not_written() {
    let image = image("md.raw");
    let options = diskfs::OpenOptions::default();
    let disk = diskfs::Disk::open_writable(image.path(), &options).unwrap();
    for (name, contents) in [("md0", "raid0"), ("md7", "raid6")] {
        let volume = disk.volume(name).unwrap();
        let mut bytes = vec![0; 100_000];
        volume.device().unwrap().read_at(0, &mut bytes).unwrap();
        assert!(bytes == pattern(contents, bytes.len()), "{name}");
        let error = volume.writable_device().map(drop).unwrap_err();
        assert_eq!(error.kind(), diskfs::ErrorKind::Unsupported);
    }
}
