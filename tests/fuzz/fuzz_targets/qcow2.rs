//! The libFuzzer target of `diskfs_fuzz::qcow2`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| diskfs_fuzz::qcow2(data));
