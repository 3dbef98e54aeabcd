//! See `DESIGN.md`.
