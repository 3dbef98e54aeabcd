//! The rules for images from strangers.

/// A rule for images from strangers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// The policy knows the format.
    Format,
    /// The format is the one that the sender states.
    FormatMismatch,
    /// The file is an image of one format only.
    Polyglot,
    /// The disk in the image does not look like another image.
    NestedFormat,
    /// The image has no backing file, and no parent.
    BackingFile,
    /// The image has no external data file (qcow2).
    DataFile,
    /// The image has no extents in other files or on devices (VMDK).
    ExtentFile,
    /// A VMDK is one sparse or stream-optimised file.
    VmdkType,
    /// The image has no unknown incompatible feature (qcow2).
    UnknownFeature,
    /// The tables and the header of the image are within QEMU's limits.
    MetadataSize,
    /// The structures of the image are valid.
    Corrupt,
    /// diskfs can read the image, so that it can be validated.
    Unsupported,
    /// The disk is not larger than the limit.
    Size,
}

impl Rule {
    /// Returns the rule's stable name.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Format => "format",
            Self::FormatMismatch => "format-mismatch",
            Self::Polyglot => "polyglot",
            Self::NestedFormat => "nested-format",
            Self::BackingFile => "backing-file",
            Self::DataFile => "data-file",
            Self::ExtentFile => "extent-file",
            Self::VmdkType => "vmdk-type",
            Self::UnknownFeature => "unknown-feature",
            Self::MetadataSize => "metadata-size",
            Self::Corrupt => "corrupt",
            Self::Unsupported => "unsupported",
            Self::Size => "size",
        }
    }
}

/// A rule that an image breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrokenRule {
    /// The rule.
    pub rule: Rule,
    /// A sentence with the values of the image. It can contain any text that the image has.
    pub message: String,
    /// The offset in the file of the field that breaks the rule, if it is one field.
    pub offset_bytes: Option<u64>,
}
