//! `MelWeightMatrix`: the matrix that sums a spectrum to bands of the mel scale.

use super::{cast_size_to_i64, known_size, window::output_type};
use crate::{
    diag::Result,
    dim::Dim,
    dtype::{DType, FLOATS, INDICES},
    ir::{Attributes, Gradient, Infer, Inferred, Lower, Op},
    ops::{Entry, cast::CastMode, entry},
    plan::{Arg, Kernel, NoParams, kernel},
    ty::Type,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[entry("MelWeightMatrix", 17, |node| {
    // The number of bands, the length and the sample rate have one type.
    (0..3).try_for_each(|i| cast_size_to_i64(node, i))?;
    Ok(Rc::new(MelWeightMatrix { dtype: output_type(node)? }))
})];

/// A matrix `[length / 2 + 1, bands]`: a row for each frequency of a one-sided transform, a column
/// for each band. The inputs are the number of bands, the length of the transform, the sample rate,
/// and the lower edge of the lowest and the upper edge of the highest band, in hertz.
pub struct MelWeightMatrix {
    /// The element type.
    pub dtype: DType,
}

static MEL_WEIGHT_MATRIX: Kernel<(Dim, Dim)> = kernel!(checked NUMERIC T,
    fourier::mel_weight_matrix::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.input(2), a.output(0), p.0, p.1));
static MEL_SIZES: Kernel = kernel!(checked I64_ONLY T, fourier::mel_sizes,
    |f, a, _p| f(a.sizes(), a.input::<T>(0), a.input(1)));

impl Op for MelWeightMatrix {
    fn name(&self) -> &'static str {
        "MelWeightMatrix"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("output_datatype", self.dtype.code().into());
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let bands = known_size(cx, 0, 0, "the number of bands")?;
        let length = known_size(cx, 1, 0, "the length of a transform")?;
        for (i, allowed) in [(2, INDICES), (3, FLOATS), (4, FLOATS)] {
            cx.of(i, allowed)?;
            cx.require_one_element(i)?;
        }
        let (bands, length) = match (bands, length) {
            (Some(bands), Some(length)) => (bands, length),
            _ => {
                let fresh = cx.fresh_sizes([None, None]);
                (fresh[0].clone(), fresh[1].clone())
            }
        };
        Ok(vec![Type::tensor(self.dtype, [length.floor_div(&2.into()) + 1, bands])])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (bands, length) = (cx.input(0)?.into(), cx.input(1)?.into());
        cx.bind(&MEL_SIZES, DType::I64, vec![bands, length], NoParams)?;
        let bound = |i: usize| cx.node().binds.get(i).map(|symbol| Dim::symbol(symbol));
        let known = |i: usize| cx.known(i).and_then(<[Dim]>::first).cloned();
        let size = |i: usize| bound(i).or_else(|| known(i)).unwrap_or_else(|| 0.into());
        let (bands, length) = (size(0), size(1));
        let mut edges: Vec<Arg> = Vec::new();
        for i in 2..5 {
            let (dtype, x) = (cx.ty(i)?.dtype, cx.input(i)?);
            let wide = cx.scratch(DType::F64, 1);
            CastMode::DEFAULT.call(cx, dtype, x, DType::F64, wide.clone())?;
            edges.push(wide.into());
        }
        let y = cx.output(0)?.into();
        cx.call_on(&MEL_WEIGHT_MATRIX, self.dtype, edges, vec![y], (length, bands))
    }

    /// The inputs are sizes and band edges, which have no gradient.
    fn gradient(&self, _: &mut Gradient<'_>) -> Result {
        Ok(())
    }
}
