//! `diskfs_fuzz::qcow2` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| diskfs_fuzz::qcow2(data));
