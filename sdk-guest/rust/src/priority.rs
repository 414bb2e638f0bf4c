//! The range of a priority, for entries and templates alike.

/// The priority that is nearest within 0.0 to 1.0; none for what is no number.
pub(crate) fn clamp(priority: f64) -> Option<f64> {
    (!priority.is_nan()).then(|| priority.clamp(0.0, 1.0))
}
