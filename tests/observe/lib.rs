//! Metrics, spans and logs, as a program sees them that collects them. Tests only.
