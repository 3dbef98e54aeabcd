//! Findings: what a check found, and where.

/// An inconsistency of a filesystem.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The place of the inconsistency.
    pub place: FindingPlace,
    /// The kind of inconsistency.
    pub kind: FindingKind,
    /// The actual and expected values, in one sentence.
    pub detail: String,
}

/// The place of an inconsistency, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FindingPlace {
    /// The block group.
    pub group: Option<u32>,
    /// The inode that is damaged, or that contains the damaged structure.
    pub inode: Option<u32>,
    /// The block of the filesystem, counted from the start of the device.
    pub block: Option<u64>,
    /// The path of the inode, if it is a directory that the check could reach.
    pub path: Option<Vec<u8>>,
    /// The name in the directory, or of the attribute.
    pub name: Option<Vec<u8>>,
}

impl FindingPlace {
    /// Returns the place of the whole filesystem.
    pub(super) fn filesystem() -> Self {
        Self::default()
    }

    /// Returns the place of a block group.
    pub(super) fn group(group: u32) -> Self {
        Self {
            group: Some(group),
            ..Self::default()
        }
    }

    /// Returns the place of an inode.
    pub(super) fn inode(inode: u32) -> Self {
        Self {
            inode: Some(inode),
            ..Self::default()
        }
    }

    /// Adds a block to a place.
    pub(super) fn with_block(self, block: u64) -> Self {
        Self {
            block: Some(block),
            ..self
        }
    }

    /// Adds a name to a place.
    pub(super) fn with_name(self, name: &[u8]) -> Self {
        Self {
            name: Some(name.to_vec()),
            ..self
        }
    }
}

/// Defines the kinds with their codes and phases.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $code:literal, $phase:ident;)*) => {
        /// The kind of an inconsistency.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum FindingKind {
            $($(#[$doc])* $kind,)*
        }

        impl FindingKind {
            /// Every kind, in the order in which a check looks for them.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// Returns the kind's stable name for machines.
            pub const fn code(self) -> &'static str {
                match self {
                    $(Self::$kind => $code,)*
                }
            }

            /// Returns the phase of the check that finds this kind.
            pub const fn phase(self) -> CheckPhase {
                match self {
                    $(Self::$kind => CheckPhase::$phase,)*
                }
            }
        }
    };
}

impl FindingKind {
    /// Returns the position of the kind within its phase, before the place: that of the step in
    /// which e2fsck looks for it.
    pub(super) const fn step(self) -> u8 {
        match self {
            Self::GroupChecksum
            | Self::GroupLocation
            | Self::GroupFlags
            | Self::MetadataOverlap
            | Self::MultiplyClaimed
            | Self::InodeBitmap => 1,
            Self::Journal | Self::GroupCount => 2,
            Self::ResizeInode | Self::SuperblockCount => 3,
            Self::BitmapPadding => 4,
            Self::BitmapChecksum => 5,
            Self::Quota => 6,
            _ => 0,
        }
    }
}

/// A phase of a check, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CheckPhase {
    /// The superblock, the journal and the group descriptors.
    Superblock,
    /// The inode tables, and everything that inodes refer to.
    Inodes,
    /// The entries, names and indexes of directories.
    Directories,
    /// The connections between directories.
    Connectivity,
    /// The link counts and the other counts of references.
    References,
    /// The bitmaps and the counts of free blocks and inodes.
    Summaries,
}

kinds! {
    /// The superblock is invalid, so that nothing else can be checked.
    Superblock = "superblock", Superblock;
    /// A field of the superblock contradicts another one.
    SuperblockField = "superblock-field", Superblock;
    /// The journal or its inode is invalid.
    Journal = "journal", Superblock;
    /// The block of multiple mount protection is invalid, or names a check that did not finish.
    MultipleMount = "multiple-mount", Superblock;
    /// A group descriptor's checksum does not match.
    GroupChecksum = "group-checksum", Superblock;
    /// A group descriptor refers to blocks that cannot contain a bitmap or an inode table.
    GroupLocation = "group-location", Superblock;
    /// A group descriptor's flags or its count of unused inodes contradict another value.
    GroupFlags = "group-flags", Superblock;
    /// Metadata of block groups overlaps.
    MetadataOverlap = "metadata-overlap", Superblock;
    /// The inode that reserves blocks for resizing is invalid.
    ResizeInode = "resize-inode", Superblock;
    /// The orphan list or the orphan file is invalid.
    Orphan = "orphan", Inodes;
    /// A defective block contains metadata.
    DefectiveBlock = "defective-block", Inodes;
    /// A reserved inode is invalid.
    ReservedInode = "reserved-inode", Inodes;
    /// The root directory is missing or is not a directory.
    RootInode = "root-inode", Inodes;
    /// An inode's checksum does not match.
    InodeChecksum = "inode-checksum", Inodes;
    /// An inode has an unknown file type.
    InodeMode = "inode-mode", Inodes;
    /// An inode's size of extra fields is invalid.
    InodeExtraSize = "inode-extra-size", Inodes;
    /// An inode's flags contradict its type or the features.
    InodeFlags = "inode-flags", Inodes;
    /// A field of an inode that must be zero is not.
    InodeField = "inode-field", Inodes;
    /// An inode's time of deletion contradicts its state.
    InodeDeletionTime = "inode-deletion-time", Inodes;
    /// An inode's size contradicts its blocks or its type.
    InodeSize = "inode-size", Inodes;
    /// An inode's count of blocks differs from the blocks found.
    InodeBlockCount = "inode-block-count", Inodes;
    /// An extent tree has an invalid header, depth or entry.
    ExtentTree = "extent-tree", Inodes;
    /// The checksum of a block of an extent tree does not match.
    ExtentChecksum = "extent-checksum", Inodes;
    /// A file refers to a block outside of the filesystem.
    BlockOutOfRange = "block-out-of-range", Inodes;
    /// Inline data is invalid.
    InlineData = "inline-data", Inodes;
    /// A symlink's target is invalid.
    Symlink = "symlink", Inodes;
    /// A block has more than one owner.
    MultiplyClaimed = "multiply-claimed", Inodes;
    /// The header of a block of extended attributes is invalid.
    AttributeBlock = "attribute-block", Inodes;
    /// The checksum of a block of extended attributes does not match.
    AttributeChecksum = "attribute-checksum", Inodes;
    /// An entry of an extended attribute is invalid.
    AttributeEntry = "attribute-entry", Inodes;
    /// The hash of an extended attribute does not match its value.
    AttributeHash = "attribute-hash", Inodes;
    /// An extended attribute refers to an inode that does not contain a value.
    AttributeInode = "attribute-inode", Inodes;
    /// The encryption context of an encrypted inode is missing or invalid.
    EncryptionContext = "encryption-context", Inodes;
    /// A directory's index has an invalid root or index block.
    HtreeBlock = "htree-block", Directories;
    /// The checksum of an index block does not match.
    HtreeChecksum = "htree-checksum", Directories;
    /// The names of an indexed directory are not where their hashes require.
    HtreeOrder = "htree-order", Directories;
    /// The checksum of a directory block does not match or is missing.
    DirectoryChecksum = "directory-checksum", Directories;
    /// A directory has a hole.
    DirectoryHole = "directory-hole", Directories;
    /// A directory entry has an invalid length.
    DirectoryEntry = "directory-entry", Directories;
    /// `.` or `..` is missing, misplaced or refers to another inode.
    DirectoryDot = "directory-dot", Directories;
    /// A name is invalid.
    DirectoryName = "directory-name", Directories;
    /// A name occurs twice in a directory.
    DuplicateName = "duplicate-name", Directories;
    /// A directory entry refers to an inode that cannot have a name.
    EntryInode = "entry-inode", Directories;
    /// A directory entry refers to an inode that is not in use.
    UnusedInode = "unused-inode", Directories;
    /// A directory entry's file type differs from that of the inode.
    EntryType = "entry-type", Directories;
    /// An entry of an encrypted directory refers to an inode with another encryption policy.
    EncryptionPolicy = "encryption-policy", Directories;
    /// A directory has more than one name.
    DirectoryLinked = "directory-linked", Directories;
    /// A directory cannot be reached from the root directory.
    UnreachableDirectory = "unreachable-directory", Connectivity;
    /// `..` refers to another directory than the one that contains the name.
    DirectoryParent = "directory-parent", Connectivity;
    /// An inode's link count differs from the number of its names.
    LinkCount = "link-count", References;
    /// A file has no name.
    UnattachedInode = "unattached-inode", References;
    /// The reference count of a shared attribute block or value is wrong.
    AttributeReferences = "attribute-references", References;
    /// A block bitmap differs from the blocks found.
    BlockBitmap = "block-bitmap", Summaries;
    /// An inode bitmap differs from the inodes found.
    InodeBitmap = "inode-bitmap", Summaries;
    /// A bitmap's checksum does not match.
    BitmapChecksum = "bitmap-checksum", Summaries;
    /// The bits after the end of a bitmap are not set.
    BitmapPadding = "bitmap-padding", Summaries;
    /// A group descriptor's count of free blocks, free inodes or directories is wrong.
    GroupCount = "group-count", Summaries;
    /// The superblock's count of free blocks or inodes is wrong.
    SuperblockCount = "superblock-count", Summaries;
    /// The usage in a quota file differs from the usage found, or the file is invalid.
    Quota = "quota", Summaries;
}
