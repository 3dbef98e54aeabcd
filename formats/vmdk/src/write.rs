//! Writers of images: stream-optimised ones in order, sparse ones at any place.

mod compress;
mod descriptor_text;
mod header;
mod options;
mod sparse;
mod sparse_layout;
mod stream;

pub use compress::{GrainCompressor, compress_grain};
pub use options::{ADAPTER_TYPES, GRAIN_BYTES, WriteOptions};
pub use sparse::SparseWriter;
pub use sparse_layout::SparseLayout;
pub use stream::StreamWriter;
