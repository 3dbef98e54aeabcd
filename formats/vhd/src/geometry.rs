//! The geometry of a disk: specification, "Appendix: CHS Calculation".

/// The cylinders, heads and sectors of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) cylinders: u16,
    pub(crate) heads: u8,
    pub(crate) sectors_per_track: u8,
}

impl Geometry {
    /// The largest geometry, 127.5 GiB. A disk with it is larger than it says.
    pub(crate) const MAX: Self = Self {
        cylinders: u16::MAX,
        heads: 16,
        sectors_per_track: 255,
    };

    /// Returns the number of sectors.
    pub(crate) fn sectors(self) -> u64 {
        u64::from(self.cylinders)
            .saturating_mul(u64::from(self.heads))
            .saturating_mul(u64::from(self.sectors_per_track))
    }

    /// Returns the smallest geometry of the specification's with at least `sectors` sectors, as
    /// QEMU finds it; the largest one if there is none.
    pub(crate) fn containing(sectors: u64) -> Self {
        let sectors = sectors.min(Self::MAX.sectors());
        let mut tried = sectors;
        loop {
            let geometry = Self::of(tried);
            // The next cylinder is less than 16 times 255 sectors away.
            if geometry.sectors() >= sectors || tried >= Self::MAX.sectors() {
                return geometry;
            }
            tried = tried.saturating_add(1);
        }
    }

    /// Returns the specification's geometry of a number of sectors, which may have fewer.
    fn of(sectors: u64) -> Self {
        let tracks_of = |per_track: u8| sectors.div_euclid(u64::from(per_track).max(1));
        let of = |heads: u64, sectors_per_track: u8| {
            let cylinders = tracks_of(sectors_per_track).div_euclid(heads.max(1));
            Self {
                cylinders: u16::try_from(cylinders).unwrap_or(u16::MAX),
                heads: u8::try_from(heads).unwrap_or(u8::MAX),
                sectors_per_track,
            }
        };
        if sectors >= 65535 * 16 * 63 {
            return of(16, 255);
        }
        let tracks = tracks_of(17);
        let heads = tracks.div_ceil(1024).max(4);
        if heads <= 16 && tracks < heads.saturating_mul(1024) {
            return of(heads, 17);
        }
        if tracks_of(31) < 16 * 1024 {
            return of(16, 31);
        }
        of(16, 63)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_geometry_is_not_smaller_than_the_disk_up_to_the_largest() {
        let max = Geometry::MAX.sectors();
        for sectors in [
            0,
            1,
            67,
            68,
            69,
            139_263,
            139_265,
            1 << 20,
            66_059_280,
            max - 1,
            max,
        ] {
            let geometry = Geometry::containing(sectors);
            assert!(geometry.sectors() >= sectors, "{sectors} {geometry:?}");
            assert!(
                geometry.sectors() <= sectors + 16 * 255,
                "{sectors} {geometry:?}"
            );
        }
        assert_eq!(Geometry::containing(max + 1), Geometry::MAX);
        assert_eq!(Geometry::containing(0).sectors(), 0);
    }
}
