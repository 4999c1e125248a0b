//! Helpers for the gradients of normalizations.

use crate::ir::Expr;

/// Elements with a mean of 0 and a variance of 1 along axes.
#[derive(Clone, Copy)]
pub struct Normalized<'t> {
    /// The elements.
    pub y: Expr<'t>,
    /// The reciprocal of the standard deviation.
    pub factor: Expr<'t>,
}

impl<'t> Normalized<'t> {
    /// Normalizes `x` along `axes`.
    pub fn of(x: Expr<'t>, axes: &[usize], epsilon: f32) -> Normalized<'t> {
        let distance = x - x.mean(axes);
        let variance = (distance * distance).mean(axes);
        let factor = inverse_root(variance, epsilon);
        Normalized { y: distance * factor, factor }
    }

    /// The gradient by `x` from that by `y`:
    /// `dx = factor (dy - mean(dy) - y mean(dy y))`.
    pub fn gradient(self, dy: Expr<'t>, axes: &[usize]) -> Expr<'t> {
        self.factor * (dy - dy.mean(axes) - self.y * (dy * self.y).mean(axes))
    }
}

/// `1 / √(x + epsilon)`.
pub fn inverse_root(x: Expr<'_>, epsilon: f32) -> Expr<'_> {
    let root = (x + f64::from(epsilon)).sqrt();
    root.number(1.0) / root
}

impl<'t> Expr<'t> {
    /// Appends axes of size 1 to one number per channel, so that it broadcasts over a tensor of
    /// `rank` axes.
    pub fn unsqueeze_channels(self, rank: usize) -> Expr<'t> {
        let axes: Vec<i64> = (1..rank as i64 - 1).collect();
        if axes.is_empty() { self } else { self.unsqueeze(self.tape.ints(&axes)) }
    }

    /// Sums each channel, and returns the sums in the shape and type of `like`.
    pub fn sum_per_channel(self, like: Expr<'t>) -> Expr<'t> {
        let others: Vec<usize> = (0..self.rank()).filter(|&axis| axis != 1).collect();
        self.sum(&others).reshape_like(like).cast_like(like)
    }
}
