//! The libFuzzer target of `diskfs_fuzz::ext4_write`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| diskfs_fuzz::ext4_write(data));
