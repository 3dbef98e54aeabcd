//! The libFuzzer target of `diskfs_fuzz::image_maps`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| diskfs_fuzz::image_maps(data));
