//! The options for new images of formats that diskfs writes only as a whole.

/// The options for a new VMDK image. Use `..Default::default()` for the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewVmdk {
    /// The subformat.
    pub subformat: VmdkSubformat,
    /// The type of the virtual controller: `ide`, `buslogic`, `lsilogic` or `legacyESX`.
    pub adapter_type: String,
    /// The version of the virtual hardware.
    pub hardware_version: u32,
}

/// The subformat of a new VMDK image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VmdkSubformat {
    /// One file with the grains that have data, which VMware's desktop products use.
    #[default]
    MonolithicSparse,
    /// One file with compressed grains, which can be written to a pipe: the format of disks in OVA
    /// packages.
    StreamOptimized,
}

impl Default for NewVmdk {
    fn default() -> Self {
        Self {
            subformat: VmdkSubformat::default(),
            adapter_type: "ide".to_owned(),
            hardware_version: 4,
        }
    }
}
