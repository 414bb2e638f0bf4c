//! Quantised vectors.
//!
//! Only the direction of a vector counts: the similarity of two vectors is the cosine of their angle. So a vector is
//! scaled to a signed byte for each dimension, a quarter of the size of floating-point numbers on disk and in each
//! scan. The error of a similarity is below 0.01.

/// The maximum absolute value of a component.
const MAX: f64 = 127.0;
/// The bytes before the components: the inverse of the length, a little-endian `f32`.
const HEADER_LEN: usize = size_of::<f32>();

/// The length of a stored vector.
pub(super) fn stored_len(dimensions: usize) -> usize {
    dimensions.saturating_add(HEADER_LEN)
}

/// A vector in its stored form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Vector(Vec<u8>);

impl Vector {
    /// Quantises a vector. None if it has no direction: a component is not a finite number, or all are zero.
    pub(super) fn quantise(components: &[f32]) -> Option<Self> {
        let max = components.iter().map(|component| f64::from(component.abs())).fold(0.0, f64::max);
        if max == 0.0 || !components.iter().all(|component| component.is_finite()) {
            return None;
        }
        let scaled = components.iter().map(|component| to_byte(f64::from(*component) * MAX / max));
        let scaled: Vec<i8> = scaled.collect();
        let squares: f64 = scaled.iter().map(|component| f64::from(*component).powi(2)).sum();
        let mut bytes = Vec::with_capacity(HEADER_LEN.saturating_add(scaled.len()));
        bytes.extend(narrow(squares.sqrt().recip()).to_le_bytes());
        bytes.extend(scaled.into_iter().map(i8::cast_unsigned));
        Some(Self(bytes))
    }

    /// Takes the stored form of a vector with this number of dimensions from elsewhere. None if it has another one, or
    /// no direction.
    pub(super) fn restored(bytes: &[u8], dimensions: usize) -> Option<Self> {
        let (_, components) = bytes.split_first_chunk::<HEADER_LEN>()?;
        let components: Vec<f32> = components.iter().map(|byte| f32::from(byte.cast_signed())).collect();
        Self::quantise(&components).filter(|_| components.len() == dimensions)
    }

    /// The stored form of the vector.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Takes a stored vector.
    pub(super) fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The similarity to a stored vector, from -1 to 1. None if the numbers of dimensions differ.
    pub(super) fn similarity(&self, other: &[u8]) -> Option<f32> {
        similarity(&self.0, other)
    }
}

/// The similarity of two stored vectors, from -1 to 1. None if the numbers of dimensions differ.
pub(super) fn similarity(one: &[u8], other: &[u8]) -> Option<f32> {
    if one.len() != other.len() {
        return None;
    }
    let (length, components) = one.split_first_chunk::<HEADER_LEN>()?;
    let (other_length, other_components) = other.split_first_chunk::<HEADER_LEN>()?;
    let lengths = f32::from_le_bytes(*length) * f32::from_le_bytes(*other_length);
    Some(lengths * to_f32(dot_product(components, other_components)))
}

/// The sum of the products. The sum does not overflow: each product is at most 2¹⁴, and a vector has at most 2¹³
/// dimensions.
fn dot_product(one: &[u8], other: &[u8]) -> i32 {
    let widen = |byte: &u8| i32::from(byte.cast_signed());
    one.iter().zip(other).fold(0_i32, |sum, (a, b)| sum.wrapping_add(widen(a).wrapping_mul(widen(b))))
}

#[allow(clippy::cast_possible_truncation, reason = "it is rounded, and within the range")]
fn to_byte(component: f64) -> i8 {
    component.round() as i8
}

#[allow(clippy::cast_possible_truncation, reason = "a similarity needs no more")]
fn narrow(number: f64) -> f32 {
    number as f32
}

#[allow(clippy::cast_precision_loss, reason = "a similarity needs no more")]
fn to_f32(number: i32) -> f32 {
    number as f32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn similarity(one: &[f32], other: &[f32]) -> f32 {
        Vector::quantise(one).unwrap().similarity(Vector::quantise(other).unwrap().as_bytes()).unwrap()
    }

    #[test]
    fn similarity_is_the_cosine_of_the_angle() {
        assert!((similarity(&[1.0, 0.0], &[0.001, 0.0]) - 1.0).abs() < 1e-6, "lengths do not count");
        assert!(similarity(&[1.0, 0.0], &[0.0, 5.0]).abs() < 1e-6);
        assert!((similarity(&[1.0, 1.0], &[-1.0, -1.0]) + 1.0).abs() < 1e-6);
    }

    #[test]
    fn what_has_no_direction_is_no_vector() {
        for components in [&[0.0, 0.0][..], &[f32::NAN, 1.0], &[f32::INFINITY, 1.0], &[]] {
            assert_eq!(Vector::quantise(components), None, "{components:?}");
        }
    }

    #[test]
    fn vectors_of_other_dimensions_are_not_compared() {
        let vector = Vector::quantise(&[1.0, 2.0]).unwrap();
        for other in [&[][..], &[0; 3], &[0; 5], &[0; 7]] {
            assert_eq!(vector.similarity(other), None, "{other:?}");
        }
    }

    proptest! {
        #[test]
        fn quantising_changes_a_similarity_by_less_than_a_hundredth(
            pairs in proptest::collection::vec((-1.0_f32..1.0, -1.0_f32..1.0), 64..512),
        ) {
            let (one, other): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
            let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
            let exact = product(&one, &other) / (product(&one, &one) * product(&other, &other)).sqrt();
            prop_assert!((similarity(&one, &other) - exact).abs() < 0.01);
        }
    }
}
