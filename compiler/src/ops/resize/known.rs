//! The facts about a `Resize` that are known at compile time.

use super::attributes::{Mode, ROI, Resize, SCALES, SIZES, number, single};
use crate::{diag::Result, dim::Dim, ir::Lower, limits::Limit, plan::geometry, tensor::Tensor};
use onnxc_runtime::kernels::resize::{self, Coordinates, Filter, Rounding, fitted_scale};

/// An axis of the input.
#[derive(Clone)]
pub(super) struct Line {
    /// The axis.
    pub axis: usize,
    /// Its position among the axes that the inputs describe, if it is one of them.
    pub at: Option<usize>,
    /// The sizes before and after resizing.
    pub from: Dim,
    pub to: Dim,
    /// The scale, if it is known.
    pub scale: Option<f64>,
}

/// The facts about a `Resize` that are known at compile time.
pub(super) struct Known {
    pub lines: Vec<Line>,
    /// The scales of the axes that the inputs describe.
    pub scales: Scales,
    /// The region of interest, if it is constant.
    pub roi: Option<Vec<f64>>,
    /// The number of axes that the inputs describe.
    pub axes: usize,
}

/// The source of the scales.
pub(super) enum Scales {
    /// The quotients of the sizes.
    Ratios,
    /// Constants.
    Constant(Vec<f64>),
    /// An input or a computation of the run.
    Dynamic,
}

impl Known {
    pub fn of(op: &Resize, cx: &Lower<'_>) -> Result<Known> {
        let (x, y) = (cx.ty(0)?, cx.output_ty(0)?);
        let rank = x.rank();
        let named: Vec<usize> = match &op.axes {
            Some(axes) => axes.iter().map(|&axis| cx.axis(axis, rank)).collect(),
            None => (0..rank).collect(),
        };
        let numbers =
            || -> Option<Vec<usize>> { named.iter().map(|&axis| number(&x.shape[axis])).collect() };
        let scales = match (cx.has(SCALES), op.fit) {
            (true, _) => match cx.constant(SCALES).and_then(single) {
                Some(scales) => Scales::Constant(scales.into_iter().map(f64::from).collect()),
                None => Scales::Dynamic,
            },
            (false, None) => Scales::Ratios,
            (false, Some(fit)) => match (cx.ints(SIZES), numbers()) {
                (Some(wanted), Some(from)) => {
                    Scales::Constant(vec![fitted_scale(&wanted, &from, fit); from.len()])
                }
                _ => Scales::Dynamic,
            },
        };
        let line = |axis: usize| {
            let (from, to) = (x.shape[axis].clone(), y.shape[axis].clone());
            let at = named.iter().position(|&other| other == axis);
            let scale = match (&scales, at) {
                (Scales::Constant(scales), Some(at)) => Some(scales[at]),
                (Scales::Dynamic, Some(_)) => None,
                _ if from == to => Some(1.0),
                _ => number(&from).zip(number(&to)).map(|(from, to)| to as f64 / from as f64),
            };
            Line { axis, at, from, to, scale }
        };
        let roi = cx.constant(ROI).and_then(Tensor::floats);
        Ok(Known { lines: (0..rank).map(line).collect(), axes: named.len(), roi, scales })
    }

    /// Returns the axes that the inputs describe, in their order.
    pub fn named(&self) -> Vec<&Line> {
        let mut named: Vec<&Line> = self.lines.iter().filter(|line| line.at.is_some()).collect();
        named.sort_by_key(|line| line.at);
        named
    }

    /// Returns whether the tables of these axes, of `len` elements in total, are computed at
    /// compile time. Larger ones would only make the program large; the kernels that compute them
    /// are fast beside the resizing.
    pub fn has_constant_tables(
        &self,
        cx: &Lower<'_>,
        op: &Resize,
        lines: &[Line],
        len: &Dim,
    ) -> bool {
        let sized = |line: &Line| {
            number(&line.from).and(number(&line.to)).is_some() && line.scale.is_some()
        };
        lines.iter().all(sized)
            && (self.roi.is_some() || op.coordinates != Coordinates::TfCropAndResize)
            && number(len).is_some_and(|len| cx.take(Limit::TableElements, len))
    }
}

impl Line {
    /// Returns whether resizing leaves the axis unchanged.
    pub fn is_kept(&self, op: &Resize, known: &Known) -> bool {
        let Some(at) = self.at else { return true };
        let whole = || {
            let roi = known.roi.as_ref()?;
            Some((*roi.get(at)?, *roi.get(known.axes + at)?) == (0.0, 1.0))
        };
        let in_place = match op.coordinates {
            Coordinates::TfCropAndResize => whole() == Some(true),
            Coordinates::TfHalfPixelForNn => {
                matches!(op.mode, Mode::Nearest(Rounding::Floor | Rounding::PreferFloor))
            }
            _ => true,
        };
        in_place && self.scale == Some(1.0) && self.from == self.to
    }

    /// Returns how often each element is repeated, if resizing only repeats elements.
    pub fn factor(&self, op: &Resize, known: &Known, rounding: Rounding) -> Option<usize> {
        if self.is_kept(op, known) {
            return Some(1);
        }
        let by_halves = matches!(rounding, Rounding::PreferFloor | Rounding::PreferCeil);
        let down = rounding == Rounding::Floor;
        let repeats = match op.coordinates {
            Coordinates::HalfPixel
            | Coordinates::HalfPixelSymmetric
            | Coordinates::PytorchHalfPixel => by_halves,
            Coordinates::Asymmetric | Coordinates::TfHalfPixelForNn => down,
            Coordinates::AlignCorners | Coordinates::TfCropAndResize => false,
        };
        let factor = match self.scale {
            Some(scale) => (scale.fract() == 0.0).then_some(scale as usize),
            None if self.from.known() == Some(0) => None,
            None if matches!(known.scales, Scales::Ratios) => {
                number(&self.to.floor_div(&self.from))
            }
            None => None,
        };
        let exact = |&factor: &usize| factor > 0 && &self.from * factor == self.to;
        factor.filter(exact).filter(|_| repeats)
    }

    /// Returns the geometry of the axis.
    pub fn geometry(&self, op: &Resize, known: &Known) -> geometry::Line {
        geometry::Line {
            from: self.from.clone(),
            to: self.to.clone(),
            at: self.at.unwrap_or(0),
            axes: known.axes,
            // An axis that the inputs do not describe stays unchanged.
            coordinates: self.at.map_or(Coordinates::Asymmetric, |_| op.coordinates),
        }
    }

    /// Returns the geometry of the axis in numbers.
    pub fn numbers(&self, op: &Resize, known: &Known) -> resize::Line {
        let size = |dim: &Dim| number(dim).unwrap_or(0);
        let geometry::Line { from, to, at, axes, coordinates } = self.geometry(op, known);
        resize::Line { from: size(&from), to: size(&to), at, axes, coordinates }
    }

    /// Returns the number of weights for each output element in the axis's table.
    pub fn taps(&self, known: &Known, filter: Filter) -> Dim {
        let support = i64::from(filter.curve.support());
        let least = Dim::from(2 * support);
        let taps = match (filter.antialias, self.scale) {
            (false, _) => least,
            (true, Some(scale)) => filter.taps(scale).into(),
            (true, None) => {
                // Scales in an input may be slightly smaller than the quotient of the sizes.
                let slack = if matches!(known.scales, Scales::Ratios) { 1 } else { 2 };
                let reach = (&self.from * (support * slack)).ceil_div(&self.to.at_least(&1.into()));
                least.at_least(&(reach * 2))
            }
        };
        taps.at_most(&self.from)
    }
}

impl Known {
    /// Returns the constant scales for the table of an axis.
    pub fn constant_scales(&self, line: &Line) -> Option<&[f64]> {
        match &self.scales {
            Scales::Constant(scales) => line.at.map(|_| scales.as_slice()),
            Scales::Ratios | Scales::Dynamic => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxc_runtime::kernels::resize::Curve;

    #[test]
    fn a_filter_has_weights_for_all_elements_in_reach() {
        let known = |scales| Known { lines: Vec::new(), scales, roi: None, axes: 1 };
        let n = Dim::symbol("n");
        let open = Line { axis: 0, at: Some(0), from: n, to: 4.into(), scale: None };
        let filter =
            Filter { curve: Curve::Linear, a: 0.0, antialias: true, exclude_outside: false };
        let taps = |scales| format!("{:?}", open.taps(&known(scales), filter));
        assert!(taps(Scales::Ratios).contains("(n + 3) / 4"), "{}", taps(Scales::Ratios));
        assert!(taps(Scales::Dynamic).contains("(2 * n + 3) / 4"), "{}", taps(Scales::Dynamic));
        let open = Line { from: 9.into(), to: 3.into(), scale: Some(1.0 / 3.0), ..open };
        assert_eq!(open.taps(&known(Scales::Ratios), filter), 6.into());
    }
}
