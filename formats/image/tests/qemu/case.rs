//! A test image: its features, and how qemu-io fills it.

use std::path::Path;

use crate::encryption::{ENCRYPTED, SECRET};
use crate::tools::{Random, run, try_run};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backing {
    None,
    Raw,
    RawShorter,
    Qcow2,
    Qcow2Longer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DataFile {
    Inside,
    External,
    ExternalRaw,
}

/// The features of an image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub(crate) version: u32,
    pub(crate) cluster_size: u64,
    pub(crate) refcount_bits: u32,
    pub(crate) extended_l2: bool,
    pub(crate) data_file: DataFile,
    pub(crate) zstd: bool,
    pub(crate) backing: Backing,
    pub(crate) preallocation: &'static str,
    pub(crate) encrypted: bool,
    pub(crate) snapshots: u64,
    pub(crate) seed: u64,
}

impl Case {
    /// Returns the default image of qemu-img.
    pub(crate) fn plain() -> Self {
        Self {
            version: 3,
            cluster_size: 65536,
            refcount_bits: 16,
            extended_l2: false,
            data_file: DataFile::Inside,
            zstd: false,
            backing: Backing::None,
            preallocation: "off",
            encrypted: false,
            snapshots: 0,
            seed: 1,
        }
    }

    /// Returns cases with every value of every feature at least once, each with a seed of its own.
    pub(crate) fn of_each_feature() -> Vec<Self> {
        let plain = Self::plain();
        let cases = [
            plain,
            Self {
                version: 2,
                snapshots: 1,
                ..plain
            },
            Self {
                version: 2,
                backing: Backing::Qcow2,
                cluster_size: 4096,
                ..plain
            },
            Self {
                cluster_size: 512,
                refcount_bits: 1,
                ..plain
            },
            Self {
                cluster_size: 512,
                refcount_bits: 64,
                ..plain
            },
            Self {
                cluster_size: 512,
                backing: Backing::RawShorter,
                zstd: true,
                snapshots: 3,
                ..plain
            },
            Self {
                cluster_size: 2 << 20,
                refcount_bits: 64,
                ..plain
            },
            Self {
                zstd: true,
                backing: Backing::Qcow2Longer,
                ..plain
            },
            Self {
                extended_l2: true,
                zstd: true,
                snapshots: 1,
                ..plain
            },
            Self {
                extended_l2: true,
                backing: Backing::Raw,
                cluster_size: 16384,
                snapshots: 1,
                ..plain
            },
            Self {
                extended_l2: true,
                backing: Backing::Raw,
                preallocation: "metadata",
                ..plain
            },
            Self {
                data_file: DataFile::External,
                backing: Backing::Qcow2,
                ..plain
            },
            Self {
                data_file: DataFile::External,
                extended_l2: true,
                ..plain
            },
            Self {
                data_file: DataFile::External,
                preallocation: "metadata",
                ..plain
            },
            Self {
                data_file: DataFile::ExternalRaw,
                ..plain
            },
            Self {
                preallocation: "metadata",
                cluster_size: 4096,
                ..plain
            },
            Self {
                preallocation: "falloc",
                refcount_bits: 2,
                ..plain
            },
        ];
        let numbered = (1..).zip(cases);
        numbered.map(|(seed, case)| Self { seed, ..case }).collect()
    }

    /// Returns a random combination of features that qemu-img supports.
    pub(crate) fn random(seed: u64) -> Self {
        let mut r = Random::new(seed);
        let mut case = Self {
            version: r.one_of(&[2, 3, 3, 3]),
            cluster_size: r.one_of(&[512, 4096, 65536, 65536, 2 << 20]),
            refcount_bits: r.one_of(&[1, 2, 8, 16, 32, 64]),
            extended_l2: r.one_in(3),
            data_file: r.one_of(&[
                DataFile::Inside,
                DataFile::Inside,
                DataFile::Inside,
                DataFile::External,
                DataFile::ExternalRaw,
            ]),
            zstd: r.one_in(2),
            backing: r.one_of(&[
                Backing::None,
                Backing::Raw,
                Backing::RawShorter,
                Backing::Qcow2,
                Backing::Qcow2Longer,
            ]),
            preallocation: r.one_of(&["off", "off", "off", "metadata", "falloc"]),
            encrypted: false,
            snapshots: r.one_of(&[0, 0, 1, 3]),
            seed,
        };
        case.repair();
        case
    }

    /// Resets features that cannot be combined.
    pub(crate) fn repair(&mut self) {
        if self.version == 2 {
            self.refcount_bits = 16;
            self.extended_l2 = false;
            self.data_file = DataFile::Inside;
            self.zstd = false;
        }
        if self.extended_l2 {
            self.cluster_size = self.cluster_size.max(16384);
        }
        if self.data_file != DataFile::Inside {
            self.snapshots = 0;
        }
        if self.data_file == DataFile::ExternalRaw {
            self.backing = Backing::None;
            self.preallocation = "off";
        }
        if self.backing != Backing::None && !self.extended_l2 {
            self.preallocation = "off";
        }
        // Clusters that snapshots and several compressed clusters share have counts above 3.
        if self.refcount_bits < 8 {
            self.snapshots = 0;
        }
    }

    /// Returns a size that is not a multiple of the cluster size, and needs more than one L2 table
    /// if tables are small.
    pub(crate) fn size_bytes(&self) -> u64 {
        let clusters = match self.cluster_size {
            512 => 1500,
            4096 => 1100,
            size if size <= 65536 => 97,
            _ => 7,
        };
        clusters * self.cluster_size + 512 * 3
    }

    fn options(&self) -> String {
        let compat = if self.version == 2 { "0.10" } else { "1.1" };
        let mut options = vec![
            format!("compat={compat}"),
            format!("cluster_size={}", self.cluster_size),
        ];
        if self.version == 3 {
            let codec = if self.zstd { "zstd" } else { "zlib" };
            options.push(format!("refcount_bits={}", self.refcount_bits));
            options.push(format!("compression_type={codec}"));
        }
        if self.extended_l2 {
            options.push("extended_l2=on".to_owned());
        }
        if self.data_file != DataFile::Inside {
            options.push("data_file=data.bin".to_owned());
        }
        if self.data_file == DataFile::ExternalRaw {
            options.push("data_file_raw=on".to_owned());
        }
        if self.preallocation != "off" {
            options.push(format!("preallocation={}", self.preallocation));
        }
        if self.encrypted {
            options.push(ENCRYPTED.to_owned());
        }
        options.join(",")
    }

    /// Creates `disk.qcow2` in `dir`, with a backing file and some snapshots, and fills it.
    pub(crate) fn make(&self, dir: &Path) {
        let mut r = Random::new(self.seed ^ 0xabcd);
        std::fs::write(dir.join("pattern"), pattern(&mut r)).unwrap();
        let size = self.size_bytes();
        let backing = self.make_backing(dir, &mut r);
        let options = self.options();
        let size_text = size.to_string();
        let mut args = vec!["create", "-q", "-f", "qcow2", "-o", &options];
        args.extend(["--object", SECRET]);
        if let Some((name, format)) = &backing {
            args.extend(["-b", *name, "-F", *format]);
        }
        args.extend(["disk.qcow2", &size_text]);
        run(dir, "qemu-img", &args);
        for snapshot in 0..self.snapshots {
            fill(dir, "disk.qcow2", "qcow2", size, self.cluster_size, &mut r);
            let name = format!("snap{snapshot}");
            run(dir, "qemu-img", &["snapshot", "-c", &name, "disk.qcow2"]);
        }
        fill(dir, "disk.qcow2", "qcow2", size, self.cluster_size, &mut r);
    }

    fn make_backing(&self, dir: &Path, r: &mut Random) -> Option<(&'static str, &'static str)> {
        let size = self.size_bytes();
        let (format, backing_size) = match self.backing {
            Backing::None => return None,
            Backing::Raw => ("raw", size),
            // A length that is not even a multiple of the overlay's sectors.
            Backing::RawShorter => ("raw", size / 2 / 512 * 512 + 512),
            Backing::Qcow2 => ("qcow2", size * 2 / 3 / 512 * 512),
            Backing::Qcow2Longer => ("qcow2", size + 4096),
        };
        let name = if format == "raw" {
            "base.raw"
        } else {
            "base.qcow2"
        };
        let size_text = backing_size.to_string();
        run(
            dir,
            "qemu-img",
            &["create", "-q", "-f", format, name, &size_text],
        );
        fill(dir, name, format, backing_size, 65536, r);
        Some((name, format))
    }
}

/// Returns bytes that compress to about half.
fn pattern(r: &mut Random) -> Vec<u8> {
    (0..20_000)
        .map(|_| match r.below(4) {
            0 | 1 => 0x41,
            2 => u8::try_from(r.below(16)).unwrap(),
            _ => u8::try_from(r.below(256)).unwrap(),
        })
        .collect()
}

/// Writes, compresses, zeroes and discards at random. Some commands fail (a compressed write over
/// an allocated cluster), which does not matter: the final contents of the image count.
fn fill(dir: &Path, image: &str, format: &str, size: u64, cluster: u64, r: &mut Random) {
    let mut commands = Vec::new();
    for _ in 0..30 {
        commands.push(command(size, cluster, r));
    }
    let mut args = vec!["-f", format, "-d", "unmap"];
    for command in &commands {
        args.extend(["-c", command]);
    }
    args.push(image);
    try_run(dir, "qemu-io", &args);
}

fn command(size: u64, cluster: u64, r: &mut Random) -> String {
    let clusters = size.div_ceil(cluster);
    if r.one_in(3) {
        // Whole clusters, as compression and most other commands require.
        let first = r.below(clusters);
        let count = (1 + r.below(5)).min(clusters - first);
        let at = first * cluster;
        let len = (count * cluster).min(size - at);
        let verb = r.one_of(&[
            "write -c -s pattern",
            "write -c -s pattern",
            "write -c -P 0x11",
            "write -P 0x22",
            "write -z",
            "write -z -u",
            "discard",
        ]);
        return format!("{verb} {at} {len}");
    }
    let unit = r.one_of(&[512, 512, 1, 4096]);
    let at = r.below(size / unit) * unit;
    let longest = r.one_of(&[4096, cluster, cluster * 4]).min(size - at);
    let len = (1 + r.below(longest)).next_multiple_of(unit).min(size - at);
    let verb = r.one_of(&[
        "write -s pattern",
        "write -s pattern",
        "write -P 0x33",
        "write -z",
        "write -z -u",
        "discard",
    ]);
    format!("{verb} {at} {len}")
}
