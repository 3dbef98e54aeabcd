//! Types of partitions, which are words.

/// That of the map itself.
pub(super) const MAP: &str = "Apple_partition_map";
/// That of what belongs to no partition.
pub(super) const FREE: &str = "Apple_Free";

/// The same word, if it is one that is in use; else `None`.
pub(crate) fn type_name(kind: &str) -> Option<&'static str> {
    const KNOWN: [&str; 17] = [
        MAP,
        FREE,
        "Apple_Boot",
        "Apple_Bootstrap",
        "Apple_Driver",
        "Apple_Driver43",
        "Apple_Driver_ATA",
        "Apple_Driver_ATAPI",
        "Apple_FWDriver",
        "Apple_HFS",
        "Apple_HFSX",
        "Apple_Patches",
        "Apple_PRODOS",
        "Apple_Scratch",
        "Apple_UFS",
        "Apple_UNIX_SVR2",
        "Linux_swap",
    ];
    KNOWN
        .into_iter()
        .find(|known| known.eq_ignore_ascii_case(kind))
}
