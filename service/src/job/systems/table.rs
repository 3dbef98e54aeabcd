//! The table of systems.

use super::super::guest::SystemKind;

pub(super) const LSB: &str = "/etc/lsb-release";

/// A system: the files by which it is recognised, and where its version is.
pub(super) struct Row {
    pub(super) distribution: Distribution,
    pub(super) kind: SystemKind,
    /// The files that all exist.
    pub(super) has: &'static [&'static str],
    /// The files of which none exists.
    pub(super) lacks: &'static [&'static str],
    pub(super) version: Version,
    /// False for systems on which root does not log in.
    pub(super) permits_root_login: bool,
}

/// The name of a system.
pub(super) enum Distribution {
    Named(&'static str),
    /// `DISTRIB_ID` of lsb-release.
    OfLsbRelease,
}

/// The place of a version.
#[derive(Clone, Copy)]
pub(super) enum Version {
    /// The version in a sentence: `Rocky Linux release 9.3 (Blue Onyx)`.
    InSentence(&'static str),
    /// The first line of a file.
    Line(&'static str),
    /// The value of a variable in a file.
    Variable(&'static str, &'static str),
    Fixed(&'static str),
}

use Version::{Fixed, InSentence, Line, Variable};

const fn linux(name: &'static str, has: &'static [&'static str], version: Version) -> Row {
    Row {
        distribution: Distribution::Named(name),
        kind: SystemKind::Linux,
        has,
        lacks: &[],
        version,
        permits_root_login: true,
    }
}

/// A desktop system, on which root does not log in.
const fn desktop(name: &'static str, has: &'static [&'static str], version: Version) -> Row {
    Row {
        permits_root_login: false,
        ..linux(name, has, version)
    }
}

const RELEASE: Version = Variable(LSB, "DISTRIB_RELEASE");

/// The Linux systems, which also have the base directories.
pub(super) const LINUX: &[Row] = &[
    linux(
        "Nfs",
        &[
            "/etc/redhat-release",
            "/etc/nfs-release",
            "/etc/centos-release",
        ],
        InSentence("/etc/nfs-release"),
    ),
    linux(
        "UOS/Server",
        &["/etc/UnionTech-release"],
        InSentence("/etc/UnionTech-release"),
    ),
    linux(
        "Anolis",
        &["/etc/sysconfig/network", "/etc/anolis-release"],
        InSentence("/etc/anolis-release"),
    ),
    linux(
        "Rocky",
        &["/etc/rocky-release"],
        InSentence("/etc/rocky-release"),
    ),
    linux(
        "OpenCloudOS",
        &["/etc/sysconfig/network", "/etc/opencloudos-release"],
        InSentence("/etc/opencloudos-release"),
    ),
    linux(
        "AlmaLinux",
        &["/etc/sysconfig/network", "/etc/almalinux-release"],
        InSentence("/etc/almalinux-release"),
    ),
    desktop(
        "OpenKylin",
        &[
            "/etc/issue",
            LSB,
            "/etc/kylin-build",
            "/etc/ukui-tablet-desktop.conf",
        ],
        RELEASE,
    ),
    desktop(
        "UOSDesktop",
        &["/etc/issue", LSB, "/etc/deepin-version"],
        RELEASE,
    ),
    linux(
        "Kylin",
        &["/etc/kylin-release", "/etc/.productinfo"],
        InSentence("/etc/kylin-release"),
    ),
    desktop(
        "NeoKylin",
        &["/etc/neokylin-release", "/etc/.productinfo"],
        InSentence("/etc/neokylin-release"),
    ),
    desktop(
        "Nfs",
        &["/etc/issue", LSB, "/etc/nfs/info"],
        Variable("/etc/nfs/info", "VERSION"),
    ),
    desktop(
        "UbuntuKylin",
        &["/etc/issue", LSB, "/etc/kylin-build"],
        RELEASE,
    ),
    linux(
        "CentOS",
        &["/etc/redhat-release", "/etc/centos-release"],
        InSentence("/etc/centos-release"),
    ),
    linux(
        "Fedora",
        &["/etc/redhat-release", "/etc/fedora-release"],
        InSentence("/etc/fedora-release"),
    ),
    linux(
        "RHEL",
        &["/etc/redhat-release"],
        InSentence("/etc/redhat-release"),
    ),
    linux(
        "OpenSUSE",
        &["/etc/SUSE-brand", "/etc/os-release"],
        Variable("/etc/os-release", "VERSION"),
    ),
    Row {
        lacks: &[LSB],
        ..linux(
            "Debian",
            &["/etc/issue", "/etc/debian_version"],
            Line("/etc/debian_version"),
        )
    },
    Row {
        lacks: &[LSB],
        ..linux(
            "Cirros",
            &["/etc/issue", "/etc/br-version"],
            Line("/etc/br-version"),
        )
    },
    Row {
        lacks: &[LSB],
        ..linux(
            "Cirros",
            &["/etc/issue", "/etc/cirros/version"],
            Line("/etc/cirros/version"),
        )
    },
    Row {
        distribution: Distribution::OfLsbRelease,
        ..linux("", &["/etc/issue", LSB], RELEASE)
    },
    linux("Gentoo", &["/etc/gentoo-release"], Fixed("")),
    linux("ArchLinux", &["/etc/arch-release"], Fixed("")),
    linux(
        "openEuler",
        &["/etc/sysconfig/network", "/etc/openEuler-release"],
        InSentence("/etc/openEuler-release"),
    ),
    linux(
        "TencentOS",
        &["/etc/sysconfig/network", "/etc/tencentos-release"],
        InSentence("/etc/tencentos-release"),
    ),
    linux(
        "CTyunOS",
        &["/etc/sysconfig/network", "/etc/ctyunos-release"],
        InSentence("/etc/ctyunos-release"),
    ),
];

/// The systems that don't have all base directories.
pub(super) const OTHERS: &[Row] = &[
    linux(
        "OpenWrt",
        &[
            "/bin",
            "/etc",
            "/lib",
            "/sbin",
            "/overlay",
            "/etc/openwrt_release",
            "/etc/openwrt_version",
        ],
        Line("/etc/openwrt_version"),
    ),
    linux("CoreOS", &["/cloud-config.yml"], Fixed("stable")),
    Row {
        kind: SystemKind::MacOs,
        ..linux(
            "macOs",
            &[
                "/Applications",
                "/Library",
                "/System/Library",
                "/Users",
                "/private/etc",
            ],
            Fixed(""),
        )
    },
    Row {
        kind: SystemKind::VmWare,
        ..linux(
            "ESXi",
            &["/boot.cfg", "/imgdb.tgz"],
            Variable("/boot.cfg", "build"),
        )
    },
    Row {
        kind: SystemKind::Android,
        ..linux("Android", &["/system/build.prop", "/grub"], Fixed(""))
    },
];
