//! What a mount that is written asks of the kernel.

use fuser::InitFlags;

/// What the kernel is asked for, as far as it has it; the reasons are in `export/DESIGN.md`.
pub(super) const WANTED: [InitFlags; 8] = [
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    // The umask is the driver's to apply: a default ACL goes before it.
    InitFlags::FUSE_DONT_MASK,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_CACHE_SYMLINKS,
    InitFlags::FUSE_EXPLICIT_INVAL_DATA,
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_EXPORT_SUPPORT,
];

/// The same where the kernel keeps what is written.
pub(super) const WANTED_TO_CACHE: [InitFlags; 2] = [
    InitFlags::FUSE_WRITEBACK_CACHE,
    // Append-only files are written without the cache, and can be mapped all the same.
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
];
