//! The messages if no backend can open a filesystem.

use std::path::Path;
use std::time::{Duration, Instant};

use diskfs_fixtures::{Workshop, require, run};

use super::{appliance, at, command, stderr};

/// Makes an XFS that nothing here can open.
fn xfs(shop: &Workshop) -> Option<std::path::PathBuf> {
    require("mkfs.xfs")?;
    let image = shop.sparse_file("xfs.img", 320 << 20).unwrap();
    run("mkfs.xfs", [Path::new("-q"), &image]).unwrap();
    Some(image)
}

#[test]
fn without_an_appliance_it_says_how_to_get_one() {
    let shop = Workshop::new().unwrap();
    let Some(image) = xfs(&shop) else { return };
    let nowhere = shop.path("nowhere");
    let list = at(&image, "/");
    let output = command(&nowhere, ["ls".as_ref(), list.as_os_str()])
        .args(["--vm", "uml"])
        .env("XDG_CACHE_HOME", &nowhere)
        .output()
        .unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("missing User Mode Linux kernel"), "{said}");
    assert!(said.contains(nowhere.to_str().unwrap()), "{said}");
    assert!(said.contains("diskfs appliance build uml"), "{said}");
}

#[test]
fn switched_off_it_is_unsupported() {
    let shop = Workshop::new().unwrap();
    let Some(image) = xfs(&shop) else { return };
    let list = at(&image, "/");
    let words = [
        "ls".as_ref(),
        list.as_os_str(),
        "--vm".as_ref(),
        "none".as_ref(),
    ];
    let output = command(&shop.path("nowhere"), words).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("xfs"), "{said}");
}

#[test]
fn a_kernel_that_dies_at_once_is_told_at_once() {
    let Some(appliance) = appliance() else { return };
    let shop = Workshop::new().unwrap();
    let Some(image) = xfs(&shop) else { return };
    let dir = shop.path("appliance");
    std::fs::create_dir(&dir).unwrap();
    let kernel = dir.join("uml");
    // Copied by other processes, see `endings::own_appliance`.
    run("cp", [appliance.join("uml"), kernel.clone()]).unwrap();
    run("truncate", [Path::new("-s5M"), &kernel]).unwrap();
    let list = at(&image, "/");
    let ls = || {
        command(&dir, ["ls".as_ref(), list.as_os_str()])
            .args(["--vm", "uml"])
            .env("XDG_CACHE_HOME", shop.path("cache"))
            .output()
            .unwrap()
    };
    let began = Instant::now();
    let output = ls();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("its process was killed by signal"), "{said}");
    // The deadline is 10 s.
    assert!(began.elapsed() < Duration::from_secs(8), "{said}");
    // With a checksum, the file is named.
    std::fs::write(dir.join("uml.crc32c"), "e3069283 13000000\n").unwrap();
    let said = stderr(&ls());
    let damaged = format!("{}: damaged file", kernel.display());
    assert!(said.contains(&damaged), "{said}");
    assert!(
        said.contains("and had 13000000 when it was built"),
        "{said}"
    );
}

#[test]
fn the_configuration_counts_where_nothing_else_is_said() {
    let shop = Workshop::new().unwrap();
    let Some(image) = xfs(&shop) else { return };
    let list = at(&image, "/");
    let config = shop.path("config.toml");
    let appliance = shop.path("configured");
    let settings = format!("[vm]\nbackend = \"uml\"\nappliance = {appliance:?}\n");
    std::fs::write(&config, settings).unwrap();
    let ls = |more: &[&str]| {
        let mut command = command(Path::new(""), ["ls".as_ref(), list.as_os_str()]);
        command.args(more).env("DISKFS_CONFIG", &config);
        command.env("XDG_CACHE_HOME", shop.path("cache"));
        command
    };
    let said = stderr(&ls(&[]).output().unwrap());
    assert!(said.contains("missing User Mode Linux kernel"), "{said}");
    assert!(said.contains(appliance.to_str().unwrap()), "{said}");
    assert!(!said.contains("qemu"), "{said}");
    // The environment overrides the configuration, and the command line overrides both.
    let said = stderr(&ls(&[]).env("DISKFS_VM", "none").output().unwrap());
    assert!(!said.contains("User Mode Linux"), "{said}");
    let mut named = ls(&["--vm", "uml"]);
    named.env("DISKFS_VM", "none");
    named.env("DISKFS_APPLIANCE", shop.path("elsewhere"));
    let said = stderr(&named.output().unwrap());
    assert!(said.contains("elsewhere"), "{said}");
    assert!(!said.contains(appliance.to_str().unwrap()), "{said}");

    std::fs::write(&config, "[vm]\nbackend = \"xen\"\n").unwrap();
    let output = ls(&[]).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("config.toml: line 2: unknown backend `xen`"),
        "{said}"
    );
}
