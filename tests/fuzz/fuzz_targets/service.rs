//! The libFuzzer target of `diskfs_fuzz::service`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| diskfs_fuzz::service(data));
