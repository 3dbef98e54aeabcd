//! The libFuzzer target of `diskfs_fuzz::nbd_server`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| diskfs_fuzz::nbd_server(data));
