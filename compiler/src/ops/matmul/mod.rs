//! Products of matrices.

pub(crate) mod integer;

use super::{Entry, entry, internal, pack, weight_precision::Factor};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::{ARITHMETIC, DType, FLOATS},
    ir::{Attributes, Domain, Expr, Gradient, Infer, Inferred, Lower, Op, Reader},
    plan::{
        Arg, Field, Formula, Kernel, Operand, Optimize,
        geometry::{self, Layout},
        kernel,
    },
    ty::Type,
};
use onnxc_runtime::kernels::{epilogue::Activation, matmul};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("Gemm", 1, |node| {
        // Before version 7 a flag said whether `C` may be stretched; today it always may.
        node.flag("broadcast", false)?;
        Ok(Rc::new(Gemm::read(node)?))
    }),
    entry("Gemm", 7, |node| Ok(Rc::new(Gemm::read(node)?))),
    entry("MatMul", 1, |_| Ok(Rc::new(MatMul { activation: Activation::Identity, fused: false }))),
    internal("Gemm", |node| {
        let activation = node.activation()?;
        Ok(Rc::new(Gemm { activation, ..Gemm::read(node)? }))
    }),
    internal("MatMul", |node| Ok(Rc::new(MatMul { activation: node.activation()?, fused: true }))),
];

/// The kernels of a product for each way to calculate.
struct Kernels<F: Formula + Field> {
    /// Whole numbers.
    plain: Kernel<F>,
    /// 16-bit numbers, whose sums are gathered in a wider type; and all real ones without scratch
    /// memory.
    float: Kernel<(F, Activation)>,
    /// `float`.
    f32: Kernel<(F, Activation)>,
    /// `double`.
    f64: Kernel<(F, Activation)>,
}

macro_rules! kernels {
    ($room:ident: $plain:ident $float:ident $f32:ident $f64:ident) => {
        Kernels {
            plain: kernel!(ARITHMETIC T, $room::$plain::<T>,
                |f, a, p| f(a.input(0), a.input(1), a.optional(2), a.output(0), p)),
            float: kernel!(FLOATS T, $room::$float::<T>,
                |f, a, p| f(a.input(0), a.input(1), a.optional(2), a.output(0), p.0, p.1)),
            f32: kernel!(F32_ONLY T, $room::$f32, |f, a, p| f(
                a.input(0), a.input(1), a.optional(2), a.output(0), a.output(1), p.0, p.1)),
            f64: kernel!(F64_ONLY T, $room::$f64, |f, a, p| f(
                a.input(0), a.input(1), a.optional(2), a.output(0), a.output(1), p.0, p.1)),
        }
    };
}

static GEMM: Kernels<geometry::Gemm> = kernels!(matmul: gemm gemm_float gemm_f32 gemm_f64);
static MATMUL: Kernels<geometry::MatMul> =
    kernels!(matmul: matmul matmul_float matmul_f32 matmul_f64);

/// That of `float` where space matters more than time.
static SMALL: Kernel<(Dim, Activation)> = kernel!(F32_ONLY T, matmul::small_gemm, |f, a, p|
    f(a.input(0), a.input(1), a.optional(2), a.output(0), p.0, p.1));

/// Whether [`SMALL`] is wanted for the node at hand, and does that product.
fn is_small(cx: &Lower<'_>, geometry: &geometry::Gemm) -> Result<bool> {
    let rows = |k: &Dim| Layout::Strides(k.clone(), 1.into());
    let columns = |k: &Dim| Layout::Strides(1.into(), k.clone());
    let geometry::Gemm { m, k, a, b, c: [c_row, c_col], alpha, beta, .. } = geometry;
    let some = k.known().is_some_and(|k| k > 0);
    let fits = some && *a == rows(k) && *b == columns(k) && [*alpha, *beta] == [1.0; 2];
    let is = |dim: &Dim, number| dim.known() == Some(number);
    let addends = !cx.has(2) || is(c_col, 1) && (is(c_row, 0) || is(m, 1));
    let small = cx.optimize() == Optimize::Size && cx.output_ty(0)?.dtype == DType::F32;
    Ok(small && fits && addends)
}

/// How the right factor is packed, where its sizes are known.
fn packing(geometry: &geometry::Gemm) -> Option<pack::Right> {
    let Layout::Strides(row, col) = &geometry.b else { return None };
    let size = |dim: &Dim| usize::try_from(dim.known()?).ok();
    Some(pack::Right(matmul::Packing {
        rows: size(&geometry.k)?,
        cols: size(&geometry.n)?,
        strides: [size(row)?, size(col)?],
    }))
}

/// Packs the right factor, where it is one constant matrix.
fn pack_right(cx: &mut Lower<'_>, geometry: &mut geometry::Gemm) -> Option<Operand> {
    let packed = pack::packed(cx, 1, packing(geometry)?)?;
    geometry.b = Layout::Packed;
    Some(packed)
}

/// The right factor in fewer bits, where it is one constant matrix and to stand so.
fn narrow_right(cx: &mut Lower<'_>, geometry: &geometry::Gemm) -> Option<Factor> {
    pack::narrow(cx, 1, packing(geometry)?)
}

/// Calls the kernel for the element type, on the node's inputs, or the right factor packed.
fn multiply<F: Formula + Field>(
    cx: &mut Lower<'_>,
    kernels: &'static Kernels<F>,
    packed: Option<Operand>,
    geometry: F,
    scratch: Dim,
    f: Activation,
) -> Result {
    let dtype = cx.output_ty(0)?.dtype;
    let b = match packed {
        Some(packed) => packed,
        None => cx.input(1)?,
    };
    let inputs = vec![cx.input(0)?.into(), b.into(), Arg::Optional(cx.optional(2)?)];
    let y = cx.output(0)?;
    multiply_on(cx, kernels, dtype, (inputs, y), geometry, scratch, f)
}

/// Calls kernels for a stack of products of two operands.
pub(super) fn product(
    cx: &mut Lower<'_>,
    dtype: DType,
    factors: [Operand; 2],
    y: Operand,
    stack: geometry::MatMul,
) -> Result {
    let [a, b] = factors.map(Arg::from);
    let operands = (vec![a, b, Arg::Optional(None)], y);
    let scratch = stack.scratch(&|dim| cx.most(dim));
    match stack.as_one() {
        Some(one) => multiply_on(cx, &GEMM, dtype, operands, one, scratch, Activation::Identity),
        None => multiply_on(cx, &MATMUL, dtype, operands, stack, scratch, Activation::Identity),
    }
}

fn multiply_on<F: Formula + Field>(
    cx: &mut Lower<'_>,
    kernels: &'static Kernels<F>,
    dtype: DType,
    (inputs, y): (Vec<Arg>, Operand),
    geometry: F,
    scratch: Dim,
    f: Activation,
) -> Result {
    let mut outputs = vec![y.into()];
    let kernel = match (dtype, cx.optimize()) {
        (DType::F32, Optimize::Speed) => &kernels.f32,
        (DType::F64, Optimize::Speed) => &kernels.f64,
        (DType::F32 | DType::F64 | DType::F16 | DType::BF16, _) => &kernels.float,
        _ => return cx.call_on(&kernels.plain, dtype, inputs, outputs, geometry),
    };
    if matches!(dtype, DType::F32 | DType::F64) && cx.optimize() == Optimize::Speed {
        outputs.push(cx.scratch(dtype, scratch).into());
    }
    cx.call_on(kernel, dtype, inputs, outputs, (geometry, f))
}

/// `alpha · A · B + beta · C`, either factor transposed.
#[derive(Clone)]
pub struct Gemm {
    /// The factor of the product.
    pub alpha: f32,
    /// The factor of the addend.
    pub beta: f32,
    /// Whether `A` is transposed.
    pub trans_a: bool,
    /// Whether `B` is transposed.
    pub trans_b: bool,
    /// What follows the sum.
    pub activation: Activation,
}

impl Gemm {
    fn read(node: &mut Reader<'_>) -> Result<Gemm> {
        Ok(Gemm {
            alpha: node.float("alpha", 1.0)?,
            beta: node.float("beta", 1.0)?,
            trans_a: node.flag("transA", false)?,
            trans_b: node.flag("transB", false)?,
            activation: Activation::Identity,
        })
    }

    /// Rows, columns and length of the sums.
    fn sizes<'s>(&self, a: &'s [Dim], b: &'s [Dim]) -> [&'s Dim; 4] {
        let ([m, k], [l, n]) = (turned(a, self.trans_a), turned(b, self.trans_b));
        [m, n, k, l]
    }
}

/// The sizes of a matrix, or of the transposed one.
fn turned(shape: &[Dim], transposed: bool) -> [&Dim; 2] {
    if transposed { [&shape[1], &shape[0]] } else { [&shape[0], &shape[1]] }
}

impl Op for Gemm {
    fn name(&self) -> &'static str {
        "Gemm"
    }

    fn domain(&self) -> Domain {
        if self.activation == Activation::Identity { Domain::Onnx } else { Domain::Internal }
    }

    fn attributes(&self, a: &mut Attributes) {
        a.float("alpha", self.alpha);
        a.float("beta", self.beta);
        a.flag("transA", self.trans_a);
        a.flag("transB", self.trans_b);
        a.activation(self.activation);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let types = if self.domain() == Domain::Onnx { ARITHMETIC } else { FLOATS };
        let dtype = cx.of(0, types)?.dtype;
        cx.same_dtype(0, 1)?;
        let (a, b) = (&cx.ranked(0, 2)?.shape, &cx.ranked(1, 2)?.shape);
        let [m, n, k, l] = self.sizes(a, b);
        cx.require_equal(k, l, "the columns of `A` and the rows of `B`")?;
        let shape = vec![m.clone(), n.clone()];
        if cx.has(2) {
            cx.same_dtype(0, 2)?;
            stretches(cx, 2, &shape)?;
        }
        Ok(vec![Type::tensor(dtype, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (a, b) = (&cx.ty(0)?.shape, &cx.ty(1)?.shape);
        let [m, n, k, _] = self.sizes(a, b).map(Clone::clone);
        let layout = |shape: &[Dim], transposed| match transposed {
            true => Layout::Strides(1.into(), shape[1].clone()),
            false => Layout::Strides(shape[1].clone(), 1.into()),
        };
        let c = match cx.has(2) {
            true => geometry::stretched(&cx.ty(2)?.shape, &[m.clone(), n.clone()]),
            false => vec![0.into(); 2],
        };
        cx.macs(&(&m * &n * &k));
        let mut geometry = geometry::Gemm {
            a: layout(a, self.trans_a),
            b: layout(b, self.trans_b),
            c: c.try_into().expect("a matrix has two strides"),
            y_row: n.clone(),
            alpha: self.alpha,
            beta: self.beta,
            m,
            n,
            k,
        };
        if let Some(stored) = narrow_right(cx, &geometry) {
            return stored.multiply(cx, geometry, self.activation);
        }
        if is_small(cx, &geometry)? {
            let c = Arg::Optional(cx.optional(2)?);
            let (inputs, y) = (vec![cx.input(0)?.into(), cx.input(1)?.into(), c], cx.output(0)?);
            let formula = (geometry.k, self.activation);
            return cx.call_on(&SMALL, DType::F32, inputs, vec![y.into()], formula);
        }
        let packed = pack_right(cx, &mut geometry);
        let scratch = geometry.scratch(&|dim| cx.most(dim));
        multiply(cx, &GEMM, packed, geometry, scratch, self.activation)
    }

    /// Of `A'B' + C`: `dA' = dy B'ᵀ` and `dB' = A'ᵀ dy`.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (a, b, Some(dy)) = (g.x(0), g.x(1), g.dy(0)) else { return Ok(()) };
        let Gemm { alpha, trans_a, trans_b, .. } = *self;
        // A transposed factor has the transposed derivative: `B' dyᵀ` and `dyᵀ A'`.
        let da = match trans_a {
            true => b.gemm([trans_b, true], dy, alpha),
            false => dy.gemm([false, !trans_b], b, alpha),
        };
        let db = match trans_b {
            true => dy.gemm([true, trans_a], a, alpha),
            false => a.gemm([!trans_a, false], dy, alpha),
        };
        g.set(0, da);
        g.set(1, db);
        if g.has(2) {
            g.set(2, dy * f64::from(self.beta));
        }
        Ok(())
    }
}

/// Says that input `i` can be stretched to `shape`, but does not stretch `shape` itself.
fn stretches(cx: &mut Infer<'_>, i: usize, shape: &[Dim]) -> Inferred<()> {
    let addend = cx.shape(i)?;
    let joined = cx.broadcast(&[shape, addend])?;
    if joined.len() > shape.len() {
        let message = format!("input {i} has more axes than the result");
        return Err(cx.diagnostic(Code::ShapeMismatch, message));
    }
    for (size, joined) in shape.iter().zip(&joined) {
        cx.require_equal(size, joined, "an axis of the result and of the addend")?;
    }
    Ok(())
}

/// The product of matrices, or of piles of them that are stretched to one pile.
///
/// As an operator of passes it may have a third input, which is stretched to the product's shape
/// and added.
pub struct MatMul {
    /// What follows the sum.
    pub activation: Activation,
    /// Whether a pass made it.
    pub fused: bool,
}

/// A shape as a pile of matrices: the axes of the pile, rows and columns. A vector is a row on the
/// left, a column on the right.
pub(super) fn matrices(shape: &[Dim], left: bool) -> (&[Dim], Dim, Dim) {
    match shape {
        [pile @ .., rows, columns] => (pile, rows.clone(), columns.clone()),
        [size] if left => (&[], 1.into(), size.clone()),
        [size] => (&[], size.clone(), 1.into()),
        [] => (&[], 1.into(), 1.into()),
    }
}

/// The shape of the product of inputs `a` and `b`.
pub(super) fn product_shape(cx: &mut Infer<'_>, a: usize, b: usize) -> Inferred<Vec<Dim>> {
    let (a, b) = (cx.shape(a)?, cx.shape(b)?);
    if a.is_empty() || b.is_empty() {
        return Err(cx.diagnostic(Code::ShapeMismatch, "a factor has no axes"));
    }
    let ((pile_a, m, k), (pile_b, l, n)) = (matrices(a, true), matrices(b, false));
    cx.require_equal(&k, &l, "the columns of the left factor and the rows of the right one")?;
    let mut shape = cx.broadcast(&[pile_a, pile_b])?;
    shape.extend((a.len() > 1).then_some(m));
    shape.extend((b.len() > 1).then_some(n));
    Ok(shape)
}

impl Op for MatMul {
    fn name(&self) -> &'static str {
        "MatMul"
    }

    fn domain(&self) -> Domain {
        if self.fused { Domain::Internal } else { Domain::Onnx }
    }

    fn attributes(&self, a: &mut Attributes) {
        a.activation(self.activation);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let dtype = cx.of(0, if self.fused { FLOATS } else { ARITHMETIC })?.dtype;
        cx.same_dtype(0, 1)?;
        let shape = product_shape(cx, 0, 1)?;
        if cx.has(2) {
            cx.same_dtype(0, 2)?;
            stretches(cx, 2, &shape)?;
            if cx.shape(0)?.len().min(cx.shape(1)?.len()) < 2 {
                return Err(cx.diagnostic(Code::ShapeMismatch, "vectors take no addend"));
            }
        }
        Ok(vec![Type::tensor(dtype, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (a, b) = (&cx.ty(0)?.shape, &cx.ty(1)?.shape);
        let ((pile_a, m, k), (pile_b, _, n)) = (matrices(a, true), matrices(b, false));
        let shape = &cx.output_ty(0)?.shape;
        cx.macs(&(shape.iter().product::<Dim>() * &k));
        let pile = &shape[..pile_a.len().max(pile_b.len())];
        let over = |factor: &[Dim], [rows, columns]: [&Dim; 2]| {
            let to = [pile, &[rows.clone(), columns.clone()]].concat();
            geometry::stretched(factor, &to)
        };
        let a = over(&[pile_a, &[m.clone(), k.clone()]].concat(), [&m, &k]);
        let b = over(&[pile_b, &[k.clone(), n.clone()]].concat(), [&k, &n]);
        let c = over(if cx.has(2) { &cx.ty(2)?.shape } else { &[] }, [&m, &n]);
        let (_, [row, column]) = c.split_last_chunk().expect("rows and columns");
        let matrix = geometry::Gemm {
            a: Layout::Strides(k.clone(), 1.into()),
            b: Layout::Strides(n.clone(), 1.into()),
            c: [row.clone(), column.clone()],
            y_row: n.clone(),
            alpha: 1.0,
            beta: 1.0,
            m,
            n,
            k,
        };
        let (sizes, strides) = geometry::merged(pile, &[a, b, c]);
        let [a, b, c] = strides.try_into().expect("three operands");
        let mut stack = geometry::MatMul { sizes, a, b, c, matrix };
        let same_right = stack.b.iter().all(|stride| stride.known() == Some(0));
        if let (true, Some(one)) = (same_right, stack.as_one())
            && let Some(stored) = narrow_right(cx, &one)
        {
            return stored.multiply(cx, one, self.activation);
        }
        let packed = if same_right { pack_right(cx, &mut stack.matrix) } else { None };
        let scratch = stack.scratch(&|dim| cx.most(dim));
        match stack.as_one() {
            Some(one) => multiply(cx, &GEMM, packed, one, scratch, self.activation),
            None => multiply(cx, &MATMUL, packed, stack, scratch, self.activation),
        }
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (a, b, Some(dy)) = (g.x(0), g.x(1), g.dy(0)) else { return Ok(()) };
        if let Some([rows, columns]) = one_matrix(a, b) {
            // All rows of the pile on the left are rows of one matrix.
            let (left, dy) = (a.reshape_to(&[-1, rows]), dy.reshape_to(&[-1, columns]));
            g.set(0, dy.gemm([false, true], b, 1.0).reshape_like(a));
            g.set(1, left.gemm([true, false], dy, 1.0));
            return Ok(());
        }
        // A factor with one axis is a row on the left and a column on the right.
        let (row, column) = (a.rank() == 1, b.rank() == 1);
        let (left, dy) = if row {
            (a.with_axis(0), dy.with_axis(if column { -1 } else { -2 }))
        } else {
            (a, dy)
        };
        let (right, dy) = if column { (b.with_axis(1), dy.with_axis(-1)) } else { (b, dy) };
        let (da, db) = (dy.matmul(right.turned()), left.turned().matmul(dy));
        g.set(0, if row { da.fit(left).reshape_like(a) } else { da });
        g.set(1, if column { db.fit(right).reshape_like(b) } else { db });
        Ok(())
    }
}

/// The sizes of the right factor, where that is one matrix, and neither empty nor free.
fn one_matrix(left: Expr<'_>, right: Expr<'_>) -> Option<[i64; 2]> {
    let [rows, columns] = right.dims().try_into().ok()?;
    let size = |dim: Dim| dim.known().filter(|&size| size > 0);
    if left.rank() < 2 { None } else { Some([size(rows)?, size(columns)?]) }
}

impl<'t> Expr<'t> {
    /// The product of two matrices, of which either may be the transposed one, and a factor.
    fn gemm(self, [trans_a, trans_b]: [bool; 2], right: Expr<'t>, alpha: f32) -> Expr<'t> {
        let activation = Activation::Identity;
        self.apply(Gemm { alpha, beta: 1.0, trans_a, trans_b, activation }, &[right])
    }

    /// The product of matrices.
    pub fn matmul(self, right: Expr<'t>) -> Expr<'t> {
        self.apply(MatMul { activation: Activation::Identity, fused: false }, &[right])
    }
}
