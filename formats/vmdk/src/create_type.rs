//! The type of a disk: `createType` of the descriptor.

/// The type of a disk, as the descriptor states it. What is read follows from the types of the
/// extents; this one tells devices from files.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CreateType {
    /// One sparse file with the descriptor in it.
    MonolithicSparse,
    /// One flat file.
    MonolithicFlat,
    /// Sparse files of at most 2 GiB each.
    TwoGbMaxExtentSparse,
    /// Flat files of at most 2 GiB each.
    TwoGbMaxExtentFlat,
    /// One file of compressed grains that can be read and written in order.
    StreamOptimized,
    /// One flat file of ESXi.
    Vmfs,
    /// A sparse file of ESXi with the magic number `COWD`.
    VmfsSparse,
    /// A sparse file of ESXi 6.5 and later.
    SeSparse,
    /// A disk or a partition of the host, or a device of ESXi's storage.
    Device(String),
    /// Any other type, by its name.
    Other(String),
}

/// The types that name devices instead of files.
const DEVICES: &[&str] = &[
    "fullDevice",
    "partitionedDevice",
    "vmfsRaw",
    "vmfsRawDeviceMap",
    "vmfsPassthroughRawDeviceMap",
    "vmfsRDM",
    "vmfsRDMP",
];

impl CreateType {
    /// Returns the type with this name. Upper and lower case are the same.
    pub(crate) fn parse(name: &str) -> Self {
        match name.to_ascii_lowercase().as_str() {
            "monolithicsparse" => Self::MonolithicSparse,
            "monolithicflat" => Self::MonolithicFlat,
            "twogbmaxextentsparse" | "2gbmaxextentsparse" => Self::TwoGbMaxExtentSparse,
            "twogbmaxextentflat" | "2gbmaxextentflat" => Self::TwoGbMaxExtentFlat,
            "streamoptimized" => Self::StreamOptimized,
            "vmfs" => Self::Vmfs,
            "vmfssparse" => Self::VmfsSparse,
            "sesparse" => Self::SeSparse,
            _ if DEVICES.iter().any(|it| it.eq_ignore_ascii_case(name)) => {
                Self::Device(name.to_owned())
            }
            _ => Self::Other(name.to_owned()),
        }
    }

    /// Returns the name of the type in descriptors.
    pub fn name(&self) -> &str {
        match self {
            Self::MonolithicSparse => "monolithicSparse",
            Self::MonolithicFlat => "monolithicFlat",
            Self::TwoGbMaxExtentSparse => "twoGbMaxExtentSparse",
            Self::TwoGbMaxExtentFlat => "twoGbMaxExtentFlat",
            Self::StreamOptimized => "streamOptimized",
            Self::Vmfs => "vmfs",
            Self::VmfsSparse => "vmfsSparse",
            Self::SeSparse => "seSparse",
            Self::Device(name) | Self::Other(name) => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for name in ["monolithicSparse", "seSparse", "vmfsRDM", "custom"] {
            assert_eq!(CreateType::parse(name).name(), name);
        }
        let other_spelling = CreateType::parse("2GbMaxExtentFlat");
        assert_eq!(other_spelling, CreateType::TwoGbMaxExtentFlat);
        assert!(matches!(
            CreateType::parse("fulldevice"),
            CreateType::Device(_)
        ));
    }
}
