//! `Expand` repeats a tensor along axes of size 1, `Tile` along any axis.

use super::{Entry, entry};
use crate::{
    diag::{Code, Diagnostic, Result, counted, there_are},
    dim::Dim,
    dtype::{ANY, DType},
    ir::{Expr, Gradient, Infer, Inferred, Lower, Op, Reader, Views},
    plan::{Kernel, geometry::Shapes, kernel},
    tensor::Tensor,
    ty::Type,
};
use std::{rc::Rc, slice::from_ref};

pub const OPS: &[Entry] = &[
    entry("Expand", 8, |_| Ok(Rc::new(Expand))),
    entry("Tile", 1, tile_axis),
    entry("Tile", 6, |_| Ok(Rc::new(Tile))),
];

/// Reads `Tile` before version 6: input 1 holds the number of repeats, input 2 the axis.
fn tile_axis(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    let rank = node.rank(0)?;
    let number = |i: usize| node.elements(i).and_then(Tensor::floats)?.first().copied();
    let (Some(tiles), Some(axis)) = (number(1), number(2)) else {
        let message = "`Tile` supports only constant tiles and axes in version 1";
        return Err(Diagnostic::new(Code::Unsupported, message));
    };
    let mut repeats = vec![1; rank];
    let Some(repeat) = repeats.get_mut(axis as usize).filter(|_| axis >= 0.0) else {
        let message = format!("the axis is {axis}, but {}", there_are(rank, "axis"));
        return Err(Diagnostic::new(Code::ShapeMismatch, message));
    };
    *repeat = tiles as i64;
    node.inputs.truncate(1);
    node.add_input("repeats", 1, Tensor::from_ints(&repeats));
    Ok(Rc::new(Tile))
}

/// Broadcasts input 0 to the shape that results from its own shape and input 1.
pub struct Expand;

static EXPAND: Kernel<Shapes> =
    kernel!(moves T, expand::expand::<T>, |f, a, p| f(a.input(0), a.output(0), p));
static EXPAND_SIZES: Kernel<(Vec<Dim>,)> = kernel!(checked I64_ONLY T, expand::expand_sizes,
    |f, a, p| f(a.sizes(), a.input::<T>(0), p.0));

impl Op for Expand {
    fn name(&self) -> &'static str {
        "Expand"
    }

    fn count_for_rank(&self, rank: usize, data: usize) -> Option<(usize, usize)> {
        (rank > data).then_some((1, rank))
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, ANY)?;
        cx.of(1, &[DType::I64])?;
        let shape = match cx.known(1) {
            Some(target) => {
                for size in target {
                    cx.require_at_least(size, &0.into(), "a size must not be negative")?;
                }
                cx.broadcast(&[&ty.shape, target])?
            }
            None => infer_partly_known_shape(cx, &ty.shape)?,
        };
        record_repeated(cx, &shape);
        Ok(vec![Type::tensor(ty.dtype, shape)])
    }

    fn views(&self, cx: &mut Views<'_>) {
        view_if_same_len(cx);
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        lower(cx, &EXPAND, &EXPAND_SIZES)
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        if let Some(dy) = g.dy(0) {
            g.set(0, dy);
        }
        Ok(())
    }
}

/// The shape of a tensor of shape `from` after `Expand` to a shape that is not known entirely. The
/// node defines a symbol for each axis; only the sizes that are unknown at compile time use theirs.
fn infer_partly_known_shape(cx: &mut Infer<'_>, from: &[Dim]) -> Inferred<Vec<Dim>> {
    let count = cx.count(1)?;
    let rank = from.len().max(count);
    let target = cx.partly(1).unwrap_or_else(|| vec![None; count]);
    let mut shape = cx.fresh_sizes(vec![None; rank]);
    for (axis, size) in shape.iter_mut().enumerate() {
        let own = (axis + from.len()).checked_sub(rank).map(|i| &from[i]);
        let target = match (axis + count).checked_sub(rank) {
            Some(i) => target[i].as_ref(),
            None => Some(&Dim::from(1)),
        };
        if let Some(target) = target {
            cx.require_at_least(target, &0.into(), "a size must not be negative")?;
        }
        match (own, target) {
            (Some(own), Some(target)) => {
                *size = cx.broadcast(&[from_ref(own), from_ref(target)])?.remove(0);
            }
            (None, Some(target)) => *size = target.clone(),
            // An axis whose size is not 1 keeps it.
            (Some(own), None) if own.known().is_some_and(|n| n != 1) => *size = own.clone(),
            (_, None) => {}
        }
    }
    Ok(shape)
}

/// Repeats input 0 along each axis; input 1 holds the numbers of repeats.
pub struct Tile;

static TILE: Kernel<Shapes> =
    kernel!(moves T, expand::tile::<T>, |f, a, p| f(a.input(0), a.output(0), p));
static TILE_SIZES: Kernel<(Vec<Dim>,)> = kernel!(checked I64_ONLY T, expand::tile_sizes,
    |f, a, p| f(a.sizes(), a.input::<T>(0), p.0));

impl Op for Tile {
    fn name(&self) -> &'static str {
        "Tile"
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, ANY)?;
        cx.of(1, &[DType::I64])?;
        if cx.count(1)? != ty.rank() {
            let repeats = there_are(cx.count(1)?, "repeat");
            let message = format!("{repeats} for {}", counted(ty.rank(), "axis"));
            return Err(cx.diagnostic(Code::ShapeMismatch, message));
        }
        let shape = match cx.known(1) {
            Some(repeats) => {
                for repeat in repeats {
                    cx.require_at_least(
                        repeat,
                        &0.into(),
                        "a number of repeats must not be negative",
                    )?;
                }
                ty.shape.iter().zip(repeats).map(|(size, repeat)| size * repeat).collect()
            }
            None => cx.fresh_sizes(vec![None; ty.rank()]),
        };
        record_repeated(cx, &shape);
        Ok(vec![Type::tensor(ty.dtype, shape)])
    }

    fn views(&self, cx: &mut Views<'_>) {
        view_if_same_len(cx);
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        lower(cx, &TILE, &TILE_SIZES)
    }

    /// Sums over the repeats: `dy` is reshaped to `[repeats, size]` for each axis.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, repeats, Some(dy)) = (g.x(0), g.x(1), g.dy(0)) else { return Ok(()) };
        let sizes: Vec<_> =
            (0..x.rank()).flat_map(|axis| [repeats.element(axis), x.size_of(axis)]).collect();
        let repeated: Vec<usize> = (0..x.rank()).map(|axis| 2 * axis).collect();
        let dx = match sizes.is_empty() {
            true => dy,
            false => dy.reshape(g.tape().concat(&sizes)).sum(&repeated),
        };
        g.set(0, dx.reshape_like(x));
        Ok(())
    }
}

/// Records the elements of an output of `shape`, if those of the input are known.
fn record_repeated(cx: &mut Infer<'_>, shape: &[Dim]) {
    /// The largest number of elements that are tracked one by one.
    const MOST: usize = 1024;
    let len = match shape {
        [] => Some(1),
        [len] => len.known().and_then(|len| usize::try_from(len).ok()),
        _ => None,
    };
    if let (Some(known), Some(len)) = (cx.known(0), len.filter(|&len| len <= MOST)) {
        cx.set_known(0, known.iter().cycle().take(len).cloned().collect());
    }
}

/// Makes the output a view of the input if it has as many elements, that is, repeats none.
fn view_if_same_len(cx: &mut Views<'_>) {
    if cx.same_len(0, 0) {
        cx.view(0, 0, 0.into());
    }
}

fn lower(
    cx: &mut Lower<'_>,
    kernel: &'static Kernel<Shapes>,
    sizes: &'static Kernel<(Vec<Dim>,)>,
) -> Result {
    let (x, y) = (cx.ty(0)?, cx.output_ty(0)?);
    if !cx.node().binds.is_empty() {
        let target = cx.input(1)?.into();
        cx.bind(sizes, DType::I64, vec![target], (x.shape.clone(),))?;
    }
    if x.len() == y.len() {
        return Ok(());
    }
    let (input, output) = (cx.input(0)?.into(), cx.output(0)?.into());
    cx.call_on(kernel, y.dtype, vec![input], vec![output], Shapes::of(&x.shape, &y.shape))
}

impl<'t> Expr<'t> {
    /// Broadcasts `self` to the shape that the tensor `shape` holds.
    pub fn expand_to(self, shape: Expr<'t>) -> Expr<'t> {
        self.apply(Expand, &[shape])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Given, check, tensor};
    use DType::{F32, I64};

    fn n() -> Dim {
        Dim::symbol("n")
    }

    #[test]
    fn the_shape_of_expand_may_have_symbols() {
        let x = || tensor(F32, [n(), 1.into(), 4.into()]);
        let to = Given::Sizes(vec![2.into(), 1.into(), n() * 3, 1.into()]);
        check(Expand, &[x(), to], 1, "float[2, n, 3 * n, 4]");
        check(Expand, &[x(), tensor(I64, [4])], 1, "float[y0_0, y0_1, y0_2, 4]");
        let kept = tensor(F32, [n(), 5.into(), 1.into()]);
        check(Expand, &[kept, tensor(I64, [4])], 1, "float[y0_0, y0_1, 5, y0_3]");
        let expected = "the inputs do not broadcast: axis 2 has size 4 in one and 3 in another; \
                        one must be 1, or both equal";
        check(Expand, &[x(), Given::Ints(vec![3])], 1, expected);
        let expected = "a size must not be negative: 0 - 1 is less than 0";
        check(Expand, &[x(), Given::Ints(vec![-1])], 1, expected);
        let inputs = [Given::Sizes(vec![n()]), Given::Ints(vec![3])];
        check(Expand, &inputs, 1, "int64[3] = [n, n, n]");
    }

    #[test]
    fn repeats_may_be_symbols() {
        let x = || tensor(F32, [n(), 4.into()]);
        check(Tile, &[x(), Given::Sizes(vec![2.into(), n()])], 1, "float[2 * n, 4 * n]");
        check(Tile, &[x(), tensor(I64, [2])], 1, "float[y0_0, y0_1]");
        let expected = "there are 3 repeats for 2 axes";
        check(Tile, &[x(), tensor(I64, [3])], 1, expected);
        let inputs = [Given::Sizes(vec![n(), 3.into()]), Given::Ints(vec![2])];
        check(Tile, &inputs, 1, "int64[4] = [n, 3, n, 3]");
    }

    #[test]
    fn neighboring_axes_are_merged() {
        let dims = |sizes: &[i64]| sizes.iter().map(|&size| size.into()).collect::<Vec<Dim>>();
        let shapes = Shapes::of(&dims(&[1, 2, 3, 1]), &dims(&[4, 5, 2, 3, 7]));
        assert_eq!((shapes.from, shapes.to), (dims(&[1, 6, 1]), dims(&[20, 6, 7])));
        let shapes = Shapes::of(&dims(&[2, 3]), &dims(&[4, 6]));
        assert_eq!((shapes.from, shapes.to), (dims(&[2, 3]), dims(&[4, 6])));
        let shapes = Shapes::of(&[], &dims(&[1, 1]));
        assert_eq!((shapes.from, shapes.to), (dims(&[]), dims(&[])));
    }
}
