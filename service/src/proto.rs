//! The messages and services of the .proto files. The test `proto` keeps them up to date.

/// The descriptors of all services, for reflection.
pub(crate) const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");

/// The host-deployer's service.
#[expect(clippy::pedantic, unreachable_pub, reason = "generated")]
pub mod apis {
    include!("generated/apis.rs");
}

/// Implements `Debug` for messages with secrets, which must not get into logs.
macro_rules! hide_secrets {
    ($($message:ty),*) => {$(
        impl std::fmt::Debug for $message {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($message)).finish_non_exhaustive()
            }
        }
    )*};
}

hide_secrets!(
    apis::DiskInfo,
    apis::DeployInfo,
    apis::VddkConInfo,
    apis::DeployGuestFsResponse,
    v1::Disk,
    v1::Secret
);

/// diskfs's own service.
#[expect(clippy::pedantic, unreachable_pub, reason = "generated")]
pub mod v1 {
    include!("generated/diskfs.v1.rs");
}
