//! Kernels of the runtime library, and calls of them.

use super::{Arg, Custom, Draw, Formula, NoParams, Operand, Operands, SizeText, Symbols};
use crate::{
    array::{Array, Element},
    dim::{Dim, Symbol},
    dtype::{DType, dispatch},
};
use onnxc_runtime::{Number, Result, random::Stream, sequence::Sequence};
use std::{borrow::Cow, cell::RefCell, ops::Range, rc::Rc};

/// A kernel of the runtime library: its path, and a function that runs it in this process.
pub struct Kernel<F: Formula = NoParams> {
    /// The path in the runtime library.
    pub path: &'static str,
    /// The element types for which it is called.
    pub types: &'static [DType],
    /// Runs the kernel.
    pub run: Run<F>,
    /// The structs that hold its operands.
    pub operands: &'static [Operands],
    /// Runs the in-place form `…_in_place`, which overwrites its first inputs.
    pub in_place: Option<Run<F>>,
    /// The structs that hold the operands of the in-place form.
    pub operands_in_place: &'static [Operands],
    /// The number of inputs that the in-place form overwrites. Each has the type of the output that
    /// replaces it.
    pub overwrites: usize,
    /// Whether it may return an error because of the values of its inputs.
    pub checked: bool,
    /// Whether it updates the contents of its outputs, which are then its first arguments.
    pub updates: bool,
    /// Whether it only moves elements, so that in this process it is called for integers of their
    /// size instead of for each type.
    pub moves: bool,
}

impl Kernel {
    /// A kernel of one form and without parameters that never returns an error, whose function in
    /// this process is not that of the runtime library.
    pub const fn new(path: &'static str, types: &'static [DType], run: Run<NoParams>) -> Kernel {
        Kernel {
            path,
            types,
            run,
            operands: &[],
            in_place: None,
            operands_in_place: &[],
            overwrites: 1,
            checked: false,
            updates: false,
            moves: false,
        }
    }
}

type Run<F> = for<'p> fn(&mut Args<'_>, <F as Formula>::Numbers<'p>) -> Result;

/// The arguments of a kernel that runs in this process.
pub struct Args<'a> {
    dtype: DType,
    inputs: Vec<Option<(&'a Array, Range<usize>)>>,
    /// The bits of inputs whose elements are moved as integers, if they are copied.
    bits: &'a [Option<Array>],
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
    /// The operands that it reads.
    pub inputs: Vec<Arg>,
    /// The operands that it writes.
    pub outputs: Vec<Arg>,
    /// The symbols that it defines: data-dependent sizes.
    pub binds: Vec<Symbol>,
    /// Whether it may return an error because of the values of its inputs.
    pub checked: bool,
    /// Whether it overwrites its first inputs.
    pub form: Form,
    /// The number of inputs that the in-place form overwrites.
    pub overwrites: usize,
    /// Its multiply-adds, or 0 if a size is free.
    pub macs: u64,
    /// The kernel, bound to its geometry.
    pub params: Rc<dyn Params>,
    /// The values of the model that its node has computed after it: those of the last call of a
    /// node.
    pub results: Vec<Written>,
}

/// A value of the model that a node has computed.
#[derive(Clone, Debug)]
pub struct Written {
    /// The name.
    pub name: String,
    /// The shape; empty for a sequence.
    pub shape: Vec<Dim>,
    /// Where it is.
    pub operand: Operand,
}

/// Whether a call overwrites inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// It does not, and has no in-place form.
    Apart,
    /// It has an in-place form, which applies if the input is dead afterwards.
    MayReuse,
    /// It does: the first outputs have the memory of the first inputs.
    InPlace,
    /// It updates the contents of its outputs, and has no other form.
    Updates,
}

/// A kernel with its geometry, independent of the geometry's type.
pub trait Params {
    /// The arguments after the inputs and outputs, as Rust source.
    fn source(&self, sizes: &SizeText<'_>) -> Vec<String>;
    /// The paths in the runtime library that the source names.
    fn uses(&self) -> Vec<&'static str>;
    /// Calls `see` for every size.
    fn visit(&self, see: &mut dyn FnMut(&Dim));
    /// Runs the kernel.
    ///
    /// # Errors
    ///
    /// Returns the error of the kernel.
    fn run(&self, form: Form, symbols: &Symbols<'_>, args: &mut Args<'_>) -> Result;
    /// The structs that hold the kernel's operands.
    fn operands(&self, _: Form) -> &'static [Operands] {
        &[]
    }
    /// The custom operator that is called instead of a kernel, if there is one.
    fn custom(&self) -> Option<&Custom> {
        None
    }
}

/// A kernel with its geometry, as calls are made of it, so that code for calls is compiled once.
pub struct BoundKernel {
    path: &'static str,
    /// The element types for which it is called.
    pub types: &'static [DType],
    form: Form,
    overwrites: usize,
    checked: bool,
    params: Rc<dyn Params>,
}

impl<F: Formula> Kernel<F> {
    /// Returns the kernel with its geometry.
    pub fn bind(&'static self, formula: F) -> BoundKernel {
        BoundKernel {
            path: self.path,
            types: self.types,
            form: match (self.updates, self.in_place) {
                (true, _) => Form::Updates,
                (false, Some(_)) => Form::MayReuse,
                (false, None) => Form::Apart,
            },
            overwrites: self.overwrites,
            checked: self.checked,
            params: Rc::new(Bound { formula, kernel: self }),
        }
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
            Form::InPlace => self
                .kernel
                .in_place
                .expect("only a kernel with an in-place form is called in place"),
        };
        let mut result = Ok(());
        let mut run = |args: &mut Args<'_>| {
            self.formula.with(symbols, &mut |numbers| result = run(args, numbers));
        };
        if self.kernel.moves {
            args.with_bits(&mut run)
        } else {
            run(args)
        }
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
    /// Returns whether it copies its input unchanged.
    pub fn is_copy(&self) -> bool {
        matches!(self.kernel, "reshape::identity" | "sequence::identity")
    }

    /// A call of `kernel` for elements of `dtype`, on behalf of the ONNX node `node`.
    pub fn new<F: Formula>(
        node: String,
        kernel: &'static Kernel<F>,
        dtype: DType,
        formula: F,
    ) -> Call {
        Call::of(node, kernel.bind(formula), dtype)
    }

    /// A call of `kernel` for elements of `dtype`, on behalf of the ONNX node `node`.
    pub fn of(node: String, kernel: BoundKernel, dtype: DType) -> Call {
        Call {
            node,
            kernel: kernel.path,
            dtype,
            inputs: Vec::new(),
            outputs: Vec::new(),
            binds: Vec::new(),
            checked: kernel.checked,
            form: kernel.form,
            overwrites: kernel.overwrites,
            macs: 0,
            params: kernel.params,
            results: Vec::new(),
        }
    }

    /// A call of a custom operator.
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
            results: Vec::new(),
        }
    }

    /// The number of inputs that the call overwrites.
    pub fn overwritten(&self) -> usize {
        if self.form == Form::InPlace { self.overwrites } else { 0 }
    }

    /// The operands that it reads.
    pub fn reads(&self) -> impl Iterator<Item = &Operand> {
        self.inputs.iter().filter_map(Arg::operand)
    }

    /// The operands that it writes.
    pub fn writes(&self) -> impl Iterator<Item = &Operand> {
        self.outputs.iter().filter_map(Arg::operand)
    }
}

impl<'a> Args<'a> {
    /// The arguments of one call. `iterations` counts how often each call has drawn random numbers.
    pub fn new(
        dtype: DType,
        inputs: Vec<Option<(&'a Array, Range<usize>)>>,
        outputs: Vec<Option<(&'a mut Array, Range<usize>)>>,
        sizes: &'a mut [usize],
        iterations: &'a RefCell<Vec<u64>>,
    ) -> Args<'a> {
        Args { dtype, inputs, bits: &[], outputs, sizes: Some(sizes), iterations }
    }

    /// Calls `run` with the bits of the elements, as unsigned integers of their size. Types that an
    /// [`Array`] cannot show as such where they are, which are rare, are copied.
    fn with_bits(&mut self, run: &mut dyn FnMut(&mut Args<'_>)) {
        let (dtype, unsigned) = (self.dtype, self.dtype.unsigned());
        let is_apart = |array: &Array| {
            array.dtype() == dtype && !dispatch!(BITS unsigned, T => T::of(array).is_some())
        };
        let copy = |array: &Array, range: &Range<usize>| {
            is_apart(array).then(|| array.part(range.start, range.len()).into_bits())
        };
        let read: Vec<Option<Array>> = self
            .inputs
            .iter()
            .map(|input| input.as_ref().and_then(|(array, range)| copy(array, range)))
            .collect();
        let mut written: Vec<Option<Array>> = self
            .outputs
            .iter()
            .map(|output| output.as_ref().and_then(|(array, range)| copy(array, range)))
            .collect();
        let outputs = self.outputs.iter_mut().zip(&mut written).map(|(output, bits)| {
            let (array, range) = output.as_mut()?;
            Some(match bits {
                Some(bits) => (bits, 0..range.len()),
                None => (&mut **array, range.clone()),
            })
        });
        run(&mut Args {
            dtype: unsigned,
            inputs: self.inputs.clone(),
            bits: &read,
            outputs: outputs.collect(),
            sizes: self.sizes.as_deref_mut(),
            iterations: self.iterations,
        });
        for (output, bits) in self.outputs.iter_mut().zip(written) {
            if let (Some((array, range)), Some(bits)) = (output, bits) {
                array.set_part(range.start, bits.from_bits(dtype));
            }
        }
    }

    /// The element type for which the kernel is called.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The element type of input `i`.
    pub fn input_dtype(&self, i: usize) -> DType {
        self.inputs[i].as_ref().expect("the call has every required input").0.dtype()
    }

    /// The element type of output `i`, which has not been taken.
    pub fn output_dtype(&self, i: usize) -> DType {
        self.outputs[i].as_ref().expect("the call has every required output").0.dtype()
    }

    /// A copy of input `i`, whatever its type.
    pub fn input_part(&self, i: usize) -> Array {
        let (array, range) = self.inputs[i].as_ref().expect("the call has every required input");
        array.part(range.start, range.len())
    }

    /// Overwrites output `i` with elements of its type.
    pub fn set_output(&mut self, i: usize, part: Array) {
        let (array, range) = self.outputs[i].as_mut().expect("the call has every required output");
        array.set_part(range.start, part);
    }

    /// Input `i`.
    pub fn input<T: Element>(&self, i: usize) -> &'a [T] {
        self.optional(i).expect("the call has every required input")
    }

    /// Input `i` as `f64`, for a kernel that reads its numbers only as `f64`: it needs no form for
    /// each type in this process.
    pub fn numbers(&self, i: usize) -> Vec<f64> {
        dispatch!(NUMERIC self.input_dtype(i), T => {
            self.input(i).iter().map(|&x: &T| x.to_f64()).collect()
        })
    }

    /// Input `i` as `i64`, for a kernel that reads its integers only as `i64`.
    pub fn indices(&self, i: usize) -> Cow<'a, [i64]> {
        match self.input_dtype(i) {
            DType::I32 => self.input(i).iter().map(|&x: &i32| x.into()).collect(),
            _ => self.input(i).into(),
        }
    }

    /// Input `i` as `i64`, if the call has it.
    pub fn optional_indices(&self, i: usize) -> Option<Cow<'a, [i64]>> {
        self.inputs[i].is_some().then(|| self.indices(i))
    }

    /// Input `i`, if the call has it.
    pub fn optional<T: Element>(&self, i: usize) -> Option<&'a [T]> {
        let (array, range) = self.inputs[i].as_ref()?;
        let bits = || self.bits.get(i).and_then(Option::as_ref).and_then(T::of);
        let found = T::of(array).map(|elements| &elements[range.clone()]).or_else(bits);
        Some(found.expect("the plan gives the kernel elements of its type"))
    }

    /// Output `i`. It can be taken once.
    pub fn output<T: Element>(&mut self, i: usize) -> &'a mut [T] {
        self.optional_output(i).expect("the call has every required output, and each is taken once")
    }

    /// Output `i`, if the call has it. It can be taken once.
    pub fn optional_output<T: Element>(&mut self, i: usize) -> Option<&'a mut [T]> {
        let (array, range) = self.outputs.get_mut(i)?.take()?;
        Some(&mut T::of_mut(array).expect("the plan gives the kernel elements of its type")[range])
    }

    /// Input `i`, a sequence.
    pub fn sequence<T: Element>(&self, i: usize) -> &'a Sequence<T> {
        let (array, _) = self.inputs[i].as_ref().expect("the call has every required input");
        array.sequence().expect("the plan gives the kernel elements of its type")
    }

    /// Output `i`, a sequence. It can be taken once.
    pub fn output_sequence<T: Element>(&mut self, i: usize) -> &'a mut Sequence<T> {
        let taken = self.outputs.get_mut(i).and_then(Option::take);
        let (array, _) = taken.expect("the call has every required output, and each is taken once");
        array.sequence_mut().expect("the plan gives the kernel elements of its type")
    }

    /// The place for the sizes that the kernel computes. It can be taken once.
    pub fn sizes(&mut self) -> &'a mut [usize] {
        self.sizes.take().expect("a kernel takes the sizes once")
    }

    /// The random stream for this execution of the call.
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

/// The return type of a kernel: nothing, or a `Result`.
pub trait Outcome {
    /// Converts to a `Result`.
    ///
    /// # Errors
    ///
    /// Returns the error of the kernel, if it returned one.
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

/// A [`Kernel`] with this path, for a set of element types: `kernel!(FLOATS T,
/// softmax::softmax::<T>, |f, a, p| f(a.input(0), a.output(0), p))`.
///
/// Braces after the path list the structs that hold the kernel's operands, as variables of the
/// closure: `{ operands: conv::ConvOperands { x: input(0), w: input(1), bias: optional(2) } }`.
///
/// | option | meaning |
/// |---|---|
/// | `checked` in front | the kernel may return an error |
/// | `moves` in place of the set | it moves elements of any type, and never looks at them |
/// | `updates` in front | it updates the contents of its outputs |
/// | `in_place … \|f, a, p\| …` at the end | the in-place form, with its own structs |
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
    (moves $T:ident, $($rest:tt)*) => {
        $crate::plan::Kernel {
            types: $crate::dtype::ANY,
            moves: true,
            ..$crate::plan::kernel!(BITS $T, $($rest)*)
        }
    };
    ($set:ident $T:ident, $module:ident :: $name:ident $(:: <$($G:ty),+>)? $({ $($structs:tt)* })?,
        |$f:ident, $a:ident, $p:ident| $body:expr
        $(, in_place $other:ident $(:: <$($H:ty),+>)? $({ $($others:tt)* })?
            |$g:ident, $b:ident, $q:ident| $in_place:expr)?) => {
        $crate::plan::Kernel {
            path: concat!(stringify!($module), "::", stringify!($name)),
            types: $crate::dtype::$set,
            run: |$a, $p| $crate::dtype::dispatch!($set $a.dtype(), $T => {
                let $f = onnxc_runtime::kernels::$module::$name $(::<$($G),+>)?;
                $($crate::plan::operands!(bind $a $($structs)*);)?
                $crate::plan::Outcome::into_result($body)
            }),
            operands: $crate::plan::operands!(table $($($structs)*)?),
            in_place: $crate::plan::kernel!(@ $set $T $module
                $($other $(:: <$($H),+>)? $({ $($others)* })?, $g, $b, $q, $in_place)?),
            operands_in_place: $crate::plan::operands!(table $($($($others)*)?)?),
            overwrites: 1,
            checked: false,
            updates: false,
            moves: false,
        }
    };
    (@ $set:ident $T:ident $module:ident) => { None };
    (@ $set:ident $T:ident $module:ident $name:ident $(:: <$($G:ty),+>)? $({ $($structs:tt)* })?,
        $f:ident, $a:ident, $p:ident, $body:expr) => {
        Some(|$a, $p| $crate::dtype::dispatch!($set $a.dtype(), $T => {
            let $f = onnxc_runtime::kernels::$module::$name $(::<$($G),+>)?;
            $($crate::plan::operands!(bind $a $($structs)*);)?
            $crate::plan::Outcome::into_result($body)
        }))
    };
}
pub(crate) use kernel;
