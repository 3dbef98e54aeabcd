//! `diskfs_fuzz::md` for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| diskfs_fuzz::md(data));
