//! The libFuzzer target of `diskfs_fuzz::ova`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| diskfs_fuzz::ova(data));
