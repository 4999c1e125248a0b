//! The internal operator that evaluates tree ensembles.

use super::table::Aggregate;
use crate::{
    diag::Result,
    dim::Dim,
    dtype::{DType, F32_AND_F64},
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op},
    plan::{Kernel, Optimize, geometry, kernel},
    ty::Type,
};

/// Evaluates an ensemble of trees on each row of features. Its inputs are the rows, then the tables
/// that the runtime library's `tree` module describes.
pub(super) struct Trees {
    pub aggregate: Aggregate,
    /// The number of trees.
    pub trees: usize,
    /// The number of features that the splits read.
    pub features: usize,
    /// The number of results.
    pub targets: usize,
    /// The number of results for which a leaf has weights.
    pub width: usize,
}

macro_rules! trees {
    ($set:ident $T:ident, $name:ident $(:: <$G:ident>)?) => {
        kernel!($set $T, ml::$name $(::<$G>)? { operands: ml::TreeOperands {
            values: input(1), nodes: input(2), trees: input(3), weights: input(4), base: input(5),
        } }, |f, a, p| f(a.input(0), operands, a.output(0), p))
    };
}

static TREE_SUM: Kernel<geometry::Trees> = trees!(F32_AND_F64 T, tree_sum::<T>);
static TREE_SUM_F32: Kernel<geometry::Trees> = trees!(F32_ONLY T, tree_sum_f32);
static TREE_MIN: Kernel<geometry::Trees> = trees!(F32_AND_F64 T, tree_min::<T>);
static TREE_MAX: Kernel<geometry::Trees> = trees!(F32_AND_F64 T, tree_max::<T>);

impl Op for Trees {
    fn name(&self) -> &'static str {
        "Trees"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        let (aggregate, _) = self.kernel();
        a.string("aggregate", aggregate);
        for (name, size) in [
            ("trees", self.trees),
            ("features", self.features),
            ("targets", self.targets),
            ("width", self.width),
        ] {
            a.int(name, i64::try_from(size).unwrap_or(i64::MAX));
        }
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let dtype = cx.of(0, F32_AND_F64)?.dtype;
        let [rows, features] = super::super::rows(cx)?;
        cx.require_at_least(
            &features,
            &Dim::from(self.features),
            "the number of features of a row",
        )?;
        Ok(vec![Type::tensor(dtype, [rows, self.targets.into()])])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let features = cx.ty(0)?.shape.last().cloned().unwrap_or(1.into());
        let divisor = if self.aggregate == Aggregate::Average { self.trees } else { 1 };
        let (targets, width) = (self.targets, self.width);
        let geometry = geometry::Trees { features, targets, width, divisor };
        let is_sum = matches!(self.aggregate, Aggregate::Sum | Aggregate::Average);
        if is_sum && cx.ty(0)?.dtype == DType::F32 && cx.optimize() == Optimize::Speed {
            return cx.call(&TREE_SUM_F32, geometry);
        }
        cx.call(self.kernel().1, geometry)
    }
}

impl Trees {
    fn kernel(&self) -> (&'static str, &'static Kernel<geometry::Trees>) {
        match self.aggregate {
            Aggregate::Sum => ("SUM", &TREE_SUM),
            Aggregate::Average => ("AVERAGE", &TREE_SUM),
            Aggregate::Min => ("MIN", &TREE_MIN),
            Aggregate::Max => ("MAX", &TREE_MAX),
        }
    }
}
