//! Pooling of NCHWc images.

use super::{AveragePool, GlobalPool, MaxPool, Pool, slides};
use crate::{
    diag::{Code, Result},
    dtype::DType,
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op},
    ops::{Entry, blocked, internal, window},
    plan::{Kernel, geometry, kernel},
    ty::Type,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[internal("BlockedPool", |node| {
    let fold = node.choice("fold", REDUCTIONS)?;
    let global = node.flag("global", false)?;
    let pool = if global { None } else { Some(Pool::read(node)?) };
    Ok(Rc::new(BlockedPool { pool, fold }))
})];

/// The reduction of a window to one element.
#[derive(Clone, Copy, PartialEq)]
enum Reduction {
    Max,
    Average,
    AveragePadded,
}

const REDUCTIONS: &[(&str, Reduction)] = &[
    ("max", Reduction::Max),
    ("average", Reduction::Average),
    ("average_padded", Reduction::AveragePadded),
];

/// Pooling of an NCHWc image.
pub struct BlockedPool {
    /// The window; `None` is the whole image.
    pool: Option<Pool>,
    fold: Reduction,
}

static MAX_POOL: Kernel<geometry::Pool> =
    kernel!(F32_ONLY T, pool::max_pool_nchwc, |f, a, p| f(a.input(0), a.output(0), p));
static AVERAGE_POOL: Kernel<geometry::Pool> =
    kernel!(F32_ONLY T, pool::average_pool_nchwc, |f, a, p| f(a.input(0), a.output(0), p));
static AVERAGE_POOL_PADDED: Kernel<geometry::Pool> = kernel!(F32_ONLY T,
    pool::average_pool_padded_nchwc, |f, a, p| f(a.input(0), a.output(0), p));

impl BlockedPool {
    /// Returns the NCHWc form of a pooling operator, if a kernel computes it.
    pub fn from_op(op: &dyn Op) -> Option<BlockedPool> {
        if let Some(MaxPool { pool, .. }) = op.downcast() {
            return Some(BlockedPool { pool: Some(pool.clone()), fold: Reduction::Max });
        }
        if let Some(AveragePool { pool, count_include_pad }) = op.downcast() {
            let fold =
                if *count_include_pad { Reduction::AveragePadded } else { Reduction::Average };
            return Some(BlockedPool { pool: Some(pool.clone()), fold });
        }
        match op.downcast()? {
            GlobalPool::Average => Some(BlockedPool::global_average()),
            GlobalPool::Max => Some(BlockedPool { pool: None, fold: Reduction::Max }),
            GlobalPool::Lp(_) => None,
        }
    }

    /// The mean of all pixels.
    pub fn global_average() -> BlockedPool {
        BlockedPool { pool: None, fold: Reduction::Average }
    }
}

impl Op for BlockedPool {
    fn name(&self) -> &'static str {
        "BlockedPool"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        let named = REDUCTIONS.iter().find(|(_, fold)| *fold == self.fold);
        a.string("fold", named.map_or("", |(name, _)| name));
        match &self.pool {
            Some(pool) => pool.attributes(a),
            None => a.flag("global", true),
        }
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let shape = &cx.of(0, &[DType::F32])?.shape;
        let Some((_, image)) = blocked::batch_and_image(shape) else {
            return Err(cx.diagnostic(Code::ShapeMismatch, "the input must be in NCHWc layout"));
        };
        let slides = slides(self.pool.as_ref(), image);
        for slide in &slides {
            slide.require(cx)?;
        }
        let mut shape = shape.clone();
        shape.splice(2..2 + slides.len(), window::shape(&slides));
        Ok(vec![Type::tensor(DType::F32, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let shape = &cx.ty(0)?.shape;
        let image = blocked::batch_and_image(shape).map_or(&[][..], |(_, image)| image);
        let geometry = super::geometry(cx, &slides(self.pool.as_ref(), image))?;
        cx.call(
            match self.fold {
                Reduction::Max => &MAX_POOL,
                Reduction::Average => &AVERAGE_POOL,
                Reduction::AveragePadded => &AVERAGE_POOL_PADDED,
            },
            geometry,
        )
    }
}
