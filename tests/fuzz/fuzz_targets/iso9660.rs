//! The libFuzzer target of `diskfs_fuzz::iso9660`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| diskfs_fuzz::iso9660(data));
