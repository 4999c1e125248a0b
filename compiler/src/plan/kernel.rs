//! Kernels of the runtime library, and calls of them.

use super::{Arg, Custom, Draw, Formula, NoParams, Operand, Operands, SizeText, Symbols};
use crate::{
    array::{Array, Element},
    dim::{Dim, Symbol},
    dtype::DType,
};
use onnxc_runtime::{Result, random::Stream, sequence::Sequence};
use std::{cell::RefCell, ops::Range, rc::Rc};

/// A kernel of the runtime library: where it is, and how to run it here and now.
pub struct Kernel<F: Formula = NoParams> {
    /// The path in the runtime library.
    pub path: &'static str,
    /// The element types that it works on.
    pub types: &'static [DType],
    /// Runs it.
    pub run: Run<F>,
    /// The structs in which it takes operands.
    pub operands: &'static [Operands],
    /// Runs the form that overwrites its first inputs, which is called `…_in_place`.
    pub in_place: Option<Run<F>>,
    /// The structs in which that form takes operands.
    pub operands_in_place: &'static [Operands],
    /// How many inputs that form overwrites, each with the output in its place, of the same type.
    pub overwrites: usize,
    /// Whether it can refuse the values of its inputs.
    pub checked: bool,
    /// Whether it changes what the outputs hold already; such a kernel takes them first.
    pub updates: bool,
}

type Run<F> = for<'p> fn(&mut Args<'_>, <F as Formula>::Numbers<'p>) -> Result;

/// The arguments of a kernel that is run here and now.
pub struct Args<'a> {
    dtype: DType,
    inputs: Vec<Option<(&'a Array, Range<usize>)>>,
    outputs: Vec<Option<(&'a mut Array, Range<usize>)>>,
    sizes: Option<&'a mut [usize]>,
    iterations: &'a RefCell<Vec<u64>>,
}

/// One call of a kernel.
#[derive(Clone)]
pub struct Call {
    /// The ONNX nodes that the call is for.
    pub node: String,
    /// The path of the kernel in the runtime library.
    pub kernel: &'static str,
    /// The element type for which the kernel is called.
    pub dtype: DType,
    /// What it reads.
    pub inputs: Vec<Arg>,
    /// What it writes.
    pub outputs: Vec<Arg>,
    /// The sizes that it settles.
    pub binds: Vec<Symbol>,
    /// Whether it can refuse the values of its inputs.
    pub checked: bool,
    /// Whether the first inputs are overwritten.
    pub form: Form,
    /// How many are, where they are.
    pub overwrites: usize,
    /// Its multiply-adds, where it has any and every size is known.
    pub macs: u64,
    /// The kernel, bound to its geometry.
    pub params: Rc<dyn Params>,
}

/// Whether a call overwrites its first inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// It does not, and cannot.
    Apart,
    /// It could, where nobody needs the input any more.
    MayReuse,
    /// It does: the first outputs are where the first inputs were.
    InPlace,
    /// The kernel has no other form: it changes what the outputs hold already.
    Updates,
}

/// A kernel with its geometry, whatever the struct.
pub trait Params {
    /// What the kernel takes after its inputs and outputs, as Rust source.
    fn source(&self, sizes: &SizeText<'_>) -> Vec<String>;
    /// The paths in the runtime library that the source names.
    fn uses(&self) -> Vec<&'static str>;
    /// Shows every size.
    fn visit(&self, see: &mut dyn FnMut(&Dim));
    /// Runs the kernel.
    fn run(&self, form: Form, symbols: &Symbols<'_>, args: &mut Args<'_>) -> Result;
    /// The structs in which the kernel takes operands.
    fn operands(&self, _: Form) -> &'static [Operands] {
        &[]
    }
    /// The function of the user's own that is called in place of a kernel, where one is.
    fn custom(&self) -> Option<&Custom> {
        None
    }
}

struct Bound<F: Formula> {
    formula: F,
    kernel: &'static Kernel<F>,
}

impl<F: Formula> Params for Bound<F> {
    fn source(&self, sizes: &SizeText<'_>) -> Vec<String> {
        self.formula.source(sizes)
    }

    fn uses(&self) -> Vec<&'static str> {
        let mut paths = Vec::new();
        self.formula.uses(&mut paths);
        paths
    }

    fn visit(&self, see: &mut dyn FnMut(&Dim)) {
        self.formula.visit(see);
    }

    fn run(&self, form: Form, symbols: &Symbols<'_>, args: &mut Args<'_>) -> Result {
        let run = match form {
            Form::Apart | Form::MayReuse | Form::Updates => self.kernel.run,
            Form::InPlace => self.kernel.in_place.expect("the plan saw that there is such a form"),
        };
        let mut result = Ok(());
        self.formula.with(symbols, &mut |numbers| result = run(args, numbers));
        result
    }

    fn operands(&self, form: Form) -> &'static [Operands] {
        match form {
            Form::Apart | Form::MayReuse | Form::Updates => self.kernel.operands,
            Form::InPlace => self.kernel.operands_in_place,
        }
    }
}

impl Call {
    /// Whether it copies its input as it is.
    pub fn is_copy(&self) -> bool {
        matches!(self.kernel, "reshape::identity" | "sequence::identity")
    }

    /// A call of `kernel` for elements of `dtype`, which stands for the ONNX node named.
    pub fn new<F: Formula>(
        node: String,
        kernel: &'static Kernel<F>,
        dtype: DType,
        formula: F,
    ) -> Call {
        Call {
            node,
            kernel: kernel.path,
            dtype,
            inputs: Vec::new(),
            outputs: Vec::new(),
            binds: Vec::new(),
            checked: kernel.checked,
            form: match (kernel.updates, kernel.in_place) {
                (true, _) => Form::Updates,
                (false, Some(_)) => Form::MayReuse,
                (false, None) => Form::Apart,
            },
            overwrites: kernel.overwrites,
            macs: 0,
            params: Rc::new(Bound { formula, kernel }),
        }
    }

    /// A call of a function of the user's own.
    pub fn custom(node: String, custom: Custom, inputs: Vec<Arg>, outputs: Vec<Arg>) -> Call {
        Call {
            node,
            kernel: "custom",
            dtype: DType::F32,
            inputs,
            outputs,
            binds: Vec::new(),
            checked: true,
            form: Form::Apart,
            overwrites: 0,
            macs: 0,
            params: Rc::new(custom),
        }
    }

    /// How many inputs are overwritten.
    pub fn overwritten(&self) -> usize {
        if self.form == Form::InPlace { self.overwrites } else { 0 }
    }

    /// Every part of a buffer that is read.
    pub fn reads(&self) -> impl Iterator<Item = &Operand> {
        self.inputs.iter().filter_map(Arg::operand)
    }

    /// Every part of a buffer that is written.
    pub fn writes(&self) -> impl Iterator<Item = &Operand> {
        self.outputs.iter().filter_map(Arg::operand)
    }
}

impl<'a> Args<'a> {
    /// The arguments of one call; `iterations` says how often each call has drawn random numbers.
    pub fn new(
        dtype: DType,
        inputs: Vec<Option<(&'a Array, Range<usize>)>>,
        outputs: Vec<Option<(&'a mut Array, Range<usize>)>>,
        sizes: &'a mut [usize],
        iterations: &'a RefCell<Vec<u64>>,
    ) -> Args<'a> {
        Args { dtype, inputs, outputs, sizes: Some(sizes), iterations }
    }

    /// The element type for which the kernel is called.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The element type of input `i`.
    pub fn input_dtype(&self, i: usize) -> DType {
        self.inputs[i].as_ref().expect("the call gives the input").0.dtype()
    }

    /// Input `i`.
    pub fn input<T: Element>(&self, i: usize) -> &'a [T] {
        self.optional(i).expect("the call gives the input")
    }

    /// Input `i`, where it is given.
    pub fn optional<T: Element>(&self, i: usize) -> Option<&'a [T]> {
        let (array, range) = self.inputs[i].as_ref()?;
        Some(&T::of(array).expect("the verifier saw the types")[range.clone()])
    }

    /// Output `i`; each is handed out once.
    pub fn output<T: Element>(&mut self, i: usize) -> &'a mut [T] {
        self.optional_output(i).expect("the call takes the output")
    }

    /// Output `i`, where the call takes it; each is handed out once.
    pub fn optional_output<T: Element>(&mut self, i: usize) -> Option<&'a mut [T]> {
        let (array, range) = self.outputs.get_mut(i)?.take()?;
        Some(&mut T::of_mut(array).expect("the verifier saw the types")[range])
    }

    /// The sequence that input `i` is.
    pub fn sequence<T: Element>(&self, i: usize) -> &'a Sequence<T> {
        let (array, _) = self.inputs[i].as_ref().expect("the call gives the input");
        array.sequence().expect("the verifier saw the types")
    }

    /// The sequence that output `i` is; each is handed out once.
    pub fn output_sequence<T: Element>(&mut self, i: usize) -> &'a mut Sequence<T> {
        let taken = self.outputs.get_mut(i).and_then(Option::take);
        let (array, _) = taken.expect("the call takes the output");
        array.sequence_mut().expect("the verifier saw the types")
    }

    /// Where the sizes go that the kernel settles; handed out once.
    pub fn sizes(&mut self) -> &'a mut [usize] {
        self.sizes.take().expect("a kernel asks for the sizes once")
    }

    /// What the kernel draws from this time.
    pub fn stream(&self, draw: Draw) -> Stream {
        let mut iterations = self.iterations.borrow_mut();
        if iterations.len() <= draw.call {
            iterations.resize(draw.call + 1, 0);
        }
        let iteration = iterations[draw.call];
        iterations[draw.call] += 1;
        draw.stream(0, iteration)
    }
}

/// What a kernel returns: nothing, or a refusal.
pub trait Outcome {
    /// As a result.
    fn into_result(self) -> Result;
}

impl Outcome for () {
    fn into_result(self) -> Result {
        Ok(())
    }
}

impl Outcome for Result {
    fn into_result(self) -> Result {
        self
    }
}

/// A [`Kernel`] of the path given, for a set of element types: `kernel!(FLOATS T,
/// softmax::softmax::<T>, |f, a, p| f(a.input(0), a.output(0), p))`.
///
/// Braces after the path list the structs in which the kernel takes operands, as variables for the
/// closure: `{ operands: conv::ConvOperands { x: input(0), w: input(1), bias: optional(2) } }`.
///
/// | option | meaning |
/// |---|---|
/// | `checked` in front | the kernel may return an error |
/// | `updates` in front | it changes the contents of its outputs |
/// | `in_place … \|f, a, p\| …` at the end | its other form, with structs of its own |
/// | `overwrites 2` in front | the number of inputs that this form overwrites |
macro_rules! kernel {
    (updates $($rest:tt)*) => {
        $crate::plan::Kernel { updates: true, ..$crate::plan::kernel!($($rest)*) }
    };
    (overwrites $count:literal $($rest:tt)*) => {
        $crate::plan::Kernel { overwrites: $count, ..$crate::plan::kernel!($($rest)*) }
    };
    (checked $($rest:tt)*) => {
        $crate::plan::Kernel { checked: true, ..$crate::plan::kernel!($($rest)*) }
    };
    ($set:ident $T:ident, $room:ident :: $name:ident $(:: <$($G:ty),+>)? $({ $($structs:tt)* })?,
        |$f:ident, $a:ident, $p:ident| $body:expr
        $(, in_place $other:ident $(:: <$($H:ty),+>)? $({ $($others:tt)* })?
            |$g:ident, $b:ident, $q:ident| $in_place:expr)?) => {
        $crate::plan::Kernel {
            path: concat!(stringify!($room), "::", stringify!($name)),
            types: $crate::dtype::$set,
            run: |$a, $p| $crate::dtype::dispatch!($set $a.dtype(), $T => {
                let $f = onnxc_runtime::kernels::$room::$name $(::<$($G),+>)?;
                $($crate::plan::operands!(bind $a $($structs)*);)?
                $crate::plan::Outcome::into_result($body)
            }),
            operands: $crate::plan::operands!(table $($($structs)*)?),
            in_place: $crate::plan::kernel!(@ $set $T $room
                $($other $(:: <$($H),+>)? $({ $($others)* })?, $g, $b, $q, $in_place)?),
            operands_in_place: $crate::plan::operands!(table $($($($others)*)?)?),
            overwrites: 1,
            checked: false,
            updates: false,
        }
    };
    (@ $set:ident $T:ident $room:ident) => { None };
    (@ $set:ident $T:ident $room:ident $name:ident $(:: <$($G:ty),+>)? $({ $($structs:tt)* })?,
        $f:ident, $a:ident, $p:ident, $body:expr) => {
        Some(|$a, $p| $crate::dtype::dispatch!($set $a.dtype(), $T => {
            let $f = onnxc_runtime::kernels::$room::$name $(::<$($G),+>)?;
            $($crate::plan::operands!(bind $a $($structs)*);)?
            $crate::plan::Outcome::into_result($body)
        }))
    };
}
pub(crate) use kernel;
