//! Each filesystem among the fixtures.

use std::panic::{AssertUnwindSafe, catch_unwind};

use diskfs::Disk;
use diskfs_fixtures::{Fixture, Mount, Reference, Tree, image, require_root};

use super::{differences, disk, summary};

/// Returns the fixtures that are a filesystem, selected by the source of the tree.
fn with(reference: impl Fn(Reference) -> bool) -> impl Iterator<Item = &'static Fixture> {
    let fixtures = diskfs_fixtures::all().iter();
    fixtures.filter(move |fixture| reference(fixture.reference))
}

/// Runs a comparison for each fixture, and panics with all differences, not only the first.
fn compare(
    fixtures: impl Iterator<Item = &'static Fixture>,
    mut differences: impl FnMut(&Fixture) -> Vec<String>,
) {
    let mut failed = Vec::new();
    let mut count = 0;
    for fixture in fixtures {
        count += 1;
        let found = catch_unwind(AssertUnwindSafe(|| differences(fixture)));
        let found = found.unwrap_or_else(|_| vec!["panicked".to_owned()]);
        if !found.is_empty() {
            failed.push(format!("{}: {}", fixture.name, summary(&found)));
        }
    }
    assert!(count > 0, "no fixture was compared");
    assert!(
        failed.is_empty(),
        "{} of {count} filesystems differ:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

#[test]
fn each_filesystem_is_as_recorded() {
    let on_one_device = |reference| !matches!(reference, Reference::None | Reference::Devices);
    compare(with(on_one_device), |fixture| {
        let image = image(&fixture.name);
        let disk = disk(&image.path());
        match disk.filesystem() {
            Ok(filesystem) => {
                let expected = diskfs_fixtures::expected_tree(&fixture.name);
                differences(&expected, &filesystem)
            }
            Err(error) => vec![error.to_string()],
        }
    });
}

/// Returns the fixtures with the other devices of a filesystem whose first one is `first`.
fn other_devices(first: &str) -> impl Iterator<Item = &'static Fixture> {
    let set = first.strip_suffix('a').expect("the first of a set");
    let fixtures = diskfs_fixtures::all().iter();
    fixtures.filter(move |fixture| {
        let letter = fixture.name.strip_prefix(set);
        letter.is_some_and(|letter| letter.len() == 1 && letter != "a")
    })
}

#[test]
fn each_filesystem_on_several_images_is_as_recorded() {
    compare(
        with(|reference| reference == Reference::Devices),
        |fixture| {
            let first = image(&fixture.name);
            let others: Vec<_> = other_devices(&fixture.name)
                .map(|other| image(&other.name))
                .collect();
            let options = Disk::options();
            let options = others
                .iter()
                .fold(options, |options, other| options.add(other.path()));
            let opened = options.open(first.path());
            match opened.and_then(|disk| disk.filesystem()) {
                Ok(filesystem) => {
                    let expected = diskfs_fixtures::expected_tree(&fixture.name);
                    differences(&expected, &filesystem)
                }
                Err(error) => vec![error.to_string()],
            }
        },
    );
}

#[test]
fn each_filesystem_is_as_the_kernel_shows_it_now() {
    if require_root().is_none() {
        return;
    }
    compare(
        with(|reference| reference == Reference::Kernel),
        |fixture| {
            let copy = image(&fixture.name);
            // Read-only, but it still replays a dirty journal in the copy.
            let expected = Mount::of_image(&copy.path(), "ro")
                .and_then(|mount| Tree::of_directory(mount.path()))
                .unwrap_or_else(|error| panic!("{error:#}"));
            let image = image(&fixture.name);
            match disk(&image.path()).filesystem() {
                Ok(filesystem) => differences(&expected, &filesystem),
                Err(error) => vec![error.to_string()],
            }
        },
    );
}

/// Reading doesn't change the image, even if a journal must be replayed.
#[test]
fn no_filesystem_changes_by_being_read() {
    let on_one_device = |reference| !matches!(reference, Reference::None | Reference::Devices);
    compare(with(on_one_device), |fixture| {
        let image = image(&fixture.name);
        if let Ok(filesystem) = disk(&image.path()).filesystem() {
            let _ = Tree::of_filesystem(filesystem.as_fs());
        }
        let bytes = std::fs::read(image.path()).expect("read the image");
        if diskfs_fixtures::sha256_hex(&bytes) == fixture.sha256 {
            Vec::new()
        } else {
            vec!["the image has other bytes than before".to_owned()]
        }
    });
}
