//! The kernel capabilities that a read-write mount requests.

use fuser::InitFlags;

/// The requested capabilities; those that the kernel lacks are left out. `export/DESIGN.md` has the
/// reasons.
pub(super) const CAPABILITIES: [InitFlags; 8] = [
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    // The driver applies the umask, because a default ACL takes precedence over it.
    InitFlags::FUSE_DONT_MASK,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_CACHE_SYMLINKS,
    InitFlags::FUSE_EXPLICIT_INVAL_DATA,
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_EXPORT_SUPPORT,
];

/// The additional capabilities for the kernel's write-back cache.
pub(super) const WRITE_BACK_CAPABILITIES: [InitFlags; 2] = [
    InitFlags::FUSE_WRITEBACK_CACHE,
    // Append-only files bypass the cache and can still be mapped.
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
];

/// The capability of kernels that, before they write past their cache, write what it has of the range
/// and drop it (Linux 6.6).
pub(super) const PAST_CACHE: InitFlags = InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP;
