//! Window functions, which fade the ends of a frame.

use crate::error::Result;
use crate::loops::index::{number, size};
use crate::{Exact, Integer, Real};
use core::f64::consts::TAU;

/// `a₀ - a₁ cos(2πt/n) + a₂ cos(4πt/n)`, where `n` is the length of the window, less one if it is
/// symmetric.
pub fn window<T: Real>(y: &mut [T], cosines: [f64; 3], symmetric: bool) {
    let [constant, first, second] = cosines;
    let n: f64 = number(y.len());
    let n = if symmetric { n - 1.0 } else { n };
    for (t, y) in y.iter_mut().enumerate() {
        let angle = number::<f64>(t) * TAU / n;
        let sum = libm::cos(2.0 * angle) * second - libm::cos(angle) * first;
        *y = T::nearest(Exact::Double(sum + constant));
    }
}

/// Reads the length of a window.
///
/// # Errors
///
/// Returns an error for a negative length.
pub fn window_sizes<I: Integer>(sizes: &mut [usize], length: &[I]) -> Result {
    for into in sizes {
        *into = length.first().map_or(Ok(0), |&length| size(length))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_rises_to_one_and_falls() {
        let mut y = [9.0f32; 5];
        window(&mut y, [0.5, 0.5, 0.0], true);
        assert_eq!(y, [0.0, 0.5, 1.0, 0.5, 0.0]);
        window(&mut y[..4], [0.5, 0.5, 0.0], false);
        assert_eq!(y[..4], [0.0, 0.5, 1.0, 0.5]);
        let mut y = [9i8; 4];
        window(&mut y, [0.42, 0.5, 0.08], false);
        assert_eq!(y, [0, 0, 1, 0]);
        window::<u8>(&mut [], [0.5, 0.5, 0.0], false);
    }
}
