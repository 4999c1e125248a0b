//! Random numbers, and operators that draw them: `Bernoulli`, `Multinomial` and `Dropout`.
//!
//! Every node draws from a separate stream. The node's seed determines it, or the model's seed and
//! the node's name. Each execution of the node, in a loop or in another run, draws new numbers.

use super::{
    Entry, body, cast::CastMode, constant::CONSTANT_OF_SHAPE, entry, function, reshape::Identity,
};
use crate::{
    diag::{Code, Diagnostic, Result},
    dim::Dim,
    dtype::{BOOL_ONLY, DROPOUT_TYPES, DType, FLOATS, INDICES, NUMERIC_AND_BOOL},
    ir::{Attributes, Infer, Inferred, Lower, Op, Reader, Views},
    plan::{Draw, Kernel, Literal, NoParams, kernel},
    tensor::Tensor,
    ty::Type,
};
use half::{bf16, f16};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("Bernoulli", 15, |node| {
        Ok(Rc::new(Bernoulli {
            dtype: node.maybe_dtype("dtype")?,
            seed: node.maybe_float("seed")?,
        }))
    }),
    function("Dropout", 1, write_first_dropout),
    body("Dropout", 7, INACTIVE_DROPOUT),
    entry("Dropout", 10, |node| {
        node.ignore("ratio");
        read_dropout(node, None)
    }),
    entry("Dropout", 12, |node| {
        let seed = node.maybe_int("seed")?;
        read_dropout(node, seed)
    }),
    entry("Multinomial", 7, |node| {
        Ok(Rc::new(Multinomial {
            dtype: node.maybe_dtype("dtype")?.unwrap_or(DType::I32),
            samples: node.int("sample_size", 1)?,
            seed: node.maybe_float("seed")?,
        }))
    }),
    entry("RandomNormal", 1, |node| read_random(node, Distribution::normal, false)),
    entry("RandomNormalLike", 1, |node| read_random(node, Distribution::normal, true)),
    entry("RandomUniform", 1, |node| read_random(node, Distribution::uniform, false)),
    entry("RandomUniformLike", 1, |node| read_random(node, Distribution::uniform, true)),
];

/// `Dropout` of versions 7 to 9, which drops nothing.
const INACTIVE_DROPOUT: &str = "<ratio: float = 0.5> (data) => (output, mask) {
    output = Identity(data)
    sizes = Shape(data)
    one = Constant<value_float = 1.0>()
    typed = CastLike(one, data)
    mask = Expand(typed, sizes)
}";

/// Writes `Dropout` of the versions before 7, whose mask has the type of the data.
fn write_first_dropout(node: &mut Reader<'_>) -> Result<String> {
    let (ratio, is_test) = (node.float("ratio", 0.5)?, node.flag("is_test", false)?);
    if is_test {
        return Ok(INACTIVE_DROPOUT.to_owned());
    }
    Ok(format!(
        "(data) => (output, mask) {{
            ratio = Constant <value_float = {ratio:?}> ()
            one = Constant <value_int = 1> () trains = Cast <to = 9> (one)
            output, kept = Dropout (data, ratio, trains)
            mask = CastLike (kept, data)
        }}"
    ))
}

/// Converts a seed that ONNX stores as a `float`.
fn float_seed(seed: Option<f32>) -> Option<u64> {
    seed.map(|seed| seed.to_bits().into())
}

/// Random numbers in the shape of an attribute, or of the input.
pub struct Random {
    /// The distribution of the numbers.
    pub distribution: Distribution,
    /// The shape; by default that of the input.
    pub shape: Option<Vec<i64>>,
    /// The element type; by default that of the input, or `float`.
    pub dtype: Option<DType>,
    /// The seed, if the model has one.
    pub seed: Option<f32>,
}

/// A distribution of random numbers.
#[derive(Clone, Copy)]
pub enum Distribution {
    /// The normal distribution.
    Normal {
        /// The mean.
        mean: f32,
        /// The standard deviation.
        scale: f32,
    },
    /// The uniform distribution over an interval.
    Uniform {
        /// The lower bound.
        low: f32,
        /// The upper bound.
        high: f32,
    },
}

impl Distribution {
    fn normal(node: &mut Reader<'_>) -> Result<Distribution> {
        let (mean, scale) = (node.float("mean", 0.0)?, node.float("scale", 1.0)?);
        Ok(Distribution::Normal { mean, scale })
    }

    fn uniform(node: &mut Reader<'_>) -> Result<Distribution> {
        let (low, high) = (node.float("low", 0.0)?, node.float("high", 1.0)?);
        Ok(Distribution::Uniform { low, high })
    }
}

fn read_random(
    node: &mut Reader<'_>,
    distribution: fn(&mut Reader<'_>) -> Result<Distribution>,
    like: bool,
) -> Result<Rc<dyn Op>> {
    let missing = || Diagnostic::new(Code::BadAttribute, "the attribute `shape` is missing");
    let shape = if like { None } else { Some(node.maybe_ints("shape")?.ok_or_else(missing)?) };
    let (dtype, seed) = (node.maybe_dtype("dtype")?, node.maybe_float("seed")?);
    Ok(Rc::new(Random { distribution: distribution(node)?, shape, dtype, seed }))
}

static RANDOM_NORMAL: Kernel<(f32, f32, Draw)> = kernel!(FLOATS T, random::random_normal::<T>,
    |f, a, p| f(a.output(0), p.0, p.1, a.stream(p.2)));
static RANDOM_UNIFORM: Kernel<(f32, f32, Draw)> = kernel!(FLOATS T, random::random_uniform::<T>,
    |f, a, p| f(a.output(0), p.0, p.1, a.stream(p.2)));

impl Op for Random {
    fn name(&self) -> &'static str {
        match (self.distribution, &self.shape) {
            (Distribution::Normal { .. }, Some(_)) => "RandomNormal",
            (Distribution::Normal { .. }, None) => "RandomNormalLike",
            (Distribution::Uniform { .. }, Some(_)) => "RandomUniform",
            (Distribution::Uniform { .. }, None) => "RandomUniformLike",
        }
    }

    fn attributes(&self, a: &mut Attributes) {
        match self.distribution {
            Distribution::Normal { mean, scale } => {
                a.float("mean", mean);
                a.float("scale", scale);
            }
            Distribution::Uniform { low, high } => {
                a.float("low", low);
                a.float("high", high);
            }
        }
        if let Some(shape) = &self.shape {
            a.ints("shape", shape);
        }
        dtype_and_seed(a, self.dtype, self.seed);
    }

    fn is_random(&self) -> bool {
        true
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let (shape, like) = match &self.shape {
            Some(shape) => (shape.iter().map(|&size| size.into()).collect(), DType::F32),
            None => (cx.shape(0)?.to_vec(), cx.ty(0)?.dtype),
        };
        if let Some(size) = shape.iter().find(|size: &&Dim| size.known().is_some_and(|n| n < 0)) {
            let message = format!("a size in `shape` is {size:?}");
            return Err(cx.diagnostic(Code::BadAttribute, message));
        }
        let dtype = self.dtype.unwrap_or(like);
        require_dtype(cx, dtype, FLOATS)?;
        Ok(vec![Type::tensor(dtype, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (dtype, y) = (cx.output_ty(0)?.dtype, vec![cx.output(0)?.into()]);
        let draw = cx.draw(float_seed(self.seed));
        let (kernel, numbers) = match self.distribution {
            Distribution::Normal { mean, scale } => (&RANDOM_NORMAL, (mean, scale, draw)),
            Distribution::Uniform { low, high } => (&RANDOM_UNIFORM, (low, high, draw)),
        };
        cx.call_on(kernel, dtype, Vec::new(), y, numbers)
    }
}

fn dtype_and_seed(a: &mut Attributes, dtype: Option<DType>, seed: Option<f32>) {
    if let Some(dtype) = dtype {
        a.int("dtype", dtype.code().into());
    }
    if let Some(seed) = seed {
        a.float("seed", seed);
    }
}

/// Requires the output's element type to be one of `allowed`.
fn require_dtype(cx: &Infer<'_>, dtype: DType, allowed: &[DType]) -> Inferred<()> {
    if allowed.contains(&dtype) {
        return Ok(());
    }
    let message = format!("the output cannot have elements of type {dtype}");
    Err(cx.diagnostic(Code::TypeMismatch, message))
}

/// 1 with the probability in the input, else 0.
///
/// No generator reproduces the results in ONNX's test suite from the model: they were drawn from
/// the generator that had drawn the inputs.
pub struct Bernoulli {
    /// The element type; by default that of the input.
    pub dtype: Option<DType>,
    /// The seed, if the model has one.
    pub seed: Option<f32>,
}

/// Kernels by the type of the first input.
type Kernels<F> = [(DType, Kernel<F>)];

macro_rules! kernels {
    ($($Variant:ident $A:ident)*: $set:ident T, $kernel:ident,
        |$f:ident, $a:ident, $p:ident| $y:expr) => {
        &[$((DType::$Variant, kernel!($set T, random::$kernel::<$A, T>, |$f, $a, $p| $y)),)*]
    };
}

static BERNOULLI: &Kernels<(Draw,)> = kernels!(F32 f32 F64 f64 F16 f16 BF16 bf16:
    NUMERIC_AND_BOOL T,
    bernoulli, |f, a, p| f(a.input(0), a.output(0), a.stream(p.0)));

fn select_kernel<F: crate::plan::Formula>(
    kernels: &'static Kernels<F>,
    cx: &Lower<'_>,
) -> Result<&'static Kernel<F>> {
    let from = cx.ty(0)?.dtype;
    let kernel = kernels.iter().find(|(dtype, _)| *dtype == from);
    let (_, kernel) = kernel.ok_or_else(|| cx.unsupported(&format!("inputs of type {from}")))?;
    Ok(kernel)
}

impl Op for Bernoulli {
    fn name(&self) -> &'static str {
        "Bernoulli"
    }

    fn attributes(&self, a: &mut Attributes) {
        dtype_and_seed(a, self.dtype, self.seed);
    }

    fn is_random(&self) -> bool {
        true
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, FLOATS)?;
        let dtype = self.dtype.unwrap_or(ty.dtype);
        require_dtype(cx, dtype, NUMERIC_AND_BOOL)?;
        Ok(vec![Type::tensor(dtype, &ty.shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let draw = cx.draw(float_seed(self.seed));
        cx.call(select_kernel(BERNOULLI, cx)?, (draw,))
    }
}

/// Classes drawn for each row of the input, which holds the logarithms of their probabilities.
pub struct Multinomial {
    /// The element type of the classes.
    pub dtype: DType,
    /// The number of samples for each row.
    pub samples: i64,
    /// The seed, if the model has one.
    pub seed: Option<f32>,
}

static MULTINOMIAL: &Kernels<(Dim, usize, Draw)> = kernels!(F32 f32 F64 f64 F16 f16 BF16 bf16:
    INDICES T, multinomial, |f, a, p| f(a.input(0), a.output(0), p.0, p.1, a.stream(p.2)));

impl Op for Multinomial {
    fn name(&self) -> &'static str {
        "Multinomial"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("sample_size", self.samples);
        dtype_and_seed(a, Some(self.dtype), self.seed);
    }

    fn is_random(&self) -> bool {
        true
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        cx.of(0, FLOATS)?;
        let ty = cx.ranked(0, 2)?;
        require_dtype(cx, self.dtype, INDICES)?;
        if self.samples < 0 {
            let message = format!("`sample_size` is {}", self.samples);
            return Err(cx.diagnostic(Code::BadAttribute, message));
        }
        cx.require_at_least(&ty.shape[1], &1.into(), "the number of classes must be at least 1")?;
        Ok(vec![Type::tensor(self.dtype, [ty.shape[0].clone(), self.samples.into()])])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let classes = cx.ty(0)?.shape[1].clone();
        let samples = usize::try_from(self.samples).unwrap_or(0);
        let draw = cx.draw(float_seed(self.seed));
        cx.call(select_kernel(MULTINOMIAL, cx)?, (classes, samples, draw))
    }
}

/// The input with some elements dropped in training, and the mask of the others. Input 1 is the
/// ratio of dropped elements, input 2 whether this is training; by default it is not.
pub struct Dropout {
    /// The seed, if the model has one.
    pub seed: Option<i64>,
}

fn read_dropout(node: &mut Reader<'_>, seed: Option<i64>) -> Result<Rc<dyn Op>> {
    node.drop_unread_outputs();
    let training = node.constant_input(2).and_then(Tensor::ints);
    if training.is_some_and(|training| training == [0]) {
        node.inputs.truncate(1);
    }
    let trains = node.inputs.get(2).is_some_and(Option::is_some);
    if !trains {
        node.inputs.truncate(1);
        if node.outputs < 2 {
            return Ok(Rc::new(Identity));
        }
    } else if node.inputs[1].is_none() {
        node.add_input("ratio", 1, Tensor::from_floats(&[0.5]));
    }
    Ok(Rc::new(Dropout { seed }))
}

static DROPOUT: Kernel = kernel!(REALS T, random::dropout::<T>,
    |f, a, _p| f(a.input(0), a.input(1), a.input(2), a.input(3), a.output(0)));
static DROPOUT_MASK: Kernel<(Draw,)> = kernel!(BOOL_ONLY T, random::dropout_mask,
    |f, a, p| f(a.input(0), a.input(1), a.output(0), a.stream(p.0)));

impl Dropout {
    /// Lowers training: drops elements, and writes the mask.
    fn train(&self, cx: &mut Lower<'_>) -> Result {
        let (ty, training) = (cx.ty(0)?, cx.input(2)?);
        let mut ratio = cx.input(1)?;
        if cx.ty(1)?.dtype != DType::F64 {
            let wide = cx.scratch(DType::F64, 1);
            CastMode::DEFAULT.call(cx, cx.ty(1)?.dtype, ratio, DType::F64, wide.clone())?;
            ratio = wide;
        }
        let mask = match cx.optional_output(1)? {
            Some(mask) => mask,
            None => cx.scratch(DType::Bool, ty.len()),
        };
        let inputs = vec![ratio.clone().into(), training.clone().into()];
        let draw = cx.draw(self.seed.map(i64::cast_unsigned));
        cx.call_on(&DROPOUT_MASK, DType::Bool, inputs, vec![mask.clone().into()], (draw,))?;
        let (x, y) = (cx.input(0)?.into(), cx.output(0)?.into());
        let inputs = vec![x, mask.clone().into(), ratio.into(), training.into()];
        cx.call_on(&DROPOUT, ty.dtype, inputs, vec![y], NoParams)
    }
}

impl Op for Dropout {
    fn name(&self) -> &'static str {
        "Dropout"
    }

    fn attributes(&self, a: &mut Attributes) {
        if let Some(seed) = self.seed {
            a.int("seed", seed);
        }
    }

    fn is_random(&self) -> bool {
        true
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, DROPOUT_TYPES)?.clone();
        for i in 1..3 {
            cx.require_one_element(i)?;
        }
        if cx.has(2) {
            cx.of(1, DROPOUT_TYPES)?;
            cx.of(2, BOOL_ONLY)?;
        }
        let mask = Type::tensor(DType::Bool, &ty.shape);
        Ok(vec![ty.into(), mask])
    }

    fn views(&self, cx: &mut Views<'_>) {
        if cx.node().input(2).is_none() {
            cx.view(0, 0, 0.into());
        }
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        if cx.has(2) {
            return self.train(cx);
        }
        let Some(mask) = cx.optional_output(1)? else { return Ok(()) };
        let one = (Literal::first(&Tensor::from_bool(true)),);
        cx.call_on(&CONSTANT_OF_SHAPE, DType::Bool, Vec::new(), vec![mask.into()], one)
    }
}
