//! LVM's names for the RAID types of the kernel's md. LVM2, `lib/segtype/segtype.h`; Linux,
//! `drivers/md/dm-raid.c`, `raid_types`.

use std::num::{NonZeroU64, NonZeroUsize};

use crate::map::{Far, Geometry, Parity, Rotation, Sums};

/// Returns the geometry of a type; `None` for an unsupported one.
pub(super) fn geometry(
    type_name: &str,
    chunk_bytes: NonZeroU64,
    copies: NonZeroUsize,
) -> Option<Geometry> {
    use Rotation::{
        First, Last, LeftAsymmetric, LeftSymmetric, NContinue, NRestart, RightAsymmetric,
        RightSymmetric, ZeroRestart,
    };
    let (rotation, sums) = match type_name {
        "raid1" => return Some(Geometry::Mirror),
        "raid10" | "raid10_near" => {
            return Some(Geometry::Raid10 {
                chunk_bytes,
                copies,
                far: Far::NONE,
            });
        }
        "raid4" => (First, Sums::P),
        "raid5_la" => (LeftAsymmetric, Sums::P),
        "raid5_ra" => (RightAsymmetric, Sums::P),
        "raid5" | "raid5_ls" => (LeftSymmetric, Sums::P),
        "raid5_rs" => (RightSymmetric, Sums::P),
        "raid5_n" => (Last, Sums::P),
        "raid6" | "raid6_zr" => (ZeroRestart, Sums::PAndQ),
        "raid6_nr" => (NRestart, Sums::PAndQ),
        "raid6_nc" => (NContinue, Sums::PAndQ),
        "raid6_n_6" => (Last, Sums::PAndQ),
        "raid6_la_6" => (LeftAsymmetric, Sums::PAndLastQ),
        "raid6_ra_6" => (RightAsymmetric, Sums::PAndLastQ),
        "raid6_ls_6" => (LeftSymmetric, Sums::PAndLastQ),
        "raid6_rs_6" => (RightSymmetric, Sums::PAndLastQ),
        _ => return None,
    };
    Some(Geometry::Parity {
        chunk_bytes,
        parity: Parity { rotation, sums },
    })
}
