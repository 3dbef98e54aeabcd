//! The types of Apple partitions, which are words.

/// The type of the map itself.
pub(super) const MAP: &str = "Apple_partition_map";
/// The type of free space.
pub(super) const FREE: &str = "Apple_Free";

/// Returns the same word if it is a known type; otherwise `None`.
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
