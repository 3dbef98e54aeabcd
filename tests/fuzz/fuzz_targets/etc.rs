//! `diskfs_fuzz::etc` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| diskfs_fuzz::etc(data));
