//! `Resize` and `Upsample`.

mod attributes;
mod gradient;
mod known;
mod lower;

pub use attributes::{Mode, Resize};

use super::{Entry, entry, function};
use crate::{
    diag::{Code, Diagnostic, Result, counted},
    dim::Dim,
    dtype::{ANY_IR4, DType, NUMERIC},
    ir::{Attributes, Gradient, Infer, Inferred, Lower, Op, Reader},
    tensor::Tensor,
    ty::Type,
};
use attributes::{ROI, SCALES, SIZES, number, single};
use onnxc_runtime::kernels::resize::{
    Coordinates, Curve, Filter, Fit, Rounding, fitted_sizes, scaled_size,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    function("Resize", 10, write_first),
    entry("Resize", 11, |node| Ok(Rc::new(Resize::read(node)?))),
    entry("Upsample", 1, |node| {
        let mut scale = |name: &str| {
            let missing = || {
                let message = format!("the attribute `{name}` is missing");
                Diagnostic::new(Code::BadAttribute, message)
            };
            node.maybe_float(name)?.ok_or_else(missing)
        };
        let scales = [1.0, 1.0, scale("height_scale")?, scale("width_scale")?];
        node.add_input("scales", SCALES, Tensor::from_floats(&scales));
        read_upsample(node)
    }),
    entry("Upsample", 7, |node| {
        let scales = node.maybe_floats("scales")?.unwrap_or_default();
        node.add_input("scales", SCALES, Tensor::from_floats(&scales));
        read_upsample(node)
    }),
    entry("Upsample", 9, |node| {
        node.inputs.insert(1, None);
        read_upsample(node)
    }),
];

/// Reads the versions of `Upsample`, which divide each coordinate by the scale and round down. They
/// shrink no axis.
fn read_upsample(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    let modes = [
        ("nearest", Mode::Nearest(Rounding::Floor)),
        ("linear", Mode::Filter(LINEAR)),
        ("bilinear", Mode::Filter(LINEAR)),
    ];
    Ok(Rc::new(Resize {
        mode: node.choice("mode", &modes)?,
        coordinates: Coordinates::Asymmetric,
        extrapolation: 0.0,
        fit: None,
        axes: None,
    }))
}

/// Writes the first `Resize`, which divides each coordinate by the scale. The nearest element is
/// before it along an axis that grows, and else behind it. Newer versions round alike along all
/// axes: unless the scales are known to be on one side of 1, one node grows and another shrinks.
fn write_first(node: &mut Reader<'_>) -> Result<String> {
    let resize = |attributes: &str, x: &str, scales: &str, y: &str| {
        format!(
            "{y} = Resize <coordinate_transformation_mode = \"asymmetric\", {attributes}>
                ({x}, \"\", {scales})"
        )
    };
    let mode = node.string("mode", "nearest")?;
    let nearest = |mode: &str| format!("mode = \"nearest\", nearest_mode = {mode:?}");
    let scales = node.constant_input(1).and_then(Tensor::floats);
    let all = |fits: fn(&f64) -> bool| scales.as_ref().is_some_and(|all| all.iter().all(fits));
    let nodes = match () {
        () if mode != "nearest" => resize(&format!("mode = {mode:?}"), "x", "scales", "y"),
        () if all(|&scale| scale >= 1.0) => resize(&nearest("floor"), "x", "scales", "y"),
        () if all(|&scale| scale <= 1.0) => resize(&nearest("ceil"), "x", "scales", "y"),
        () => format!(
            "one = Constant <value_float = 1.0> ()
            growing = Max (scales, one) shrinking = Min (scales, one)
            {} {}",
            resize(&nearest("floor"), "x", "growing", "grown"),
            resize(&nearest("ceil"), "grown", "shrinking", "y")
        ),
    };
    Ok(format!("(x, scales) => (y) {{ {nodes} }}"))
}

const LINEAR: Filter =
    Filter { curve: Curve::Linear, a: 0.0, antialias: false, exclude_outside: false };

/// The values of each attribute, by name.
const COORDINATES: [(&str, Coordinates); 7] = [
    ("half_pixel", Coordinates::HalfPixel),
    ("half_pixel_symmetric", Coordinates::HalfPixelSymmetric),
    ("pytorch_half_pixel", Coordinates::PytorchHalfPixel),
    ("align_corners", Coordinates::AlignCorners),
    ("asymmetric", Coordinates::Asymmetric),
    ("tf_half_pixel_for_nn", Coordinates::TfHalfPixelForNn),
    ("tf_crop_and_resize", Coordinates::TfCropAndResize),
];
const ROUNDINGS: [(&str, Rounding); 4] = [
    ("round_prefer_floor", Rounding::PreferFloor),
    ("round_prefer_ceil", Rounding::PreferCeil),
    ("floor", Rounding::Floor),
    ("ceil", Rounding::Ceil),
];
const FITS: [(&str, Option<Fit>); 3] = [
    ("stretch", None),
    ("not_larger", Some(Fit::NotLarger)),
    ("not_smaller", Some(Fit::NotSmaller)),
];

/// Returns the name of a value.
fn name_of<T: PartialEq>(choices: &[(&'static str, T)], choice: &T) -> &'static str {
    choices.iter().find(|(_, other)| other == choice).map_or("", |(name, _)| name)
}

impl Resize {
    fn read(node: &mut Reader<'_>) -> Result<Resize> {
        let coordinates = node.choice("coordinate_transformation_mode", &COORDINATES)?;
        if coordinates != Coordinates::TfCropAndResize {
            leave_out(node, ROI);
        }
        // Before version 13, an unused input is an empty tensor.
        for i in [SCALES, SIZES] {
            let ty = node.ty(i).and_then(Type::as_tensor);
            if ty.is_some_and(|ty| ty.len().known() == Some(0)) {
                leave_out(node, i);
            }
        }
        let curves =
            [("nearest", None), ("linear", Some(Curve::Linear)), ("cubic", Some(Curve::Cubic))];
        let (curve, rounding) =
            (node.choice("mode", &curves)?, node.choice("nearest_mode", &ROUNDINGS)?);
        let a = node.float("cubic_coeff_a", -0.75)?;
        let antialias = node.flag("antialias", false)?;
        let exclude_outside = node.flag("exclude_outside", false)?;
        Ok(Resize {
            mode: match curve {
                None => Mode::Nearest(rounding),
                Some(curve) => Mode::Filter(Filter { curve, a, antialias, exclude_outside }),
            },
            coordinates,
            extrapolation: node.float("extrapolation_value", 0.0)?,
            fit: node.choice("keep_aspect_ratio_policy", &FITS)?,
            axes: node.maybe_ints("axes")?,
        })
    }

    /// Returns the axes that the inputs describe.
    fn axes(&self, cx: &Infer<'_>, rank: usize) -> Inferred<Vec<usize>> {
        match &self.axes {
            Some(axes) => cx.axes("axes", axes, rank),
            None => Ok((0..rank).collect()),
        }
    }

    /// Checks the inputs.
    fn check(&self, cx: &Infer<'_>, axes: usize) -> Inferred<()> {
        let dtype = cx.of(0, ANY_IR4)?.dtype;
        if matches!(self.mode, Mode::Filter(_)) && !NUMERIC.contains(&dtype) {
            let message = format!("elements of type {dtype} cannot be interpolated");
            return Err(cx.diagnostic(Code::Unsupported, message));
        }
        let check_count = |i: usize, types: &[DType], wanted: usize, name: &str| {
            cx.of(i, types)?;
            let count = cx.count(i)?;
            if count == wanted {
                return Ok(());
            }
            let (axes, wanted) = (counted(axes, "axis"), counted(wanted, name));
            let message = format!("the input has {axes}: expected {wanted}, found {count}");
            Err(cx.diagnostic(Code::ShapeMismatch, message))
        };
        if self.coordinates == Coordinates::TfCropAndResize {
            check_count(ROI, &[DType::F32, DType::F64, DType::F16], 2 * axes, "region end")?;
        }
        match (cx.has(SCALES), cx.has(SIZES)) {
            (true, false) => check_count(SCALES, &[DType::F32], axes, "scale"),
            (false, true) => check_count(SIZES, &[DType::I64], axes, "size"),
            _ => {
                let message = "there must be either scales or sizes";
                Err(cx.diagnostic(Code::BadArity, message))
            }
        }
    }

    /// Returns the sizes after resizing; `None` for those known only at run time.
    fn new_sizes(&self, cx: &Infer<'_>, from: &[&Dim]) -> Inferred<Vec<Option<Dim>>> {
        let to_diagnostic =
            |error: onnxc_runtime::Error| cx.diagnostic(Code::ShapeMismatch, error.to_string());
        if let Some(scales) = cx.constant(SCALES).and_then(single) {
            let sizes = from.iter().zip(scales).map(|(from, scale)| scale_dim(from, scale));
            return sizes.collect::<onnxc_runtime::Result<_>>().map_err(to_diagnostic);
        }
        let Some(wanted) = cx.known(SIZES) else { return Ok(vec![None; from.len()]) };
        let Some(fit) = self.fit else { return Ok(wanted.iter().cloned().map(Some).collect()) };
        let numbers: Option<Vec<usize>> = from.iter().map(|from| number(from)).collect();
        let (Some(wanted), Some(from)) = (cx.ints(SIZES), numbers) else {
            return Ok(vec![None; from.len()]);
        };
        let mut sizes = vec![0; from.len()];
        fitted_sizes(&mut sizes, &wanted, &from, fit).map_err(to_diagnostic)?;
        Ok(sizes.into_iter().map(|size| Some(size.into())).collect())
    }

    /// Returns the largest size that an axis can have after resizing.
    fn bound(&self, cx: &Infer<'_>, i: usize, from: &Dim) -> Option<i64> {
        if let Some(scales) = cx.constant(SCALES).and_then(single) {
            let from = usize::try_from(cx.upper(from)?).ok()?;
            return i64::try_from(scaled_size(from, scales[i]).ok()?).ok();
        }
        match self.fit? {
            Fit::NotLarger => cx.upper(cx.known(SIZES)?.get(i)?),
            Fit::NotSmaller => None,
        }
    }
}

fn leave_out(node: &mut Reader<'_>, i: usize) {
    if let Some(input) = node.inputs.get_mut(i) {
        *input = None;
    }
}

/// Returns the scaled size of an axis, if it is a dimension expression.
fn scale_dim(from: &Dim, scale: f32) -> onnxc_runtime::Result<Option<Dim>> {
    if let Some(from) = number(from) {
        return Ok(Some(scaled_size(from, scale)?.into()));
    }
    scaled_size(1, scale)?;
    // Products of sizes and these fractions are exact in `f32`.
    const MOST: f32 = 64.0;
    let denominator = [1u8, 2, 4, 8].into_iter().find(|&q| (scale * f32::from(q)).fract() == 0.0);
    let fraction = denominator.map(|q| (scale * f32::from(q), i64::from(q)));
    let exact = fraction.filter(|&(p, _)| p <= MOST);
    Ok(exact.map(|(p, q)| (from * (p as i64)).floor_div(&q.into())))
}

impl Op for Resize {
    fn name(&self) -> &'static str {
        "Resize"
    }

    fn attributes(&self, a: &mut Attributes) {
        match self.mode {
            Mode::Nearest(rounding) => {
                a.string("mode", "nearest");
                a.string("nearest_mode", name_of(&ROUNDINGS, &rounding));
            }
            Mode::Filter(filter) => {
                let linear = filter.curve == Curve::Linear;
                a.string("mode", if linear { "linear" } else { "cubic" });
                if !linear {
                    a.float("cubic_coeff_a", filter.a);
                }
                a.flag("antialias", filter.antialias);
                a.flag("exclude_outside", filter.exclude_outside);
            }
        }
        a.string("coordinate_transformation_mode", name_of(&COORDINATES, &self.coordinates));
        if self.coordinates == Coordinates::TfCropAndResize {
            a.float("extrapolation_value", self.extrapolation);
        }
        if self.fit.is_some() {
            a.string("keep_aspect_ratio_policy", name_of(&FITS, &self.fit));
        }
        if let Some(axes) = &self.axes {
            a.ints("axes", axes);
        }
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, ANY_IR4)?;
        let axes = self.axes(cx, ty.rank())?;
        self.check(cx, axes.len())?;
        let from: Vec<&Dim> = axes.iter().map(|&axis| &ty.shape[axis]).collect();
        let sizes = self.new_sizes(cx, &from)?;
        let has_scales = cx.constant(SCALES).and_then(single).is_some();
        let open = sizes.iter().enumerate().filter(|(_, size)| size.is_none());
        let bounds: Vec<Option<i64>> = open.map(|(i, _)| self.bound(cx, i, from[i])).collect();
        let mut fresh = cx.fresh_sizes(bounds).into_iter();
        let mut shape = ty.shape.clone();
        for (axis, size) in axes.into_iter().zip(sizes) {
            let is_formula = size.is_some();
            let size =
                size.or_else(|| fresh.next()).expect("`fresh` has a size for every dynamic axis");
            cx.require_at_least(&size, &0.into(), "a size must not be negative")?;
            if is_formula && !has_scales && size != ty.shape[axis] {
                let is_empty = ty.shape[axis].less(&1.into());
                let what = "the size of a resized empty axis and 0";
                cx.require_equal(&(&is_empty * &size), &0.into(), what)?;
            }
            shape[axis] = size;
        }
        Ok(vec![Type::tensor(ty.dtype, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        lower::lower(self, cx)
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        self.gradient_by_axes(g)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ir::{Attribute, Graph},
        ops::testing::{Given, check, tensor},
    };
    use DType::{F32, I64};

    fn n() -> Dim {
        Dim::symbol("n")
    }

    fn image() -> Given {
        tensor(F32, [1.into(), 3.into(), n(), 6.into()])
    }

    fn resize(mode: Mode, fit: Option<Fit>, axes: Option<Vec<i64>>) -> Resize {
        let coordinates = Coordinates::HalfPixel;
        Resize { mode, coordinates, extrapolation: 0.0, fit, axes }
    }

    fn sizes(sizes: Given) -> [Given; 4] {
        [image(), Given::Nothing, Given::Nothing, sizes]
    }

    #[test]
    fn sizes_may_be_dimension_expressions() {
        let op = |axes| resize(Mode::Nearest(Rounding::Floor), None, axes);
        let wanted = Given::Sizes(vec![n() * 2, 12.into()]);
        check(op(Some(vec![-2, -1])), &sizes(wanted), 1, "float[1, 3, 2 * n, 12]");
        let wanted = Given::Ints(vec![1, 3, 4, 5]);
        check(op(None), &sizes(wanted), 1, "float[1, 3, 4, 5]");
        let expected = "the input has 4 axes: expected 4 sizes, found 2";
        check(op(None), &sizes(Given::Ints(vec![4, 5])), 1, expected);
        let expected = "there must be either scales or sizes";
        check(op(None), &[image()], 1, expected);
    }

    #[test]
    fn sizes_may_be_known_only_at_run_time() {
        let op = |fit| resize(Mode::Filter(LINEAR), fit, Some(vec![3, 2]));
        check(op(None), &sizes(tensor(I64, [2])), 1, "float[1, 3, y0_1, y0_0]");
        let wanted = || sizes(Given::Ints(vec![12, 5]));
        check(op(None), &wanted(), 1, "float[1, 3, 5, 12]");
        check(op(Some(Fit::NotLarger)), &wanted(), 1, "float[1, 3, y0_1, y0_0]");
        let inputs = [image(), Given::Nothing, tensor(F32, [2])];
        check(op(None), &inputs, 1, "float[1, 3, y0_1, y0_0]");
    }

    #[test]
    fn strings_are_resized_only_by_the_nearest_element() {
        let wanted = || {
            let x = tensor(DType::String, [2, 3]);
            [x, Given::Nothing, Given::Nothing, Given::Ints(vec![4, 3])]
        };
        let op = |mode| resize(mode, None, None);
        check(op(Mode::Nearest(Rounding::Ceil)), &wanted(), 1, "string[4, 3]");
        let expected = "elements of type string cannot be interpolated";
        check(op(Mode::Filter(LINEAR)), &wanted(), 1, expected);
    }

    #[test]
    fn exact_fractions_of_sizes_are_dimension_expressions() {
        let text = |scale| scale_dim(&n(), scale).map(|dim| dim.map(|dim| format!("{dim:?}")));
        assert_eq!(text(2.0), Ok(Some("2 * n".into())));
        assert_eq!(text(1.5), Ok(Some("(3 * n) / 2".into())));
        assert_eq!(text(0.7), Ok(None));
        assert!(text(-1.0).is_err());
        assert_eq!(scale_dim(&7.into(), 0.5), Ok(Some(3.into())));
    }

    #[test]
    fn empty_inputs_are_ignored() {
        let mut g = Graph::new(Rc::default());
        let x = g.input(g.body, "x", Type::tensor(F32, [1, 2]));
        let none = g.constant("none", Tensor::from_floats(&[]));
        let to = g.constant("to", Tensor::from_ints(&[2, 4]));
        let attributes = [("mode".to_owned(), Attribute::String(b"linear".to_vec()))].into();
        let inputs = vec![Some(x), Some(none), Some(none), Some(to)];
        let body = g.body;
        let mut reader = Reader::new(&mut g, body, 11, inputs, 1, attributes);
        Resize::read(&mut reader).expect("the node is valid");
        assert_eq!(reader.inputs, [Some(x), None, None, Some(to)]);
    }
}
