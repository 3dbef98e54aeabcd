//! The boot loader of a plan.

use serde::{Deserialize, Serialize};

/// The UEFI boot loader. Its programs, a kernel and an initramfs come from the files of the image;
/// no program of the image is run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BootloaderPlan {
    /// The boot loader. Default: the first one that the files have.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<BootloaderKind>,
    /// The path of the kernel. Default: the newest `/boot/vmlinuz-*`, else `/vmlinuz`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The path of the initramfs; empty for none. Default: the one in `/boot` with the version of
    /// the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initrd: Option<String>,
    /// Arguments of the kernel after `root=... ro`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub arguments: String,
    /// The title of the entry. Default: the name of the system in `/etc/os-release`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The time in seconds for which the menu is shown.
    #[serde(default)]
    pub timeout: u32,
}

/// A UEFI boot loader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BootloaderKind {
    /// systemd-boot. The kernel and the initramfs are copied to the system partition.
    SystemdBoot,
    /// GRUB's image with all modules. The kernel stays on its filesystem.
    Grub,
    /// shim and the signed image of GRUB, for Secure Boot.
    Shim,
}
