//! The range of priorities, shared by entries and templates.

/// Clamps a priority to 0.0 to 1.0; `None` for NaN.
pub(crate) fn clamp(priority: f64) -> Option<f64> {
    (!priority.is_nan()).then(|| priority.clamp(0.0, 1.0))
}
