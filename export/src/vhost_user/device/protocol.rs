//! The handler of the front end's messages.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use vhost::VhostUserMemoryRegionBase;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserShMemConfig, VhostUserSharedMsg,
    VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{
    Error, GpuBackend, Result, VhostUserBackendReqHandlerMut, VhostUserProtocolFeatures,
    VhostUserVirtioFeatures,
};
use virtio_bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};

use super::Device;
use super::memory::{FrontEndAddresses, map};
use super::ring::{Addresses, Ring};
use super::rings::Rings;

/// The features that every device offers.
const COMMON: u64 = 1 << VIRTIO_F_VERSION_1
    | 1 << VIRTIO_RING_F_INDIRECT_DESC
    | 1 << VIRTIO_RING_F_EVENT_IDX
    | PROTOCOL_FEATURES;

const PROTOCOL_FEATURES: u64 = VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();

const EVENT_INDEX: u64 = 1 << VIRTIO_RING_F_EVENT_IDX;

/// The state that the messages of one front end change.
pub(super) struct Handler<D> {
    device: Arc<D>,
    rings: Arc<Rings>,
    addresses: FrontEndAddresses,
}

impl<D: Device> Handler<D> {
    pub(super) fn new(device: Arc<D>, rings: Arc<Rings>) -> Self {
        Self {
            device,
            rings,
            addresses: FrontEndAddresses::default(),
        }
    }

    fn features(&self) -> u64 {
        self.device.features() | COMMON
    }

    fn ring(&self, index: u32) -> Result<&Ring> {
        let index = u16::try_from(index).ok();
        let ring = index.and_then(|index| self.rings.ring(index));
        ring.ok_or(Error::InvalidParam)
    }

    fn unwatch(&self, index: u32, kick: &OwnedFd) {
        if let Ok(index) = u16::try_from(index) {
            self.rings.unwatch(index, kick);
        }
    }

    fn guest_address(&self, front_end: u64) -> Result<u64> {
        let found = self.addresses.guest_address(front_end);
        found.ok_or_else(|| invalid(format!("no memory is shared at address {front_end:#x}")))
    }
}

fn invalid(reason: String) -> Error {
    Error::ReqHandlerError(io::Error::new(io::ErrorKind::InvalidInput, reason))
}

fn of_ring(error: &virtio_queue::Error) -> Error {
    invalid(error.to_string())
}

fn of_host(error: rustix::io::Errno) -> Error {
    Error::ReqHandlerError(error.into())
}

/// Refuses a message of a protocol feature that we don't offer.
fn not_offered<T>() -> Result<T> {
    Err(Error::InvalidOperation("not supported"))
}

impl<D: Device> VhostUserBackendReqHandlerMut for Handler<D> {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        not_offered()
    }

    fn reset_device(&mut self) -> Result<()> {
        not_offered()
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(self.features())
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        let unknown = features & !self.features();
        if unknown != 0 {
            return Err(invalid(format!("features {unknown:#x} were not offered")));
        }
        self.device.set_features(features);
        for ring in self.rings.iter() {
            ring.set_event_index(features & EVENT_INDEX != 0);
            // If the protocol feature is not negotiated, there is no message to enable rings: all
            // are enabled.
            if features & PROTOCOL_FEATURES == 0 {
                ring.set_enabled(true);
            }
        }
        self.rings.wake_each();
        Ok(())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::BACKEND_REQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::REPLY_ACK)
    }

    fn set_protocol_features(&mut self, _features: u64) -> Result<()> {
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        let count = u64::try_from(self.rings.iter().count());
        count.map_err(|_| Error::BackendInternalError)
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _postcopy: Option<bool>,
    ) -> Result<Option<Vec<VhostUserMemoryRegionBase>>> {
        let (memory, addresses) = map(regions, files).map_err(Error::ReqHandlerError)?;
        self.rings.memory.replace(memory);
        self.addresses = addresses;
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        self.ring(index)?
            .set_size(num)
            .map_err(|error| of_ring(&error))
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _flags: VhostUserVringAddrFlags,
        descriptor: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        let addresses = Addresses {
            descriptors: self.guest_address(descriptor)?,
            available: self.guest_address(available)?,
            used: self.guest_address(used)?,
        };
        let ring = self.ring(index)?;
        ring.set_addresses(&addresses)
            .map_err(|error| of_ring(&error))
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        self.ring(index)?
            .set_next_available(base)
            .map_err(|error| of_ring(&error))
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let (next, kick) = self.ring(index)?.stop();
        if let Some(kick) = kick {
            self.unwatch(index, &kick);
        }
        Ok(VhostUserVringState::new(index, next.into()))
    }

    fn set_vring_kick(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let ring = self.ring(index.into())?;
        // Without a kick descriptor we would have to poll.
        let kick = OwnedFd::from(fd.ok_or(Error::InvalidParam)?);
        ring.start().map_err(|error| of_ring(&error))?;
        self.rings.watch(index.into(), &kick).map_err(of_host)?;
        if let Some(before) = ring.set_kick(kick) {
            self.unwatch(index.into(), &before);
        }
        self.rings.wake_each();
        Ok(())
    }

    fn set_vring_call(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let ring = self.ring(index.into())?;
        ring.set_call(fd.map(OwnedFd::from)).map_err(of_host)
    }

    fn set_vring_err(&mut self, index: u8, _fd: Option<File>) -> Result<()> {
        self.ring(index.into()).map(|_| ())
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        self.ring(index)?.set_enabled(enable);
        self.rings.wake_each();
        Ok(())
    }

    fn get_config(
        &mut self,
        offset: u32,
        size: u32,
        _flags: VhostUserConfigFlags,
    ) -> Result<Vec<u8>> {
        // Both are at most 4 KiB, which vhost has checked.
        let (offset, size) = (usize::try_from(offset), usize::try_from(size));
        let (Ok(offset), Ok(size)) = (offset, size) else {
            return Err(Error::InvalidParam);
        };
        let config = self.device.config().into_iter().chain(std::iter::repeat(0));
        Ok(config.skip(offset).take(size).collect())
    }

    fn set_config(
        &mut self,
        _offset: u32,
        _buf: &[u8],
        _flags: VhostUserConfigFlags,
    ) -> Result<()> {
        // The configuration is read-only. A guest that writes it is ignored, not disconnected.
        Ok(())
    }

    fn set_gpu_socket(&mut self, _socket: GpuBackend) -> Result<()> {
        not_offered()
    }

    fn get_shared_object(&mut self, _uuid: VhostUserSharedMsg) -> Result<File> {
        not_offered()
    }

    fn get_inflight_fd(
        &mut self,
        _inflight: &VhostUserInflight,
    ) -> Result<(VhostUserInflight, File)> {
        not_offered()
    }

    fn set_inflight_fd(&mut self, _inflight: &VhostUserInflight, _file: File) -> Result<()> {
        not_offered()
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        not_offered()
    }

    fn add_mem_region(
        &mut self,
        _region: &VhostUserSingleMemoryRegion,
        _fd: File,
        _postcopy: Option<bool>,
    ) -> Result<Option<VhostUserMemoryRegionBase>> {
        not_offered()
    }

    fn remove_mem_region(&mut self, _region: &VhostUserSingleMemoryRegion) -> Result<()> {
        not_offered()
    }

    fn set_device_state_fd(
        &mut self,
        _direction: VhostTransferStateDirection,
        _phase: VhostTransferStatePhase,
        _fd: File,
    ) -> Result<Option<File>> {
        not_offered()
    }

    fn check_device_state(&mut self) -> Result<()> {
        not_offered()
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        not_offered()
    }

    fn set_log_base(&mut self, _log: &VhostUserLog, _file: File) -> Result<()> {
        not_offered()
    }
}
