//! Tests only: see `tests/`. What they run on is in `recorder/`.
