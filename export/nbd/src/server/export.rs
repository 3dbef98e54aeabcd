//! The exports of a server.

use std::fmt::Debug;
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Error, ExtentKind, Result};

use super::data_run::DataRun;
use crate::protocol::{
    BASE_ALLOCATION, Headers, Info, MAX_PAYLOAD_BYTES, MAX_QUERIES, MAX_STRING_BYTES, StateFlags,
    TransmissionFlags,
};

/// The largest minimum block size (section "Size constraints").
const MAX_MINIMUM: u32 = 64 << 10;

/// The smallest preferred block size (section "Size constraints").
const MIN_PREFERRED: u32 = 512;

/// The preferred block size if the device asks for less.
const DEFAULT_PREFERRED: u32 = 4096;

/// The smallest maximum payload that an export may have.
const MIN_MAXIMUM: u32 = 1 << 20;

/// The size constraints of an export, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSizes {
    /// The unit of offsets and lengths: a power of two up to 64 KiB.
    pub minimum: u32,
    /// The unit in which requests are cheapest: a power of two, at least 512.
    pub preferred: u32,
    /// The maximum length of a read or a write: at least 1 MiB, at most 32 MiB.
    pub maximum: u32,
}

impl BlockSizes {
    /// Returns the constraints for a device: none but its preferred block size.
    fn of(device: &dyn BlockRead) -> Self {
        let preferred = device.block_size().clamp(DEFAULT_PREFERRED, MIN_MAXIMUM);
        Self {
            minimum: 1,
            preferred: preferred.next_power_of_two(),
            maximum: MAX_PAYLOAD_BYTES,
        }
    }

    fn check(self) -> Result<()> {
        let is_valid = self.minimum.is_power_of_two()
            && self.minimum <= MAX_MINIMUM
            && self.preferred.is_power_of_two()
            && self.preferred >= self.minimum.max(MIN_PREFERRED)
            && self.maximum >= self.preferred.max(MIN_MAXIMUM)
            && self.maximum <= MAX_PAYLOAD_BYTES;
        if is_valid {
            Ok(())
        } else {
            Err(Error::invalid(format!("invalid block sizes {self:?}")))
        }
    }
}

/// The status of a run in a metadata context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// The length of the run in bytes; never zero.
    pub len_bytes: u64,
    /// The flags, which the context defines.
    pub flags: u32,
}

/// A metadata context of an export: a status for each byte, such as the dirty bitmap
/// `qemu:dirty-bitmap:NAME`, whose flag 1 means "dirty".
pub trait MetaContext: Debug + Send + Sync {
    /// Returns the name: a namespace, a colon, and the name in it.
    fn name(&self) -> &str;

    /// Returns the run that begins at `offset`. The run need not be maximal.
    ///
    /// # Errors
    /// Returns the errors of the device.
    fn status_at(&self, offset: u64) -> Result<Status>;
}

/// The context `base:allocation` of a device.
#[derive(Debug)]
struct Allocation(Device);

impl MetaContext for Allocation {
    fn name(&self) -> &str {
        BASE_ALLOCATION
    }

    fn status_at(&self, offset: u64) -> Result<Status> {
        let extent = self.0.reader().extent_at(offset)?;
        let flags = match extent.kind {
            ExtentKind::Data => StateFlags::empty(),
            // A zero cluster also needs space when it is written, as a hole does.
            ExtentKind::Zero | ExtentKind::Unallocated => StateFlags::HOLE | StateFlags::ZERO,
        };
        Ok(Status {
            len_bytes: extent.len_bytes,
            flags: flags.bits(),
        })
    }
}

/// The device of an export.
#[derive(Debug, Clone)]
pub(super) enum Device {
    ReadOnly(Arc<dyn BlockRead>),
    Writable(Arc<dyn BlockWrite>),
}

impl Device {
    pub(super) fn reader(&self) -> &dyn BlockRead {
        match self {
            Self::ReadOnly(device) => device.as_ref(),
            Self::Writable(device) => device.as_ref(),
        }
    }

    pub(super) fn writer(&self) -> Option<&dyn BlockWrite> {
        match self {
            Self::ReadOnly(_) => None,
            Self::Writable(device) => Some(device.as_ref()),
        }
    }
}

/// A device that a server exports under a name.
#[derive(Debug)]
pub struct Export {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) device: Device,
    pub(super) data_run: DataRun,
    pub(super) sizes: BlockSizes,
    /// The contexts; the number of a context is its index.
    pub(super) contexts: Vec<Arc<dyn MetaContext>>,
    /// True if all connections of a client use the same device.
    pub(super) is_shared: bool,
}

impl Export {
    /// Returns an export that clients only read. The default export of a server has an empty name.
    pub fn read_only(name: impl Into<String>, device: Arc<dyn BlockRead>) -> Self {
        Self::new(name.into(), Device::ReadOnly(device))
    }

    /// Returns an export that clients read and write.
    pub fn writable(name: impl Into<String>, device: Arc<dyn BlockWrite>) -> Self {
        Self::new(name.into(), Device::Writable(device))
    }

    fn new(name: String, device: Device) -> Self {
        Self {
            name,
            description: String::new(),
            sizes: BlockSizes::of(device.reader()),
            contexts: vec![Arc::new(Allocation(device.clone()))],
            device,
            data_run: DataRun::default(),
            is_shared: true,
        }
    }

    /// Sets the description, a text for people.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Sets the size constraints. The default has none but the device's own block size.
    #[must_use]
    pub fn block_sizes(mut self, sizes: BlockSizes) -> Self {
        self.sizes = sizes;
        self
    }

    /// Adds a metadata context besides `base:allocation`.
    #[must_use]
    pub fn context(mut self, context: Arc<dyn MetaContext>) -> Self {
        self.contexts.push(context);
        self
    }

    /// Fails unless clients can be told the texts and sizes of the export.
    pub(super) fn check(&self) -> Result<()> {
        self.sizes.check()?;
        let contexts = self.contexts.iter().map(|context| context.name());
        if self.contexts.len() > MAX_QUERIES {
            return Err(Error::invalid("more than 64 metadata contexts"));
        }
        for text in contexts.chain([&*self.name, &*self.description]) {
            if text.len() > MAX_STRING_BYTES || text.contains('\0') {
                let reason = "a name or a description is longer than 4096 bytes or contains NUL";
                return Err(Error::invalid(reason));
            }
        }
        Ok(())
    }

    /// Returns the flags for a client.
    pub(super) fn flags(&self, headers: Headers, has_contexts: bool) -> TransmissionFlags {
        // All connections share the device, so a flush of one covers the writes of all.
        let mut flags = TransmissionFlags::HAS_FLAGS
            | TransmissionFlags::SEND_FLUSH
            | TransmissionFlags::SEND_FUA
            | TransmissionFlags::SEND_CACHE;
        flags.set(TransmissionFlags::CAN_MULTI_CONN, self.is_shared);
        flags |= match self.device {
            Device::ReadOnly(_) => TransmissionFlags::READ_ONLY,
            Device::Writable(_) => {
                TransmissionFlags::SEND_TRIM
                    | TransmissionFlags::SEND_WRITE_ZEROES
                    | TransmissionFlags::SEND_FAST_ZERO
            }
        };
        let is_extended = headers == Headers::Extended;
        flags.set(TransmissionFlags::SEND_DF, headers != Headers::Simple);
        flags.set(
            TransmissionFlags::BLOCK_STATUS_PAYLOAD,
            is_extended && has_contexts,
        );
        flags
    }

    /// Returns the information of `NBD_INFO_BLOCK_SIZE`.
    pub(super) fn block_size_info(&self) -> Info {
        Info::BlockSize {
            minimum: self.sizes.minimum,
            preferred: self.sizes.preferred,
            maximum: self.sizes.maximum,
        }
    }
}
