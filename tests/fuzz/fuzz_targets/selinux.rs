//! The libFuzzer target of `diskfs_fuzz::selinux`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| diskfs_fuzz::selinux(data));
