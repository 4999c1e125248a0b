//! Fourier transforms along an axis, and of frames of a signal. The last axis of a tensor holds the
//! real and imaginary parts of complex numbers; for real numbers it has size 1.

pub(super) mod frames;
mod gradient;
pub(super) mod mel;
pub(super) mod window;

use super::{
    Entry,
    cast::{Cast, CastMode},
    entry,
};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::{DType, FLOATS, I64_ONLY, INDICES},
    ir::{Attributes, Gradient, Infer, Inferred, Lower, Op, Reader},
    limits::Limit,
    plan::{
        Arg, Kernel, Optimize,
        geometry::{Ends, Lines, Transform},
        kernel,
    },
    tensor::Tensor,
    ty::Type,
};
use onnxc_runtime::kernels::fourier as rt;
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("DFT", 17, |node| {
        let axis = node.int("axis", 1)?;
        node.add_input("axis", 2, Tensor::from_int(axis));
        read(node)
    }),
    entry("DFT", 20, read),
];

/// The discrete Fourier transform along an axis, or its inverse. Input 1 is its length, by default
/// the size of the axis; input 2 is the axis, by default the last one before that of the parts.
pub struct Dft {
    /// Whether to compute the inverse transform.
    pub inverse: bool,
    /// Whether the transform lacks its redundant conjugate half. An inverse transform returns real
    /// numbers then.
    pub onesided: bool,
}

/// The kernels of a kind of transform.
struct TransformKernels {
    kernel: Kernel<Transform>,
    /// Computes the table of twiddle factors at run time.
    table: Kernel<(Dim,)>,
    /// Whether a real line of `n` elements is transformed as a complex line of `n / 2` elements.
    halved: bool,
    /// Whether the lines are multiplied by a window.
    windowed: bool,
}

macro_rules! kernels {
    ($kernel:ident $table:ident $halved:literal; $($window:literal)?; $rest:literal) => {
        TransformKernels {
            kernel: kernel!(FLOATS T, fourier::$kernel::<T>, |f, a, p| f(a.input(0),
                $(a.optional($window),)? a.input($rest), a.output(0), a.output(1), p)),
            table: kernel!(F32_AND_F64 T, fourier::$table::<T>,
                |f, a, p| f(a.output(0), a.output(1), p.0)),
            halved: $halved,
            windowed: $rest == 2,
        }
    };
}

static DFT: TransformKernels = kernels!(dft dft_table false; 1; 2);
static REAL_DFT: TransformKernels = kernels!(real_dft real_dft_table true; 1; 2);
static INVERSE_DFT: TransformKernels = kernels!(inverse_dft dft_table false; ; 1);
static INVERSE_REAL_DFT: TransformKernels = kernels!(inverse_real_dft real_dft_table true; ; 1);

static DFT_SIZES: Kernel<(Vec<Dim>, Ends)> = kernel!(checked I64_ONLY T, fourier::dft_sizes,
    |f, a, p| f(a.sizes(), a.optional::<T>(0), a.optional(1), p.0, p.1));

fn read(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    cast_size_to_i64(node, 1)?;
    Ok(Rc::new(Dft {
        inverse: node.flag("inverse", false)?,
        onesided: node.flag("onesided", false)?,
    }))
}

/// Casts input `i`, which holds a size, from `int32` to `int64`.
fn cast_size_to_i64(node: &mut Reader<'_>, i: usize) -> Result {
    match node.ty(i) {
        Some(Type::Tensor(ty)) if ty.dtype == DType::I32 => {
            node.wrap_input(i, Cast { to: DType::I64, mode: CastMode::DEFAULT }, &[])
        }
        _ => Ok(()),
    }
}

/// The size that input `i` holds, if it is known at compile time. Checks that it is at least
/// `least`.
fn known_size(cx: &mut Infer<'_>, i: usize, least: i64, what: &str) -> Inferred<Option<Dim>> {
    cx.of(i, INDICES)?;
    cx.require_one_element(i)?;
    let Some([size]) = cx.known(i) else { return Ok(None) };
    cx.require_at_least(size, &least.into(), what)?;
    Ok(Some(size.clone()))
}

/// The sizes of input 0 without the last one, and the last one, the number of parts.
fn signal<'a>(cx: &mut Infer<'a>) -> Inferred<(&'a [Dim], &'a Dim)> {
    let ty = cx.of(0, FLOATS)?;
    let [signal @ .., parts] = &*ty.shape else {
        let message = "input 0 must have a last axis for real and imaginary parts";
        return Err(cx.diagnostic(Code::ShapeMismatch, message));
    };
    if signal.is_empty() || parts.known().is_some_and(|n| n != 1 && n != 2) {
        let message = "input 0 must have two axes or more, and a last axis of size 1 or 2";
        return Err(cx.diagnostic(Code::ShapeMismatch, message));
    }
    // The sizes that broadcast to 2 are 1 and 2.
    cx.broadcast(&[std::slice::from_ref(parts), &[2.into()]])?;
    Ok((signal, parts))
}

impl Dft {
    /// Returns whether the result is real.
    fn is_real(&self) -> bool {
        self.inverse && self.onesided
    }

    /// The axis, and whether the input or the output lacks its redundant half.
    fn ends(&self, axis: usize) -> Ends {
        Ends { axis, halved_input: self.is_real(), halved_output: self.onesided && !self.inverse }
    }

    /// The number of results of a transform of length `n`.
    fn result_len(&self, n: &Dim) -> Dim {
        if self.onesided && !self.inverse { n.floor_div(&2.into()) + 1 } else { n.clone() }
    }

    /// The default length of a transform along an axis of `len` elements.
    fn default_length(&self, len: &Dim) -> Dim {
        if self.is_real() { (len - 1) * 2 } else { len.clone() }
    }

    /// The axis, if it is known at compile time.
    fn axis(&self, cx: &mut Infer<'_>, rank: usize) -> Inferred<Option<usize>> {
        let axis = match cx.has(2) {
            false => -2,
            true => {
                cx.of(2, I64_ONLY)?;
                cx.require_one_element(2)?;
                match cx.ints(2).as_deref().and_then(<[i64]>::first) {
                    Some(&axis) => axis,
                    None => return Ok(None),
                }
            }
        };
        match cx.axis("axis", axis, rank)? {
            axis if axis + 1 == rank => {
                let message =
                    "`axis` must not be the last axis, which holds real and imaginary parts";
                Err(cx.diagnostic(Code::BadAttribute, message))
            }
            axis => Ok(Some(axis)),
        }
    }

    /// The sizes of the result along an axis known only at run time. The node defines symbols for
    /// the length, for the sizes before, along and after the axis, and for each size of the result.
    fn infer_any_axis(&self, cx: &mut Infer<'_>, signal: &[Dim], length: Option<Dim>) -> Vec<Dim> {
        let largest = signal.iter().map(|dim| cx.upper(dim)).collect::<Option<Vec<i64>>>();
        let largest = largest.map(|sizes| sizes.into_iter().max().unwrap_or(1));
        let n = match (&length, largest, cx.has(1)) {
            (Some(n), ..) => cx.upper(n),
            (None, Some(most), false) => self.default_length(&most.max(1).into()).known(),
            _ => None,
        };
        let all = cx.upper(&signal.iter().product());
        let mut bounds = vec![n, all, largest, all];
        for dim in signal {
            let dim = cx.upper(dim);
            bounds.push(dim.zip(n).map(|(dim, n)| dim.max(n)));
        }
        cx.fresh_sizes(bounds).split_off(4)
    }
}

impl Op for Dft {
    fn name(&self) -> &'static str {
        "DFT"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.flag("inverse", self.inverse);
        a.flag("onesided", self.onesided);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let (signal, _) = signal(cx)?;
        let dtype = cx.ty(0)?.dtype;
        let length = match cx.has(1) {
            true => known_size(cx, 1, 1, "the length of a transform must be at least 1")?,
            false => None,
        };
        let mut shape = match self.axis(cx, signal.len() + 1)? {
            None => self.infer_any_axis(cx, signal, length),
            Some(axis) => {
                let n = match length {
                    Some(n) => n,
                    None if cx.has(1) => cx.fresh_sizes([None]).remove(0),
                    None => {
                        let n = self.default_length(&signal[axis]);
                        cx.require_at_least(
                            &n,
                            &1.into(),
                            "the length of a transform must be at least 1",
                        )?;
                        n
                    }
                };
                let mut shape = signal.to_vec();
                shape[axis] = self.result_len(&n);
                shape
            }
        };
        shape.push(if self.is_real() { 1.into() } else { 2.into() });
        Ok(vec![Type::tensor(dtype, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (shape, axis) = (&cx.ty(0)?.shape, cx.ints(2));
        let rank = shape.len();
        let (signal, parts) = (&shape[..rank - 1], &shape[rank - 1]);
        let axis = match cx.has(2) {
            true => axis.map(|axis| cx.axis(axis[0], rank)),
            false => Some(rank - 2),
        };
        let (axis_input, length) = (cx.optional(2)?.into(), cx.optional(1)?.into());
        let sizes = (shape.to_vec(), self.ends(axis.unwrap_or(0)));
        cx.bind(&DFT_SIZES, DType::I64, vec![axis_input, length], sizes)?;
        let bound = |i: usize| Dim::symbol(&cx.node().binds[i]);
        let [outer, len, inner] = match axis {
            Some(axis) => [
                signal[..axis].iter().product(),
                signal[axis].clone(),
                signal[axis + 1..].iter().product(),
            ],
            None => [bound(1), bound(2), bound(3)],
        };
        let n = match (cx.known(1), cx.has(1)) {
            (Some([n]), _) => n.clone(),
            (None, false) if axis.is_some() => self.default_length(&len),
            _ => bound(0),
        };
        let (taken, to_parts) = (self.result_len(&n), if self.is_real() { 1 } else { 2 });
        let geometry = Transform {
            given: len.clone(),
            parts: parts.clone(),
            lanes: 1,
            from: Lines::along(&outer, &len, &inner, parts),
            to: Lines::along(&outer, &taken, &inner, &to_parts.into()),
            n,
            taken,
        };
        let kernels = match (self.inverse, self.onesided, parts.known()) {
            (false, _, Some(1)) => &REAL_DFT,
            (false, ..) => &DFT,
            (true, false, _) => &INVERSE_DFT,
            (true, true, _) => &INVERSE_REAL_DFT,
        };
        kernels.call(cx, None.into(), geometry)
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        self.set_gradient(g)
    }
}

impl TransformKernels {
    /// Calls the kernel that transforms input 0.
    fn call(&'static self, cx: &mut Lower<'_>, window: Arg, mut geometry: Transform) -> Result {
        let (dtype, x, y) = (cx.ty(0)?.dtype, cx.input(0)?.into(), cx.output(0)?.into());
        let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let (table, work) = match geometry.n.known().map(usize::try_from) {
            Some(Ok(n)) if self.takes_table(cx, n) => {
                geometry.lanes = match cx.optimize() {
                    Optimize::Speed => lanes(n, &(&geometry.from.batch * &geometry.from.lines)),
                    Optimize::Size => 1,
                };
                let work = rt::work_len(n, self.halved) * geometry.lanes;
                (cx.weight(&self.table_of(n, wide)), cx.scratch(wide, work))
            }
            _ => {
                let n = &geometry.n;
                let (table, work) = (n * rt::MOST_TABLE, n * rt::MOST_WORK);
                let (table, work) = (cx.scratch(wide, table), cx.scratch(wide, work));
                let outputs = vec![table.clone().into(), work.clone().into()];
                cx.call_on(&self.table, wide, Vec::new(), outputs, (n.clone(),))?;
                (table, work)
            }
        };
        let mut inputs = vec![x, table.into()];
        if self.windowed {
            inputs.insert(1, window);
        }
        cx.call_on(&self.kernel, dtype, inputs, vec![y, work.into()], geometry)
    }

    /// Returns whether the plan may store the table of a transform of length `n`.
    fn takes_table(&self, cx: &Lower<'_>, n: usize) -> bool {
        let can_be = n.checked_mul(rt::MOST_TABLE.max(rt::MOST_WORK)).is_some();
        can_be && cx.take(Limit::TableElements, rt::table_len(n, self.halved))
    }

    /// The table of a transform of length `n`.
    fn table_of(&self, n: usize, wide: DType) -> Tensor {
        let mut table = vec![0.0; rt::table_len(n, self.halved)];
        let mut work = vec![0.0; rt::work_len(n, self.halved)];
        let fill = if self.halved { rt::real_dft_table } else { rt::dft_table };
        fill(&mut table, &mut work, n);
        Tensor::from_wide(wide, &table)
    }
}

/// The number of lines of length `n` that are transformed at a time: as many as a vector has lanes,
/// but one if several lines would not stay in the cache.
fn lanes(n: usize, lines: &Dim) -> usize {
    /// The length from which on lines are transformed one by one.
    const LONG: usize = 4096;
    match lines.known() {
        _ if n >= LONG => 1,
        Some(..=1) => 1,
        Some(2..=8) => rt::MOST_LANES / 2,
        _ => rt::MOST_LANES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Given, check, tensor};

    fn scalar(dtype: DType) -> Given {
        tensor::<usize, 0>(dtype, [])
    }

    #[test]
    fn the_size_of_the_axis_becomes_the_length_of_the_transform() {
        let [forward, onesided] =
            [false, true].map(|onesided| move || Dft { inverse: false, onesided });
        let inverse = |onesided| Dft { inverse: true, onesided };
        let x =
            |parts| tensor(DType::F32, [2.into(), Dim::symbol("n"), 3.into(), Dim::from(parts)]);
        let axis = |axis| Given::Ints(vec![axis]);
        check(forward(), &[x(1)], 1, "float[2, n, 3, 2]");
        check(onesided(), &[x(1), Given::Nothing, axis(1)], 1, "float[2, n / 2 + 1, 3, 2]");
        check(onesided(), &[x(1), Given::Ints(vec![9])], 1, "float[2, n, 5, 2]");
        check(inverse(false), &[x(2), Given::Nothing, axis(-3)], 1, "float[2, n, 3, 2]");
        check(inverse(true), &[x(2)], 1, "float[2, n, 4, 1]");
        check(forward(), &[x(2), scalar(DType::I64)], 1, "float[2, n, y0_0, 2]");
        check(onesided(), &[x(1), scalar(DType::I64), axis(0)], 1, "float[y0_0 / 2 + 1, n, 3, 2]");
        let any = "float[y0_4, y0_5, y0_6, 2]";
        check(forward(), &[x(2), Given::Nothing, scalar(DType::I64)], 1, any);
    }

    #[test]
    fn invalid_axes_lengths_and_types_are_errors() {
        let forward = || Dft { inverse: false, onesided: false };
        let x = || tensor(DType::F32, [4, 2]);
        let expected = "`axis` must not be the last axis, which holds real and imaginary parts";
        check(forward(), &[x(), Given::Nothing, Given::Ints(vec![-1])], 1, expected);
        check(
            forward(),
            &[x(), Given::Ints(vec![0])],
            1,
            "the length of a transform must be at least 1: 0 is less than 1",
        );
        let expected = "input 0 must have two axes or more, and a last axis of size 1 or 2";
        check(forward(), &[tensor(DType::F32, [4, 3])], 1, expected);
        check(forward(), &[tensor(DType::F32, [2])], 1, expected);
        let expected = "input 0 is int64, which the operator does not allow";
        check(forward(), &[tensor(DType::I64, [4, 2])], 1, expected);
    }
}
