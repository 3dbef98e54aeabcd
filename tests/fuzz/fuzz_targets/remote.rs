//! The libFuzzer target of `diskfs_fuzz::remote`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| diskfs_fuzz::remote(data));
