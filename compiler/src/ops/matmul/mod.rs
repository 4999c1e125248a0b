//! Matrix multiplication: `Gemm` and `MatMul`.

pub(crate) mod integer;

use super::{Entry, entry, internal, pack, weight_precision::ReducedOperand};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::{ARITHMETIC, DType, FLOATS},
    ir::{Attributes, Domain, Expr, Gradient, Infer, Inferred, Lower, Op, Reader},
    plan::{
        Arg, Field, Formula, Kernel, Operand, Optimize,
        geometry::{self, Layout},
        kernel, size_function,
    },
    ty::Type,
};
use onnxc_runtime::kernels::{epilogue::Activation, matmul};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("Gemm", 1, |node| {
        // Before version 7, `broadcast` allowed `C` to be broadcast. Since then it always may be.
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

/// The kernels of a matrix product by element type.
struct Kernels<F: Formula + Field> {
    /// Integers.
    integer: Kernel<F>,
    /// 16-bit floats, with accumulators of a wider type; and all floats when no scratch memory is
    /// available.
    float: Kernel<(F, Activation)>,
    /// `float`.
    f32: Kernel<(F, Activation)>,
    /// `double`.
    f64: Kernel<(F, Activation)>,
}

macro_rules! kernels {
    ($module:ident: $integer:ident $float:ident $f32:ident $f64:ident) => {
        Kernels {
            integer: kernel!(ARITHMETIC T, $module::$integer::<T>,
                |f, a, p| f(a.input(0), a.input(1), a.optional(2), a.output(0), p)),
            float: kernel!(FLOATS T, $module::$float::<T>,
                |f, a, p| f(a.input(0), a.input(1), a.optional(2), a.output(0), p.0, p.1)),
            f32: kernel!(F32_ONLY T, $module::$f32, |f, a, p| f(
                a.input(0), a.input(1), a.optional(2), a.output(0), a.output(1), p.0, p.1)),
            f64: kernel!(F64_ONLY T, $module::$f64, |f, a, p| f(
                a.input(0), a.input(1), a.optional(2), a.output(0), a.output(1), p.0, p.1)),
        }
    };
}

static GEMM: Kernels<geometry::Gemm> = kernels!(matmul: gemm gemm_float gemm_f32 gemm_f64);
static MATMUL: Kernels<geometry::MatMul> =
    kernels!(matmul: matmul matmul_float matmul_f32 matmul_f64);

/// The kernel for `float` that [`Optimize::Size`] selects.
static SMALL: Kernel<(Dim, Activation)> = kernel!(F32_ONLY T, matmul::small_gemm, |f, a, p|
    f(a.input(0), a.input(1), a.optional(2), a.output(0), p.0, p.1));

/// Returns whether the node is optimized for size and [`SMALL`] computes its product: row-major
/// `A`, transposed `B`, no scaling, and a bias per column or none.
fn fits_small_kernel(cx: &Lower<'_>, geometry: &geometry::Gemm) -> Result<bool> {
    let rows = |k: &Dim| Layout::Strides(k.clone(), 1.into());
    let columns = |k: &Dim| Layout::Strides(1.into(), k.clone());
    let geometry::Gemm { m, k, a, b, c: [c_row, c_col], alpha, beta, .. } = geometry;
    let is_nonempty = k.known().is_some_and(|k| k > 0);
    let fits = is_nonempty && *a == rows(k) && *b == columns(k) && [*alpha, *beta] == [1.0; 2];
    let is = |dim: &Dim, number| dim.known() == Some(number);
    let bias_fits = !cx.has(2) || is(c_col, 1) && (is(c_row, 0) || is(m, 1));
    let for_size = cx.optimize() == Optimize::Size && cx.output_ty(0)?.dtype == DType::F32;
    Ok(for_size && fits && bias_fits)
}

/// The packing of the right operand, if its sizes are fixed.
fn right_packing(geometry: &geometry::Gemm) -> Option<pack::Right> {
    let Layout::Strides(row, col) = &geometry.b else { return None };
    let size = |dim: &Dim| usize::try_from(dim.known()?).ok();
    Some(pack::Right(matmul::Packing {
        rows: size(&geometry.k)?,
        cols: size(&geometry.n)?,
        strides: [size(row)?, size(col)?],
    }))
}

/// Packs the right operand if it is a single constant matrix.
fn pack_right(cx: &mut Lower<'_>, geometry: &mut geometry::Gemm) -> Option<Operand> {
    let packed = pack::pack_constant(cx, 1, right_packing(geometry)?)?;
    geometry.b = Layout::Packed;
    Some(packed)
}

/// Packs the right operand with reduced weight precision, if it is a single constant matrix and
/// the options ask for it.
fn pack_right_reduced(cx: &mut Lower<'_>, geometry: &geometry::Gemm) -> Option<ReducedOperand> {
    pack::pack_reduced(cx, 1, right_packing(geometry)?)
}

/// Calls the kernel for the element type on the node's inputs, with the packed right operand if
/// there is one.
fn call_product<F: Formula + Field>(
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
    call_product_on(cx, kernels, dtype, (inputs, y), geometry, scratch, f)
}

/// Calls the kernel for a batch of products of two operands.
pub(super) fn lower_product(
    cx: &mut Lower<'_>,
    dtype: DType,
    operands: [Operand; 2],
    y: Operand,
    batched: geometry::MatMul,
) -> Result {
    let [a, b] = operands.map(Arg::from);
    let operands = (vec![a, b, Arg::Optional(None)], y);
    let single = batched.as_one();
    let scratch = scratch_len(cx, &batched, single.as_ref());
    match single {
        Some(single) => {
            call_product_on(cx, &GEMM, dtype, operands, single, scratch, Activation::Identity)
        }
        None => {
            call_product_on(cx, &MATMUL, dtype, operands, batched, scratch, Activation::Identity)
        }
    }
}

/// Returns the elements of scratch memory of a batch of products, which may be a single one.
fn scratch_len(
    cx: &mut Lower<'_>,
    batched: &geometry::MatMul,
    single: Option<&geometry::Gemm>,
) -> Dim {
    let bounded = |most: &dyn Fn(&Dim) -> Dim| batched.scratch(most);
    match single {
        Some(single) => cx.scratch_len(single, size_function!(matmul::gemm_scratch), bounded),
        None => cx.scratch_len(batched, size_function!(matmul::matmul_scratch), bounded),
    }
}

fn call_product_on<F: Formula + Field>(
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
        _ => return cx.call_on(&kernels.integer, dtype, inputs, outputs, geometry),
    };
    if matches!(dtype, DType::F32 | DType::F64) && cx.optimize() == Optimize::Speed {
        outputs.push(cx.scratch(dtype, scratch).into());
    }
    cx.call_on(kernel, dtype, inputs, outputs, (geometry, f))
}

/// `y = alpha · A' · B' + beta · C`, where `A'` and `B'` are the operands or their transposes.
#[derive(Clone)]
pub struct Gemm {
    /// The scale of the product.
    pub alpha: f32,
    /// The scale of the bias.
    pub beta: f32,
    /// Whether `A` is transposed.
    pub trans_a: bool,
    /// Whether `B` is transposed.
    pub trans_b: bool,
    /// The activation applied to the result.
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

    /// The sizes `[m, n, k, l]`: `A'` is `m × k` and `B'` is `l × n`.
    fn sizes<'s>(&self, a: &'s [Dim], b: &'s [Dim]) -> [&'s Dim; 4] {
        let ([m, k], [l, n]) = (matrix_sizes(a, self.trans_a), matrix_sizes(b, self.trans_b));
        [m, n, k, l]
    }
}

/// The rows and columns of a matrix, or of its transpose.
fn matrix_sizes(shape: &[Dim], transposed: bool) -> [&Dim; 2] {
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
            check_bias(cx, 2, &shape)?;
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
            true => geometry::broadcast_strides(&cx.ty(2)?.shape, &[m.clone(), n.clone()]),
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
        if let Some(stored) = pack_right_reduced(cx, &geometry) {
            return stored.multiply(cx, geometry, self.activation);
        }
        if fits_small_kernel(cx, &geometry)? {
            let c = Arg::Optional(cx.optional(2)?);
            let (inputs, y) = (vec![cx.input(0)?.into(), cx.input(1)?.into(), c], cx.output(0)?);
            let formula = (geometry.k, self.activation);
            return cx.call_on(&SMALL, DType::F32, inputs, vec![y.into()], formula);
        }
        let packed = pack_right(cx, &mut geometry);
        let function = size_function!(matmul::gemm_scratch);
        let scratch = cx.scratch_len(&geometry, function, |most| geometry.scratch(most));
        call_product(cx, &GEMM, packed, geometry, scratch, self.activation)
    }

    /// For `y = alpha A'B' + beta C`: `dA' = alpha dy B'ᵀ`, `dB' = alpha A'ᵀ dy` and
    /// `dC = beta dy`.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (a, b, Some(dy)) = (g.x(0), g.x(1), g.dy(0)) else { return Ok(()) };
        let Gemm { alpha, trans_a, trans_b, .. } = *self;
        // A transposed operand has the transposed gradient: `B' dyᵀ` and `dyᵀ A'`.
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

/// Requires that input `i` can be broadcast to `shape` without broadcasting `shape` itself.
fn check_bias(cx: &mut Infer<'_>, i: usize, shape: &[Dim]) -> Inferred<()> {
    let bias = cx.shape(i)?;
    let joined = cx.broadcast(&[shape, bias])?;
    if joined.len() > shape.len() {
        let message = format!("input {i} has more axes than the result");
        return Err(cx.diagnostic(Code::ShapeMismatch, message));
    }
    for (size, joined) in shape.iter().zip(&joined) {
        cx.require_equal(size, joined, "the sizes of the result and of the bias")?;
    }
    Ok(())
}

/// The product of matrices, or of batches of matrices that are broadcast to a common batch.
///
/// The fused form, which passes create, may have a third input: a bias that is broadcast to the
/// product's shape and added.
pub struct MatMul {
    /// The activation applied to the result.
    pub activation: Activation,
    /// Whether it is the fused form.
    pub fused: bool,
}

/// Splits a shape into batch axes, rows and columns. A vector is a row on the left and a column on
/// the right.
pub(super) fn matrices(shape: &[Dim], left: bool) -> (&[Dim], Dim, Dim) {
    match shape {
        [batch @ .., rows, columns] => (batch, rows.clone(), columns.clone()),
        [size] if left => (&[], 1.into(), size.clone()),
        [size] => (&[], size.clone(), 1.into()),
        [] => (&[], 1.into(), 1.into()),
    }
}

/// The shape of the product of inputs `a` and `b`.
pub(super) fn product_shape(cx: &mut Infer<'_>, a: usize, b: usize) -> Inferred<Vec<Dim>> {
    let (a, b) = (cx.shape(a)?, cx.shape(b)?);
    if a.is_empty() || b.is_empty() {
        return Err(cx.diagnostic(Code::ShapeMismatch, "an operand has no axes"));
    }
    let ((batch_a, m, k), (batch_b, l, n)) = (matrices(a, true), matrices(b, false));
    cx.require_equal(&k, &l, "the columns of the left operand and the rows of the right one")?;
    let mut shape = cx.broadcast(&[batch_a, batch_b])?;
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
            check_bias(cx, 2, &shape)?;
            if cx.shape(0)?.len().min(cx.shape(1)?.len()) < 2 {
                let message = "the product of a vector takes no bias";
                return Err(cx.diagnostic(Code::ShapeMismatch, message));
            }
        }
        Ok(vec![Type::tensor(dtype, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (a, b) = (&cx.ty(0)?.shape, &cx.ty(1)?.shape);
        let ((batch_a, m, k), (batch_b, _, n)) = (matrices(a, true), matrices(b, false));
        let shape = &cx.output_ty(0)?.shape;
        cx.macs(&(shape.iter().product::<Dim>() * &k));
        let batch = &shape[..batch_a.len().max(batch_b.len())];
        let strides_over = |operand: &[Dim], [rows, columns]: [&Dim; 2]| {
            let to = [batch, &[rows.clone(), columns.clone()]].concat();
            geometry::broadcast_strides(operand, &to)
        };
        let a = strides_over(&[batch_a, &[m.clone(), k.clone()]].concat(), [&m, &k]);
        let b = strides_over(&[batch_b, &[k.clone(), n.clone()]].concat(), [&k, &n]);
        let c = strides_over(if cx.has(2) { &cx.ty(2)?.shape } else { &[] }, [&m, &n]);
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
        let (sizes, strides) = geometry::merged(batch, &[a, b, c]);
        let [a, b, c] = strides.try_into().expect("three operands");
        let mut batched = geometry::MatMul { sizes, a, b, c, matrix };
        let shares_right = batched.b.iter().all(|stride| stride.known() == Some(0));
        if let (true, Some(single)) = (shares_right, batched.as_one())
            && let Some(stored) = pack_right_reduced(cx, &single)
        {
            return stored.multiply(cx, single, self.activation);
        }
        let packed = if shares_right { pack_right(cx, &mut batched.matrix) } else { None };
        let single = batched.as_one();
        let scratch = scratch_len(cx, &batched, single.as_ref());
        match single {
            Some(single) => call_product(cx, &GEMM, packed, single, scratch, self.activation),
            None => call_product(cx, &MATMUL, packed, batched, scratch, self.activation),
        }
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (a, b, Some(dy)) = (g.x(0), g.x(1), g.dy(0)) else { return Ok(()) };
        if let Some([rows, columns]) = fixed_matrix_sizes(a, b) {
            // The right operand is a single matrix, so the rows of the left batch form one matrix.
            let (left, dy) = (a.reshape_to(&[-1, rows]), dy.reshape_to(&[-1, columns]));
            g.set(0, dy.gemm([false, true], b, 1.0).reshape_like(a));
            g.set(1, left.gemm([true, false], dy, 1.0));
            return Ok(());
        }
        // A vector is a row on the left and a column on the right.
        let (row, column) = (a.rank() == 1, b.rank() == 1);
        let (left, dy) = if row {
            (a.with_axis(0), dy.with_axis(if column { -1 } else { -2 }))
        } else {
            (a, dy)
        };
        let (right, dy) = if column { (b.with_axis(1), dy.with_axis(-1)) } else { (b, dy) };
        let (da, db) =
            (dy.matmul(right.transpose_matrices()), left.transpose_matrices().matmul(dy));
        g.set(0, if row { da.fit(left).reshape_like(a) } else { da });
        g.set(1, if column { db.fit(right).reshape_like(b) } else { db });
        Ok(())
    }
}

/// The rows and columns of the right operand if it is a single non-empty matrix of fixed size, and
/// the left operand is no vector.
fn fixed_matrix_sizes(left: Expr<'_>, right: Expr<'_>) -> Option<[i64; 2]> {
    let [rows, columns] = right.dims().try_into().ok()?;
    let size = |dim: Dim| dim.known().filter(|&size| size > 0);
    if left.rank() < 2 { None } else { Some([size(rows)?, size(columns)?]) }
}

impl<'t> Expr<'t> {
    /// `alpha · A' · B'`, where `A'` and `B'` are the operands or their transposes.
    fn gemm(self, [trans_a, trans_b]: [bool; 2], right: Expr<'t>, alpha: f32) -> Expr<'t> {
        let activation = Activation::Identity;
        self.apply(Gemm { alpha, beta: 1.0, trans_a, trans_b, activation }, &[right])
    }

    /// The matrix product.
    pub fn matmul(self, right: Expr<'t>) -> Expr<'t> {
        self.apply(MatMul { activation: Activation::Identity, fused: false }, &[right])
    }
}
