//! `diskfs_fuzz::ext4_write` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| diskfs_fuzz::ext4_write(data));
