//! The crash harness. See `tests/README.md`.

pub mod crash_points;
pub mod e2fsck;
pub mod examine;
pub mod exhaustive;
pub mod feature_set;
pub mod files;
pub mod generate;
pub mod history;
pub mod host;
pub mod image;
pub mod judge;
pub mod layer;
pub mod lockstep;
pub mod many;
pub mod mirror;
pub mod node;
pub mod operation;
pub mod pattern;
pub mod plan;
pub mod random;
pub mod reduce;
pub mod session;
pub mod soak;
pub mod vocabulary;
pub mod writer;
