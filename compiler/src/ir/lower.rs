//! The context in which an operator selects its kernels.

use super::{Graph, Node, RegionId, ValueId};
use crate::{
    diag::{Code, Diagnostic, Result},
    dim::Dim,
    dtype::DType,
    limits::Limit,
    plan::{
        Arg, Block, BoundKernel, Call, ComputedSize, Draw, Form, Formula, Kernel, Operand,
        Optimize, Precision, Seed, SizeFunction, Step, Weight,
    },
    tensor::Tensor,
    ty::{TensorType, Type, axis_from_front},
};
use std::rc::Rc;

/// The operands that a call reads, and those that it writes.
type Operands = (Vec<Arg>, Vec<Arg>);

/// The context in which an operator selects its kernels.
pub struct Lower<'a> {
    state: &'a mut dyn Lowering,
    graph: &'a Graph,
    node: &'a Node,
    steps: &'a mut Vec<Step>,
}

/// The services that [`Lower`] needs from the lowering of the graph.
pub(super) trait Lowering {
    fn operand(&mut self, value: ValueId) -> Result<Operand>;
    fn scratch(&mut self, name: &str, dtype: DType, len: Dim) -> Operand;
    fn region(&mut self, region: RegionId) -> Result<Block>;
    fn upper(&self, dim: &Dim) -> Option<i64>;
    fn take(&self, limit: Limit, count: usize) -> bool;
    fn computed(&mut self, name: &str, size: Rc<dyn ComputedSize>) -> Dim;
    fn optimize(&self) -> Optimize;
    fn precision(&self) -> Precision;
    fn count(&mut self, macs: &Dim);
    fn draws(&mut self) -> usize;
    fn weight(&mut self, name: &str, weight: Weight) -> Operand;
    fn companion(&mut self, value: ValueId) -> Option<Operand>;
    fn set_companion(&mut self, value: ValueId, operand: Operand);
    fn like(&mut self, name: &str, operand: &Operand) -> Operand;
    fn copy(&self, node: &str, from: Operand, to: Operand) -> Call;
}

impl<'a> Lower<'a> {
    pub(super) fn new(
        state: &'a mut dyn Lowering,
        graph: &'a Graph,
        node: &'a Node,
        steps: &'a mut Vec<Step>,
    ) -> Lower<'a> {
        Lower { state, graph, node, steps }
    }

    /// Returns the node.
    pub fn node(&self) -> &'a Node {
        self.node
    }

    /// Takes `count` of a limit for the plan; `false` if less is left.
    pub fn take(&self, limit: Limit, count: usize) -> bool {
        self.state.take(limit, count)
    }

    /// Returns the tensor type of input `i`.
    ///
    /// # Errors
    ///
    /// Returns an error if the input is missing or not a tensor of known rank.
    pub fn ty(&self, i: usize) -> Result<&'a TensorType> {
        let id = self.node.input(i).ok_or_else(|| missing("input", i))?;
        self.graph.tensor_type(id)
    }

    /// Returns the tensor type of output `i`.
    ///
    /// # Errors
    ///
    /// Returns an error if the output is missing or not a tensor of known rank.
    pub fn output_ty(&self, i: usize) -> Result<&'a TensorType> {
        let id = self.node.output(i).ok_or_else(|| missing("output", i))?;
        self.graph.tensor_type(id)
    }

    /// Returns the name of output `i`.
    ///
    /// # Errors
    ///
    /// Returns an error if the output is missing.
    pub fn output_name(&self, i: usize) -> Result<&'a str> {
        let id = self.node.output(i).ok_or_else(|| missing("output", i))?;
        Ok(&self.graph[id].name)
    }

    /// Returns whether input `i` is present.
    pub fn has(&self, i: usize) -> bool {
        self.node.input(i).is_some()
    }

    /// Returns input `i`, if it is a constant.
    pub fn constant(&self, i: usize) -> Option<&'a Tensor> {
        self.graph[self.node.input(i)?].constant.as_ref()
    }

    /// Returns the elements of input `i`, if they are known as size expressions.
    pub fn known(&self, i: usize) -> Option<&'a [Dim]> {
        self.graph[self.node.input(i)?].known.as_deref()
    }

    /// Returns the elements of output `i`, if they are known as size expressions.
    pub fn known_output(&self, i: usize) -> Option<&'a [Dim]> {
        self.graph[self.node.output(i)?].known.as_deref()
    }

    /// Returns the elements of input `i`, if they are known integers.
    pub fn ints(&self, i: usize) -> Option<Vec<i64>> {
        self.graph[self.node.input(i)?].ints()
    }

    /// Returns the axis counted from the front; inference has checked that it is one of `rank`.
    pub fn axis(&self, axis: i64, rank: usize) -> usize {
        axis_from_front(axis, rank)
    }

    /// Returns the operand of input `i`.
    ///
    /// # Errors
    ///
    /// Returns an error if the input is missing or has no buffer.
    pub fn input(&mut self, i: usize) -> Result<Operand> {
        let id = self.node.input(i).ok_or_else(|| missing("input", i))?;
        self.state.operand(id)
    }

    /// Returns the operand of input `i`, if it is present.
    ///
    /// # Errors
    ///
    /// Returns an error if the input is present and has no buffer.
    pub fn optional(&mut self, i: usize) -> Result<Option<Operand>> {
        self.node.input(i).map(|id| self.state.operand(id)).transpose()
    }

    /// Returns the operand of output `i`.
    ///
    /// # Errors
    ///
    /// Returns an error if the output is missing or has no buffer.
    pub fn output(&mut self, i: usize) -> Result<Operand> {
        let id = self.node.output(i).ok_or_else(|| missing("output", i))?;
        self.state.operand(id)
    }

    /// Returns the operand of output `i`, if it is used.
    ///
    /// # Errors
    ///
    /// Returns an error if the output is used and has no buffer.
    pub fn optional_output(&mut self, i: usize) -> Result<Option<Operand>> {
        self.node.output(i).map(|id| self.state.operand(id)).transpose()
    }

    /// Allocates memory that only the next call uses.
    pub fn scratch(&mut self, dtype: DType, len: impl Into<Dim>) -> Operand {
        let made = self.node.outputs.iter().flatten().next();
        let made = made.map_or(&self.node.name, |&id| &self.graph[id].name);
        let name = format!("{made} scratch");
        self.state.scratch(&name, dtype, len.into())
    }

    /// Returns the upper bound of `dim`.
    pub fn upper(&self, dim: &Dim) -> Option<i64> {
        self.state.upper(dim)
    }

    /// Returns the length of the scratch memory of a kernel with this geometry. If its sizes are
    /// bounded, `bounded` computes the length from the upper bounds of sizes; if not, `function`
    /// computes it when the model runs.
    pub fn scratch_len<F: Formula>(
        &mut self,
        geometry: &F,
        function: SizeFunction<F>,
        bounded: impl FnOnce(&dyn Fn(&Dim) -> Dim) -> Dim,
    ) -> Dim {
        let mut is_bounded = true;
        geometry.visit(&mut |dim| is_bounded &= self.upper(dim).is_some());
        if is_bounded {
            return bounded(&|dim| self.upper(dim).map_or_else(|| dim.clone(), Dim::from));
        }
        self.computed_scratch_len(geometry, function)
    }

    /// Returns the length of the scratch memory of a kernel with this geometry, which `function`
    /// computes when the model runs.
    pub fn computed_scratch_len<F: Formula>(
        &mut self,
        geometry: &F,
        function: SizeFunction<F>,
    ) -> Dim {
        self.state.computed("scratch", Rc::new((function, geometry.clone())))
    }

    /// Returns the random source of the next call: a stream with the given seed, or with the
    /// model's seed and a hash of the node's name.
    pub fn draw(&mut self, seed: Option<u64>) -> Draw {
        // FNV-1a.
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        let named = || Seed::Named(self.node.name.bytes().fold(0xcbf2_9ce4_8422_2325, mix));
        let seed = seed.map_or_else(named, Seed::Given);
        Draw { call: self.state.draws(), seed }
    }

    /// Calls `kernel` with the inputs and outputs of the node, in order, for the element type of
    /// the first output.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel does not support the element type, or if an operand has no
    /// buffer.
    pub fn call<F: Formula>(&mut self, kernel: &'static Kernel<F>, formula: F) -> Result {
        let dtype = self.output_ty(0)?.dtype;
        self.call_all(kernel.bind(formula), dtype)
    }

    /// Calls `kernel` with the inputs and outputs of the node, for the element type of the first
    /// input.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel does not support the element type, or if an operand has no
    /// buffer.
    pub fn call_for_input<F: Formula>(&mut self, kernel: &'static Kernel<F>, formula: F) -> Result {
        let dtype = self.ty(0)?.dtype;
        self.call_all(kernel.bind(formula), dtype)
    }

    fn call_all(&mut self, kernel: BoundKernel, dtype: DType) -> Result {
        let mut inputs = Vec::with_capacity(self.node.inputs.len());
        for i in 0..self.node.inputs.len() {
            inputs.push(match self.optional(i)? {
                Some(operand) => Arg::Tensor(operand),
                None => Arg::Optional(None),
            });
        }
        let mut outputs = Vec::with_capacity(self.node.outputs.len());
        for i in 0..self.node.outputs.len() {
            outputs.push(self.output(i)?.into());
        }
        self.call_bound(kernel, dtype, (inputs, outputs))
    }

    /// Calls `kernel` with operands for elements of `dtype`.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel does not support the element type.
    pub fn call_on<F: Formula>(
        &mut self,
        kernel: &'static Kernel<F>,
        dtype: DType,
        inputs: Vec<Arg>,
        outputs: Vec<Arg>,
        formula: F,
    ) -> Result {
        self.call_bound(kernel.bind(formula), dtype, (inputs, outputs))
    }

    fn call_bound(&mut self, kernel: BoundKernel, dtype: DType, operands: Operands) -> Result {
        let mut call = self.new_call(kernel, dtype, operands)?;
        if call.form == Form::MayReuse && !self.can_reuse(&call) {
            call.form = Form::Apart;
        }
        self.steps.push(Step::Call(call));
        Ok(())
    }

    fn new_call(&self, kernel: BoundKernel, dtype: DType, operands: Operands) -> Result<Call> {
        let (inputs, outputs) = operands;
        if !kernel.types.contains(&dtype) {
            return Err(self.unsupported(&format!("elements of type {dtype}")));
        }
        Ok(Call { inputs, outputs, ..Call::of(self.comment(), kernel, dtype) })
    }

    /// Calls a kernel that computes the data-dependent sizes of the node.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel does not support the element type.
    pub fn bind<F: Formula>(
        &mut self,
        kernel: &'static Kernel<F>,
        dtype: DType,
        inputs: Vec<Arg>,
        formula: F,
    ) -> Result {
        self.bind_with(kernel, dtype, inputs, Vec::new(), formula)
    }

    /// Calls a kernel that computes data-dependent sizes and writes operands.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel does not support the element type.
    pub fn bind_with<F: Formula>(
        &mut self,
        kernel: &'static Kernel<F>,
        dtype: DType,
        inputs: Vec<Arg>,
        outputs: Vec<Arg>,
        formula: F,
    ) -> Result {
        if !self.node.binds.is_empty() {
            let call = self.new_call(kernel.bind(formula), dtype, (inputs, outputs))?;
            self.steps.push(Step::Call(Call { binds: self.node.binds.clone(), ..call }));
        }
        Ok(())
    }

    /// Returns the first of `kernels` that supports the element type of input `i`.
    ///
    /// # Errors
    ///
    /// Returns an error if no kernel supports the element type.
    pub fn choose<F: Formula>(
        &self,
        kernels: &'static [(DType, Kernel<F>)],
        i: usize,
    ) -> Result<&'static Kernel<F>> {
        let wanted = self.ty(i)?.dtype;
        let found = kernels.iter().find(|(dtype, _)| *dtype == wanted);
        let missing = || self.unsupported(&format!("input {i} of type {wanted}"));
        found.map(|(_, kernel)| kernel).ok_or_else(missing)
    }

    /// Adds a copy of `from` to `to`.
    pub fn copy(&mut self, from: Operand, to: Operand) {
        if from != to {
            self.steps.push(self.copy_step(from, to));
        }
    }

    /// Returns a step that copies `from` to `to`, for a block.
    pub fn copy_step(&self, from: Operand, to: Operand) -> Step {
        Step::Call(self.state.copy(&self.comment(), from, to))
    }

    /// Returns the companion of input `i`: the flag of an optional, or the keys of a map.
    pub fn companion(&mut self, i: usize) -> Option<Operand> {
        self.state.companion(self.node.input(i)?)
    }

    /// Returns the companion of output `i`.
    pub fn output_companion(&mut self, i: usize) -> Option<Operand> {
        self.state.companion(self.node.output(i)?)
    }

    /// Sets the companion of output `i`.
    pub fn set_output_companion(&mut self, i: usize, operand: Operand) {
        if let Some(id) = self.node.output(i) {
            self.state.set_companion(id, operand);
        }
    }

    /// Returns the companion of input `j` of region `i`.
    pub fn region_input_companion(&mut self, i: usize, j: usize) -> Option<Operand> {
        self.state.companion(self.graph[self.node.regions[i]].inputs[j])
    }

    /// Returns whether input `i` has a value: the flag of an optional, true for other values.
    pub fn input_given(&mut self, i: usize) -> Operand {
        let companion = self.companion(i);
        companion.unwrap_or_else(|| self.weight(&Tensor::from_bool(true)))
    }

    /// Returns whether result `j` of region `i` has a value: the flag of an optional, true for
    /// other values.
    pub fn given(&mut self, i: usize, j: usize) -> Operand {
        let companion = self.state.companion(self.graph[self.node.regions[i]].outputs[j]);
        companion.unwrap_or_else(|| self.weight(&Tensor::from_bool(true)))
    }

    /// Allocates memory of the kind and size of `operand`.
    pub fn like(&mut self, operand: &Operand) -> Operand {
        let name = format!("{} scratch", self.node.name);
        self.state.like(&name, operand)
    }

    /// Returns the steps that `then` adds instead of adding them.
    ///
    /// # Errors
    ///
    /// Returns the error of `then`.
    pub fn steps_of(&mut self, then: impl FnOnce(&mut Self) -> Result) -> Result<Vec<Step>> {
        let before = std::mem::take(self.steps);
        let result = then(self);
        let made = std::mem::replace(self.steps, before);
        result.map(|()| made)
    }

    /// Adds a step.
    pub fn step(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// Lowers region `i` of the node.
    ///
    /// # Errors
    ///
    /// Returns an error if a node of the region cannot be lowered.
    pub fn block(&mut self, i: usize) -> Result<Block> {
        self.state.region(self.node.regions[i])
    }

    /// Lowers region `i`, which runs whenever the node does: its errors are errors of the model.
    ///
    /// # Errors
    ///
    /// Returns the error of the first faulty node, or an error if a node of the region cannot be
    /// lowered.
    pub fn body(&mut self, i: usize) -> Result<Block> {
        let mut nodes = self.graph[self.node.regions[i]].nodes.iter();
        match nodes.find_map(|&id| self.graph[id].fault.clone()) {
            Some(fault) => Err(*fault),
            None => self.block(i),
        }
    }

    /// Returns the operand of input `j` of region `i`.
    ///
    /// # Errors
    ///
    /// Returns an error if the input has no buffer.
    pub fn region_input(&mut self, i: usize, j: usize) -> Result<Operand> {
        let id = self.graph[self.node.regions[i]].inputs[j];
        self.state.operand(id)
    }

    /// Returns the type of input `j` of region `i`.
    pub fn region_input_ty(&self, i: usize, j: usize) -> &'a Type {
        &self.graph[self.graph[self.node.regions[i]].inputs[j]].ty
    }

    /// Returns whether result `j` of region `i` is true whenever its input `k` is.
    pub fn result_stays_true(&self, i: usize, j: usize, k: usize) -> bool {
        super::infer::stays_true(self.graph, self.node.regions[i], j, k)
    }

    /// Returns the number of elements of all constants of the model.
    pub fn constants_len(&self) -> usize {
        self.graph.values().filter_map(|(_, value)| value.constant.as_ref()).map(Tensor::len).sum()
    }

    /// Returns the optimization goal.
    pub fn optimize(&self) -> Optimize {
        self.state.optimize()
    }

    /// Returns the precision of constant weights.
    pub fn precision(&self) -> Precision {
        self.state.precision()
    }

    /// Returns the operand of a weight that replaces input `i`.
    pub fn weight_for(&mut self, i: usize, weight: Weight) -> Operand {
        let name = self.node.input(i).map_or(&self.node.name, |id| &self.graph[id].name);
        self.state.weight(name, weight)
    }

    /// Returns whether region `i` always ends with an error.
    pub fn region_is_faulty(&self, i: usize) -> bool {
        self.graph.is_faulty(self.node.regions[i])
    }

    /// Returns whether a node of region `i` defines a symbol of `dim`.
    pub fn region_settles(&self, i: usize, dim: &Dim) -> bool {
        self.graph.settles(self.node.regions[i], dim)
    }

    /// Returns the operand of a constant of the operator.
    pub fn weight(&mut self, tensor: &Tensor) -> Operand {
        self.state.weight(&self.node.name, tensor.clone().into())
    }

    /// Returns the type of result `j` of region `i`.
    pub fn result_ty(&self, i: usize, j: usize) -> Option<&'a Type> {
        let &id = self.graph[self.node.regions[i]].outputs.get(j)?;
        Some(&self.graph[id].ty)
    }

    /// Returns the type of input `i`.
    ///
    /// # Errors
    ///
    /// Returns an error if the input is missing.
    pub fn any(&self, i: usize) -> Result<&'a Type> {
        let id = self.node.input(i).ok_or_else(|| missing("input", i))?;
        Ok(&self.graph[id].ty)
    }

    /// Returns the type of output `i`.
    ///
    /// # Errors
    ///
    /// Returns an error if the output is missing.
    pub fn output_any(&self, i: usize) -> Result<&'a Type> {
        let id = self.node.output(i).ok_or_else(|| missing("output", i))?;
        Ok(&self.graph[id].ty)
    }

    /// Adds multiply-adds to the node's cost.
    pub fn macs(&mut self, macs: &Dim) {
        self.state.count(macs);
    }

    /// Returns the error that a part of the operator is not supported.
    pub fn unsupported(&self, what: &str) -> Diagnostic {
        let message = format!("`{}` does not support {what} yet", self.node.op.name());
        Diagnostic::new(Code::Unsupported, message)
    }

    /// Returns the node as a comment of generated code names it.
    pub fn comment(&self) -> String {
        self.graph.comment(self.node)
    }

    /// Returns whether the first output can overwrite the first input: both are whole tensors of
    /// the same type and size.
    fn can_reuse(&self, call: &Call) -> bool {
        let pair = |i: usize| match (call.inputs.get(i), call.outputs.get(i)) {
            (Some(Arg::Tensor(x)), Some(Arg::Tensor(y))) => x.len == y.len,
            _ => false,
        };
        let dtype = |i: usize, from: &[Option<ValueId>]| {
            let id = from.get(i).copied().flatten()?;
            Some(self.graph[id].ty.as_tensor()?.dtype)
        };
        let alike =
            call.overwrites > 1 || dtype(0, &self.node.inputs) == dtype(0, &self.node.outputs);
        (0..call.overwrites).all(pair) && alike
    }
}

fn missing(what: &str, i: usize) -> Diagnostic {
    Diagnostic::new(Code::BadArity, format!("{what} {i} is missing"))
}
