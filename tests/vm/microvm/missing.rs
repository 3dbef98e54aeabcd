//! The messages if no backend can open a filesystem.

use std::path::Path;

use diskfs_fixtures::{Workshop, require, run};

use super::{at, command, stderr};

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
fn a_kernel_that_says_nothing_is_killed_and_told() {
    let shop = Workshop::new().unwrap();
    let Some(image) = xfs(&shop) else { return };
    let dir = shop.path("appliance");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(
        dir.join("uml"),
        "#!/bin/sh\necho Kernel panic: of no use; exit 1\n",
    )
    .unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.join("uml"), executable).unwrap();
    let list = at(&image, "/");
    let output = command(&dir, ["ls".as_ref(), list.as_os_str()])
        .args(["--vm", "uml"])
        .env("XDG_CACHE_HOME", shop.path("cache"))
        .output()
        .unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("uml: "), "{said}");
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
