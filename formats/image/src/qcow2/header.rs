//! The header: specification, section "Header".

use diskfs_block::{BlockRead, Error, Result};
use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Compression;
use crate::base::Identity;
use crate::numbers::{low_bits, power_of_two, shift_right, to_u64, to_usize};
use crate::qcow2::base_record;
use crate::qcow2::encryption_header::{EncryptionHeader, method_of};
use crate::qcow2::feature_names::FeatureNames;
use crate::qcow2::features::{Autoclear, Compatible, Incompatible};
use crate::qcow2::header_extensions::{ExtensionKind, HeaderExtensions, push_extension};
use crate::qcow2::l2_entry::{DataPlace, L2Rules, ZeroClusters};
use crate::qcow2::units::{Geometry, HostOffset, L2Layout};

/// The magic number `QFI\xfb`.
pub(crate) const MAGIC: [u8; 4] = *b"QFI\xfb";

/// The largest L1 table in bytes: QEMU's limit (specification, field `size`). It bounds the number
/// of bytes to read for one image, and the virtual size.
pub(crate) const L1_SIZE_MAX_BYTES: u64 = 32 << 20;
/// The largest refcount table in bytes: QEMU's limit (specification, "Host cluster management").
pub(crate) const REFCOUNT_TABLE_MAX_BYTES: u64 = 8 << 20;
/// The largest number of internal snapshots: QEMU's limit.
pub(crate) const SNAPSHOTS_MAX: u32 = 65536;
/// The longest backing file name in bytes (specification, field `backing_file_size`).
pub(crate) const BACKING_NAME_MAX_BYTES: u32 = 1023;
/// The cluster sizes that QEMU supports, 512 bytes to 2 MiB, as powers of two.
pub(crate) const CLUSTER_BITS: std::ops::RangeInclusive<u32> = 9..=21;
/// The smallest cluster size for extended L2 entries, 16 KiB (specification, field `cluster_bits`).
pub(crate) const CLUSTER_BITS_MIN_EXTENDED: u32 = 14;
/// The number of bytes to read first: the header and, in almost all images, its extensions.
const FIRST_READ_BYTES: u64 = 4096;

const V2_LEN: usize = 72;
const V3_LEN_MIN: usize = 104;
/// The header length that we write: with the compression type and padding to a multiple of 8.
const V3_LEN: usize = 112;
const COMPRESSION_TYPE_AT: usize = 104;

/// Bytes 0 to 71 of the header, which both versions have.
#[derive(Debug, Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawHeaderV2 {
    pub(crate) magic: [u8; 4],
    pub(crate) version: U32,
    pub(crate) backing_file_offset: U64,
    pub(crate) backing_file_size: U32,
    pub(crate) cluster_bits: U32,
    pub(crate) size: U64,
    pub(crate) crypt_method: U32,
    pub(crate) l1_size: U32,
    pub(crate) l1_table_offset: U64,
    pub(crate) refcount_table_offset: U64,
    pub(crate) refcount_table_clusters: U32,
    pub(crate) nb_snapshots: U32,
    pub(crate) snapshots_offset: U64,
}

/// Bytes 72 to 103 of the header, which version 3 adds.
#[derive(Debug, Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawHeaderV3 {
    pub(crate) incompatible_features: U64,
    pub(crate) compatible_features: U64,
    pub(crate) autoclear_features: U64,
    pub(crate) refcount_order: U32,
    pub(crate) header_length: U32,
}

const _: () = assert!(size_of::<RawHeaderV2>() == V2_LEN);
const _: () = assert!(size_of::<RawHeaderV2>() + size_of::<RawHeaderV3>() == V3_LEN_MIN);

/// A contiguous table in the image file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) at: HostOffset,
    /// The number of 64-bit entries.
    pub(crate) entries: u64,
}

impl Table {
    pub(crate) const fn size_bytes(self) -> u64 {
        self.entries.saturating_mul(8)
    }
}

/// A header whose fields are in range and whose tables lie within the file.
#[derive(Debug, Clone)]
pub(crate) struct Header {
    pub(crate) version: u32,
    pub(crate) geometry: Geometry,
    pub(crate) size_bytes: u64,
    pub(crate) l1: Table,
    pub(crate) refcount_table: Table,
    pub(crate) refcount_order: u32,
    pub(crate) snapshot_count: u32,
    pub(crate) snapshots_at: HostOffset,
    pub(crate) incompatible: Incompatible,
    pub(crate) compatible: Compatible,
    pub(crate) autoclear: Autoclear,
    pub(crate) compression: Compression,
    pub(crate) backing_name: Option<Vec<u8>>,
    /// The location of the LUKS header, if guest clusters are encrypted.
    pub(crate) encryption: Option<EncryptionHeader>,
    pub(crate) extensions: HeaderExtensions,
}

impl Header {
    /// Reads and checks the header of the image in `file`.
    pub(crate) fn read(file: &dyn BlockRead) -> Result<Self> {
        let mut bytes = read_start(file, FIRST_READ_BYTES)?;
        let fixed = Fixed::parse(&bytes)?;
        let geometry = fixed.geometry()?;
        let end_bytes = fixed.extensions_end(geometry)?;
        if HeaderExtensions::parse(&bytes, fixed.header_length, end_bytes).is_err()
            || fixed.backing_name_end() > to_u64(bytes.len())
        {
            // The extensions are either longer than the first read or broken. Reading the whole
            // first cluster shows which.
            bytes = read_start(file, geometry.cluster_size())?;
        }
        fixed.validate(file, &bytes, geometry, end_bytes)
    }

    /// Returns true if a range of the file overlaps the header or one of the tables to which it
    /// points.
    pub(crate) fn overlaps_tables(&self, at: HostOffset, len_bytes: u64) -> bool {
        let end = at.plus(len_bytes).0;
        let cluster_size = self.geometry.cluster_size();
        let snapshots_bytes = if self.snapshot_count > 0 {
            cluster_size
        } else {
            0
        };
        let luks = self.encryption.map(|luks| (luks.at, luks.size_bytes));
        [
            (HostOffset(0), cluster_size),
            (self.l1.at, self.l1.size_bytes()),
            (self.snapshots_at, snapshots_bytes),
            luks.unwrap_or((HostOffset(0), 0)),
        ]
        .into_iter()
        .any(|(start, len)| len > 0 && at.0 < start.plus(len).0 && start.0 < end)
    }

    /// Returns the rules for the image's L2 entries.
    pub(crate) fn l2_rules(&self) -> L2Rules {
        l2_rules(self.geometry, self.version, self.incompatible)
    }

    /// Returns the width of a reference count in bits.
    pub(crate) const fn refcount_bits(&self) -> u64 {
        power_of_two(self.refcount_order)
    }
}

fn l2_rules(geometry: Geometry, version: u32, incompatible: Incompatible) -> L2Rules {
    L2Rules {
        geometry,
        zero_clusters: if version >= 3 {
            ZeroClusters::Allowed
        } else {
            ZeroClusters::Reserved
        },
        data: if incompatible.external_data_file() {
            DataPlace::External
        } else {
            DataPlace::Inside
        },
    }
}

/// Reads at most `len_bytes` from the start of the file.
pub(crate) fn read_start(file: &dyn BlockRead, len_bytes: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; to_usize(len_bytes.min(file.size_bytes()))];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// Returns the error for a file that ends in its header.
pub(crate) fn truncated(bytes: &[u8]) -> Error {
    Error::corrupt("qcow2 header is truncated").at(to_u64(bytes.len()))
}

/// The fixed-size part of the header, as stored.
struct Fixed {
    v2: RawHeaderV2,
    v3: Option<RawHeaderV3>,
    compression_type: u8,
    header_length: usize,
}

impl Fixed {
    fn parse(bytes: &[u8]) -> Result<Self> {
        let (v2, rest) = RawHeaderV2::read_from_prefix(bytes).map_err(|_| truncated(bytes))?;
        if v2.magic != MAGIC {
            return Err(Error::corrupt("not a qcow2 image: missing magic `QFI\\xfb`").at(0));
        }
        match v2.version.get() {
            2 => Ok(Self {
                v2,
                v3: None,
                compression_type: 0,
                header_length: V2_LEN,
            }),
            3 => Self::parse_v3(v2, rest, bytes),
            version => {
                let reason =
                    format!("unsupported qcow2 version {version}; supported: versions 2 and 3");
                Err(Error::unsupported(reason).at(4))
            }
        }
    }

    fn parse_v3(v2: RawHeaderV2, rest: &[u8], bytes: &[u8]) -> Result<Self> {
        let (v3, _) = RawHeaderV3::read_from_prefix(rest).map_err(|_| truncated(bytes))?;
        let header_length = to_usize(u64::from(v3.header_length.get()));
        if header_length < V3_LEN_MIN || !header_length.is_multiple_of(8) {
            let reason = format!(
                "invalid header: header length is {header_length}, expected a multiple of 8 from \
                 104"
            );
            return Err(Error::corrupt(reason).at(100));
        }
        let compression_type = if header_length > COMPRESSION_TYPE_AT {
            bytes.get(COMPRESSION_TYPE_AT).copied().unwrap_or(0)
        } else {
            0
        };
        Ok(Self {
            v2,
            v3: Some(v3),
            compression_type,
            header_length,
        })
    }

    fn incompatible(&self) -> Incompatible {
        Incompatible(
            self.v3
                .as_ref()
                .map_or(0, |v3| v3.incompatible_features.get()),
        )
    }

    fn geometry(&self) -> Result<Geometry> {
        let bits = self.v2.cluster_bits.get();
        let (layout, min) = if self.incompatible().extended_l2() {
            (L2Layout::Extended, CLUSTER_BITS_MIN_EXTENDED)
        } else {
            (L2Layout::Standard, *CLUSTER_BITS.start())
        };
        if bits < min || bits > *CLUSTER_BITS.end() {
            let reason =
                format!("invalid header: cluster size is 2^{bits}, expected 2^{min} to 2^21");
            return Err(Error::corrupt(reason).at(20));
        }
        if self.header_length > to_usize(power_of_two(bits)) {
            let reason = format!(
                "invalid header: header length {} exceeds the first cluster",
                self.header_length
            );
            return Err(Error::corrupt(reason).at(100));
        }
        Ok(Geometry::new(bits, layout))
    }

    /// Returns where the extensions end: at the backing file's name, or with the first cluster.
    fn extensions_end(&self, geometry: Geometry) -> Result<usize> {
        let name_at = self.v2.backing_file_offset.get();
        if name_at == 0 {
            return Ok(to_usize(geometry.cluster_size()));
        }
        if name_at > geometry.cluster_size() {
            let reason = format!(
                "invalid header: backing file name at {name_at:#x}, not in the first cluster"
            );
            return Err(Error::corrupt(reason).at(8));
        }
        Ok(to_usize(name_at))
    }

    fn validate(
        &self,
        file: &dyn BlockRead,
        first: &[u8],
        geometry: Geometry,
        extensions_end: usize,
    ) -> Result<Header> {
        let extensions = HeaderExtensions::parse(first, self.header_length, extensions_end)?;
        let incompatible = self.incompatible();
        incompatible.refuse_unknown(&extensions.feature_names)?;
        let method = self.v2.crypt_method.get();
        let encryption =
            EncryptionHeader::of_method(method, extensions.encryption, file, geometry)?;
        let (size_bytes, l1) = self.l1(file, geometry)?;
        Ok(Header {
            version: self.v2.version.get(),
            geometry,
            size_bytes,
            l1,
            refcount_table: self.refcount_table(geometry)?,
            refcount_order: self.refcount_order()?,
            snapshot_count: self.snapshot_count(geometry)?,
            snapshots_at: HostOffset(self.v2.snapshots_offset.get()),
            incompatible,
            compatible: Compatible(
                self.v3
                    .as_ref()
                    .map_or(0, |v3| v3.compatible_features.get()),
            ),
            autoclear: Autoclear(self.v3.as_ref().map_or(0, |v3| v3.autoclear_features.get())),
            compression: self.compression()?,
            backing_name: self.backing_name(first)?,
            encryption,
            extensions,
        })
    }

    fn l1(&self, file: &dyn BlockRead, geometry: Geometry) -> Result<(u64, Table)> {
        let size_bytes = self.v2.size.get();
        let table = Table {
            at: HostOffset(self.v2.l1_table_offset.get()),
            entries: u64::from(self.v2.l1_size.get()),
        };
        check_l1(file, geometry, table, size_bytes)?;
        Ok((size_bytes, table))
    }

    fn refcount_table(&self, geometry: Geometry) -> Result<Table> {
        let at = self.v2.refcount_table_offset.get();
        let size_bytes = u64::from(self.v2.refcount_table_clusters.get())
            .saturating_mul(geometry.cluster_size());
        if size_bytes > REFCOUNT_TABLE_MAX_BYTES {
            let reason = format!(
                "refcount table is too large: {size_bytes} bytes, QEMU's limit is \
                 {REFCOUNT_TABLE_MAX_BYTES}"
            );
            return Err(Error::corrupt(reason).at(56));
        }
        if !geometry.is_cluster_aligned(at) {
            let reason =
                format!("invalid refcount table offset {at:#x}: not at the start of a cluster");
            return Err(Error::corrupt(reason).at(48));
        }
        Ok(Table {
            at: HostOffset(at),
            entries: size_bytes.checked_div(8).unwrap_or(0),
        })
    }

    fn refcount_order(&self) -> Result<u32> {
        // Version 2 has refcounts of 16 bits (specification, field `refcount_order`).
        let order = self.v3.as_ref().map_or(4, |v3| v3.refcount_order.get());
        if order > 6 {
            let reason = format!("invalid header: refcount order is {order}, expected 0 to 6");
            return Err(Error::corrupt(reason).at(96));
        }
        Ok(order)
    }

    fn snapshot_count(&self, geometry: Geometry) -> Result<u32> {
        let count = self.v2.nb_snapshots.get();
        if count > SNAPSHOTS_MAX {
            let reason = format!("too many snapshots: {count}, QEMU's limit is {SNAPSHOTS_MAX}");
            return Err(Error::corrupt(reason).at(60));
        }
        let at = self.v2.snapshots_offset.get();
        if count > 0 && !geometry.is_cluster_aligned(at) {
            let reason =
                format!("invalid snapshot table offset {at:#x}: not at the start of a cluster");
            return Err(Error::corrupt(reason).at(64));
        }
        Ok(count)
    }

    fn compression(&self) -> Result<Compression> {
        match (
            self.incompatible().compression_type(),
            self.compression_type,
        ) {
            (false, 0) => Ok(Compression::Zlib),
            (true, 1) => Ok(Compression::Zstd),
            (true, 0) => Err(Error::corrupt(
                "compression type is deflate, but its feature bit is set",
            )
            .at(104)),
            (false, other) => Err(Error::corrupt(format!(
                "compression type is {other}, but its feature bit is not set"
            ))
            .at(104)),
            (true, other) => {
                Err(Error::unsupported(format!("unknown compression type {other}")).at(104))
            }
        }
    }

    fn backing_name_end(&self) -> u64 {
        let len_bytes = u64::from(self.v2.backing_file_size.get());
        match self.v2.backing_file_offset.get() {
            0 => 0,
            at => at.saturating_add(len_bytes),
        }
    }

    fn backing_name(&self, first: &[u8]) -> Result<Option<Vec<u8>>> {
        let at = self.v2.backing_file_offset.get();
        let len = self.v2.backing_file_size.get();
        if at == 0 || len == 0 {
            return Ok(None);
        }
        if len > BACKING_NAME_MAX_BYTES {
            let reason = format!(
                "backing file name is too long: {len} bytes, at most {BACKING_NAME_MAX_BYTES}"
            );
            return Err(Error::corrupt(reason).at(16));
        }
        let start = to_usize(at);
        let end = start.saturating_add(to_usize(u64::from(len)));
        match first.get(start..end) {
            Some(name) => Ok(Some(name.to_vec())),
            None => Err(Error::corrupt("backing file name extends past the first cluster").at(at)),
        }
    }
}

/// The contents of a new image's header.
#[derive(Debug, Clone)]
pub(crate) struct NewHeader {
    pub(crate) version: u32,
    pub(crate) geometry: Geometry,
    pub(crate) size_bytes: u64,
    pub(crate) l1: Table,
    pub(crate) refcount_table: Table,
    pub(crate) refcount_order: u32,
    pub(crate) incompatible: Incompatible,
    pub(crate) compatible: Compatible,
    pub(crate) autoclear: Autoclear,
    pub(crate) compression: Compression,
    pub(crate) backing: Option<NamedBacking>,
    pub(crate) data_file: Option<Vec<u8>>,
    /// The location of the LUKS header, if the image is encrypted.
    pub(crate) encryption: Option<EncryptionHeader>,
}

/// The optional extensions to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extras {
    /// True to write the feature name table, which is used only in messages.
    names: bool,
    base_record: bool,
}

/// The backing file as a header names it.
#[derive(Debug, Clone)]
pub(crate) struct NamedBacking {
    pub(crate) name: Vec<u8>,
    pub(crate) format: &'static str,
    /// The current state of the backing file, if known.
    pub(crate) identity: Option<Identity>,
}

impl NamedBacking {
    /// Appends the record of the backing file's state.
    pub(crate) fn push_record(&self, bytes: &mut Vec<u8>) {
        let record = base_record::encode(&self.name, self.identity);
        push_extension(bytes, ExtensionKind::BaseRecord, &record);
    }
}

impl NewHeader {
    /// Returns the rules for the image's L2 entries.
    pub(crate) fn l2_rules(&self) -> L2Rules {
        l2_rules(self.geometry, self.version, self.incompatible)
    }

    /// Encodes the image's first bytes: header, extensions and the backing file's name. They must
    /// fit in the first cluster.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        // Clusters of 512 bytes may have no room for all extensions.
        let bytes = [(true, true), (false, true), (false, false)]
            .map(|(names, base_record)| Extras { names, base_record })
            .map(|extras| self.encode_with(extras))
            .into_iter()
            .find(|bytes| to_u64(bytes.len()) <= self.geometry.cluster_size())
            .unwrap_or_default();
        let name = self
            .backing
            .as_ref()
            .map_or(&[][..], |backing| &backing.name);
        if bytes.is_empty() || to_u64(name.len()) > u64::from(BACKING_NAME_MAX_BYTES) {
            let reason = format!(
                "the names of backing file and data file do not fit in a cluster of {} bytes",
                self.geometry.cluster_size()
            );
            return Err(Error::invalid(reason).with_hint("use shorter names"));
        }
        Ok(bytes)
    }

    fn encode_with(&self, extras: Extras) -> Vec<u8> {
        let header_length = if self.version < 3 { V2_LEN } else { V3_LEN };
        let mut rest = Vec::new();
        if let Some(backing) = &self.backing {
            push_extension(
                &mut rest,
                ExtensionKind::BackingFormat,
                backing.format.as_bytes(),
            );
            if extras.base_record {
                backing.push_record(&mut rest);
            }
        }
        if let Some(data_file) = &self.data_file {
            push_extension(&mut rest, ExtensionKind::DataFile, data_file);
        }
        if let Some(encryption) = &self.encryption {
            push_extension(
                &mut rest,
                ExtensionKind::EncryptionHeader,
                &encryption.encode(),
            );
        }
        if self.version >= 3 && extras.names {
            let names = FeatureNames::standard_table();
            push_extension(&mut rest, ExtensionKind::FeatureNames, &names);
        }
        push_extension(&mut rest, ExtensionKind::End, &[]);
        let name_at = header_length.saturating_add(rest.len());
        if let Some(backing) = &self.backing {
            rest.extend_from_slice(&backing.name);
        }
        let mut bytes = self.fixed(to_u64(name_at));
        bytes.extend_from_slice(&rest);
        bytes
    }

    fn fixed(&self, name_at: u64) -> Vec<u8> {
        // Every number fits: the name was measured, and tables and counts were checked against
        // QEMU's limits.
        let u32_of = |number: u64| U32::new(u32::try_from(number).unwrap_or(u32::MAX));
        let name_len = self.backing.as_ref().map(|backing| backing.name.len());
        let table_clusters = shift_right(
            self.refcount_table.size_bytes(),
            self.geometry.cluster_bits(),
        );
        let v2 = RawHeaderV2 {
            magic: MAGIC,
            version: self.version.into(),
            backing_file_offset: name_len.map_or(0, |_| name_at).into(),
            backing_file_size: u32_of(to_u64(name_len.unwrap_or(0))),
            cluster_bits: self.geometry.cluster_bits().into(),
            size: self.size_bytes.into(),
            crypt_method: method_of(self.encryption).into(),
            l1_size: u32_of(self.l1.entries),
            l1_table_offset: self.l1.at.0.into(),
            refcount_table_offset: self.refcount_table.at.0.into(),
            refcount_table_clusters: u32_of(table_clusters),
            nb_snapshots: 0.into(),
            snapshots_offset: 0.into(),
        };
        let mut bytes = v2.as_bytes().to_vec();
        if self.version >= 3 {
            let v3 = RawHeaderV3 {
                incompatible_features: self.incompatible.0.into(),
                compatible_features: self.compatible.0.into(),
                autoclear_features: self.autoclear.0.into(),
                refcount_order: self.refcount_order.into(),
                header_length: u32_of(to_u64(V3_LEN)),
            };
            bytes.extend_from_slice(v3.as_bytes());
            bytes.push(match self.compression {
                Compression::Zlib => 0,
                Compression::Zstd => 1,
            });
            bytes.resize(V3_LEN, 0);
        }
        bytes
    }
}

/// Checks an L1 table, the active one or a snapshot's, for a disk of `size_bytes`.
pub(crate) fn check_l1(
    file: &dyn BlockRead,
    geometry: Geometry,
    table: Table,
    size_bytes: u64,
) -> Result<()> {
    let at = table.at.0;
    if table.size_bytes() > L1_SIZE_MAX_BYTES {
        let reason = format!(
            "L1 table is too large: {} entries, QEMU's limit is {}",
            table.entries,
            L1_SIZE_MAX_BYTES / 8
        );
        return Err(Error::corrupt(reason).at(36));
    }
    let needed = geometry.l1_entries_for(size_bytes);
    if table.entries < needed {
        let reason = format!(
            "invalid L1 table: it has {} entries, a disk of {size_bytes} bytes needs {needed}",
            table.entries
        );
        return Err(Error::corrupt(reason).at(36));
    }
    if low_bits(at, geometry.cluster_bits()) != 0 {
        let reason = format!("invalid L1 table offset {at:#x}: not at the start of a cluster");
        return Err(Error::corrupt(reason).at(40));
    }
    // The table may be longer than the disk needs (for saved machine state); only the part for the
    // disk is read.
    let end = at.checked_add(needed.saturating_mul(8));
    if needed > 0 && end.is_none_or(|end| end > file.size_bytes()) {
        let reason = format!(
            "L1 table of {needed} entries extends past the end of the file ({} bytes)",
            file.size_bytes()
        );
        return Err(Error::corrupt(reason).at(at));
    }
    Ok(())
}
