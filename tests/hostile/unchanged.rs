//! Reading changes no byte, whatever is read and however the read ends.

use std::fs;
use std::os::unix::fs::MetadataExt;

use diskfs_fixtures::{all, image, sha256_hex};

use super::program::diskfs;

#[test]
fn no_command_changes_an_image() {
    // The fixtures that a writer would have to recover, repair or mark.
    let fixtures = all().iter().filter(|fixture| {
        fixture.name.contains("journal")
            || fixture.name.starts_with("qcow2-dirty")
            || fixture.name.starts_with("qcow2-corrupt")
            || fixture.name.starts_with("gpt-primary")
            || fixture.name == "ext4-orphan-file"
    });
    let mut count = 0;
    for fixture in fixtures {
        count += 1;
        let image = image(&fixture.name);
        let path = image.path();
        let before = fs::metadata(&path).expect("there");
        let text = path.display().to_string();
        for command in ["info", "ls", "df", "tree", "find", "hash", "tar"] {
            diskfs([command, &text]).expect_message();
        }
        let after = fs::metadata(&path).expect("there");
        let times = |m: &fs::Metadata| (m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec());
        assert_eq!(
            times(&before),
            times(&after),
            "{} was changed",
            fixture.name
        );
        let bytes = fs::read(&path).expect("readable");
        assert_eq!(
            sha256_hex(&bytes),
            fixture.sha256,
            "{} was changed",
            fixture.name
        );
    }
    assert!(count >= 5, "{count} fixtures");
}
