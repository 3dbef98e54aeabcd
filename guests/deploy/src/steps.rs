//! The steps of plans: one module for each area of a guest's settings.

mod agent;
mod certificate;
mod clock;
mod cloud_init;
mod cron;
mod files;
mod firstboot;
mod fstab;
mod hostname;
mod hosts;
mod identity;
mod kernel;
mod kernel_arguments;
mod network;
mod password;
mod repository;
mod resolver;
mod selinux;
mod serial_console;
mod ssh_host_keys;
mod ssh_key;
mod sshd;
mod sudoers;
mod swap;
mod sysprep;
mod template;
mod udev;
mod units;
mod user;

pub use agent::{Agent, Preset};
pub use certificate::Certificate;
pub use clock::{Locale, Timezone};
pub use cloud_init::{CloudInit, Seed};
pub use cron::CronStep;
pub use files::{
    Append, CopyIn, Delete, Json, Link, MakeDir, Mode, Owner, Permissions, Tar, Upload, Write,
};
pub use firstboot::Firstboot;
pub use fstab::{Fstab, FstabEntry};
pub use hostname::Hostname;
pub use hosts::{Host, Hosts};
pub use identity::{MachineId, RandomSeed};
pub use kernel::{Modules, Sysctl};
pub use kernel_arguments::KernelArguments;
pub use network::{
    AdSelect, ArpAllTargets, ArpValidate, Bond, BondMode, FailOverMac, Interface, LacpRate, Mac,
    Network, Prefix, PrimaryReselect, Route, Stack, Vlan, XmitHashPolicy,
};
pub use password::{Password, PasswordWords, RootPassword, Selector, first_line};
pub use repository::Repository;
pub use resolver::Resolver;
pub use selinux::{Selinux, SelinuxMode};
pub use serial_console::SerialConsole;
pub use ssh_host_keys::SshHostKeys;
pub use ssh_key::SshKey;
pub use sshd::{Sshd, Value};
pub use sudoers::Sudoers;
pub use swap::{Size, Swap};
pub use sysprep::{OPERATIONS, Operation, Sysprep};
pub use template::Template;
pub use udev::Udev;
pub use units::{UnitFile, Units};
pub use user::{Sudo, User};

#[cfg(test)]
pub(super) mod testing;
