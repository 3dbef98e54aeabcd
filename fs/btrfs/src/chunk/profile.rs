//! The profile of a chunk: how its bytes are spread over stripes.

/// The type of a block group: the kinds of its contents, and its profile (`BTRFS_BLOCK_GROUP_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockGroupType(pub(crate) u64);

impl BlockGroupType {
    pub(crate) const fn has_data(self) -> bool {
        self.0 & 1 != 0
    }

    /// Returns the number of bytes on devices for each byte of contents, as Linux's statfs(2)
    /// calculates it (`btrfs_bg_type_to_factor`): 1 for RAID5 and RAID6.
    pub(crate) const fn factor(self) -> u64 {
        match self.0 & PROFILES {
            RAID1 | DUP | RAID10 => 2,
            RAID1C3 => 3,
            RAID1C4 => 4,
            _ => 1,
        }
    }

    /// Returns the position in Linux's order of profiles (`enum btrfs_raid_types`).
    pub(crate) const fn raid_index(self) -> u8 {
        match self.0 & PROFILES {
            RAID10 => 0,
            RAID1 => 1,
            DUP => 2,
            RAID0 => 3,
            RAID5 => 5,
            RAID6 => 6,
            RAID1C3 => 7,
            RAID1C4 => 8,
            _ => 4,
        }
    }

    /// Returns how Linux would make the next block group with contents of these types, on this
    /// number of devices (`btrfs_reduce_alloc_profile`).
    pub(crate) fn allocation(self, devices: usize) -> Allocation {
        let all = [
            Allocation::new(RAID1C4, 4, 4, 1),
            Allocation::new(RAID6, 3, 1, 1),
            Allocation::new(RAID1C3, 3, 3, 1),
            Allocation::new(RAID5, 2, 1, 1),
            Allocation::new(RAID10, 2, 4, 1),
            Allocation::new(RAID1, 2, 2, 1),
            Allocation::new(DUP, 1, 1, 2),
            Allocation::new(RAID0, 1, devices, 1),
        ];
        let mut possible = all.into_iter().filter(|one| self.0 & one.profile != 0);
        let possible = possible.find(|one| one.devices_min <= devices);
        possible.unwrap_or(Allocation::new(0, 1, 1, 1))
    }
}

/// The way in which Linux allocates block groups of a profile (`struct btrfs_raid_attr`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allocation {
    profile: u64,
    pub(crate) devices_min: usize,
    /// The number of devices that share a block group, as statfs(2) assumes it.
    pub(crate) devices: usize,
    /// The number of stripes on each device.
    pub(crate) stripes_per_device: u64,
}

impl Allocation {
    const fn new(
        profile: u64,
        devices_min: usize,
        devices: usize,
        stripes_per_device: u64,
    ) -> Self {
        Self {
            profile,
            devices_min,
            devices,
            stripes_per_device,
        }
    }
}

/// The bits of the profiles.
const PROFILES: u64 = 0x7f8;

/// The way in which the bytes of a chunk are spread over its stripes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    Single,
    /// Each stripe has a copy of all bytes: DUP and all kinds of RAID1.
    Mirrored {
        copies: usize,
    },
    Raid0 {
        stripes: usize,
    },
    /// Pairs of mirrors, striped.
    Raid10 {
        pairs: usize,
    },
    /// RAID5 and RAID6: one or two stripes of each row are parity.
    Parity {
        data: usize,
        parity: usize,
    },
}

impl Profile {
    /// Returns the profile of these bits, if it can have this number of stripes.
    pub(super) fn parse(bits: u64, stripes: usize, sub_stripes: u16) -> Result<Self, String> {
        let mirrored = |copies| (Self::Mirrored { copies }, stripes == copies);
        let parity = |parity| {
            let data = stripes.saturating_sub(parity);
            (Self::Parity { data, parity }, data > 0)
        };
        let (profile, is_possible) = match bits & PROFILES {
            0 => (Self::Single, stripes == 1),
            RAID0 => (Self::Raid0 { stripes }, stripes > 0),
            RAID1 | DUP => mirrored(2),
            RAID1C3 => mirrored(3),
            RAID1C4 => mirrored(4),
            RAID10 => {
                let pairs = stripes.wrapping_shr(1);
                let is_even = pairs.wrapping_shl(1) == stripes;
                (
                    Self::Raid10 { pairs },
                    pairs > 0 && is_even && sub_stripes == 2,
                )
            }
            RAID5 => parity(1),
            RAID6 => parity(2),
            unknown => return Err(format!("unknown profile {unknown:#x}")),
        };
        if is_possible {
            return Ok(profile);
        }
        Err(format!(
            "{stripes} stripes for profile {:#x}",
            bits & PROFILES
        ))
    }
}

const RAID0: u64 = 1 << 3;
const RAID1: u64 = 1 << 4;
const DUP: u64 = 1 << 5;
const RAID10: u64 = 1 << 6;
const RAID5: u64 = 1 << 7;
const RAID6: u64 = 1 << 8;
const RAID1C3: u64 = 1 << 9;
const RAID1C4: u64 = 1 << 10;
