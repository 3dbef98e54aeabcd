//! `diskfs_fuzz::iso9660` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| diskfs_fuzz::iso9660(data));
