use std::path::Path;
use std::sync::Arc;

use diskfs_vfs::testing::MemoryFs;

use super::*;

const BASE: [&str; 5] = ["/bin/", "/etc/", "/boot/", "/lib/", "/usr/"];

/// Paths with contents.
type Files = [(&'static str, &'static str)];

/// Files, and the name and version of the system that has them.
const SYSTEMS: &[(&Files, &str, &str)] = &[
    (
        &[("/etc/issue", "Debian"), ("/etc/debian_version", "12.15\n")],
        "Debian",
        "12.15",
    ),
    (
        &[
            ("/etc/issue", "Ubuntu"),
            ("/etc/debian_version", "bookworm/sid\n"),
            (
                "/etc/lsb-release",
                "DISTRIB_ID=Ubuntu\nDISTRIB_RELEASE=24.04\n",
            ),
        ],
        "Ubuntu",
        "24.04",
    ),
    (
        &[
            ("/etc/redhat-release", "CentOS Stream release 9\n"),
            ("/etc/centos-release", "CentOS Stream release 9\n"),
        ],
        "CentOS",
        "9",
    ),
    (
        &[(
            "/etc/redhat-release",
            "Red Hat Enterprise Linux release 8.5 (Ootpa)\n",
        )],
        "RHEL",
        "8.5",
    ),
    (
        &[
            (
                "/etc/redhat-release",
                "Rocky Linux release 9.3 (Blue Onyx)\n",
            ),
            (
                "/etc/centos-release",
                "Rocky Linux release 9.3 (Blue Onyx)\n",
            ),
            (
                "/etc/rocky-release",
                "Rocky Linux release 9.3 (Blue Onyx)\n",
            ),
        ],
        "Rocky",
        "9.3",
    ),
    (
        &[
            (
                "/etc/kylin-release",
                "Kylin Linux Advanced Server release V10 (Tercel)\n",
            ),
            ("/etc/.productinfo", "x"),
        ],
        "Kylin",
        "V10",
    ),
    (
        &[
            ("/etc/SUSE-brand", "openSUSE\nVERSION = 15.5\n"),
            (
                "/etc/os-release",
                "NAME=\"openSUSE Leap\"\nVERSION=\"15.5\"\n",
            ),
        ],
        "OpenSUSE",
        "15.5",
    ),
    (
        &[
            ("/etc/alpine-release", "3.19.1\n"),
            ("/etc/os-release", "ID=alpine\nVERSION_ID=3.19.1\n"),
        ],
        "alpine",
        "3.19.1",
    ),
    (&[("/etc/arch-release", "")], "ArchLinux", ""),
];

#[test]
fn names_are_those_of_the_host_deployer() {
    for (files, distro, version) in SYSTEMS {
        let mut tree = MemoryFs::new();
        for dir in BASE {
            tree.dir(dir.trim_end_matches('/'));
        }
        for (path, text) in *files {
            tree.file(path, text.as_bytes());
        }
        let fs = Filesystem::new(Arc::new(tree), Path::new("disk.img"), "p1");
        let system = identify(&fs).unwrap();
        assert_eq!((&*system.distro, &*system.version), (*distro, *version));
        assert_eq!(system.kind.name(), "Linux");
        assert_eq!(system.arch, "x86_64");
    }
}
