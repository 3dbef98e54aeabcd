//! The libFuzzer target of `diskfs_fuzz::xfs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| diskfs_fuzz::xfs(data));
