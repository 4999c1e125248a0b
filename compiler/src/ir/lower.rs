//! What an operator may ask when it lowers itself, and how it says which kernels to call.

use super::{Graph, Node, RegionId, ValueId};
use crate::{
    diag::{Code, Diagnostic, Result},
    dim::Dim,
    dtype::DType,
    plan::{
        Arg, Block, Call, Draw, Form, Formula, Kernel, Operand, Optimize, Precision, Seed, Step,
        Weight,
    },
    tensor::Tensor,
    ty::{TensorType, Type, axis_from_front},
};

/// What an operator may ask when it lowers itself, and how it says which kernels to call.
pub struct Lower<'a> {
    state: &'a mut dyn Lowering,
    graph: &'a Graph,
    node: &'a Node,
    steps: &'a mut Vec<Step>,
}

/// What [`Lower`] needs of the driver.
pub(super) trait Lowering {
    fn operand(&mut self, value: ValueId) -> Result<Operand>;
    fn scratch(&mut self, name: &str, dtype: DType, len: Dim) -> Operand;
    fn region(&mut self, region: RegionId) -> Result<Block>;
    fn upper(&self, dim: &Dim) -> Option<i64>;
    fn optimize(&self) -> Optimize;
    fn precision(&self) -> Precision;
    fn count(&mut self, macs: u64);
    fn draws(&mut self) -> usize;
    fn weight(&mut self, name: &str, weight: Weight, parameters: usize) -> Operand;
    fn beside(&mut self, value: ValueId) -> Option<Operand>;
    fn set_beside(&mut self, value: ValueId, operand: Operand);
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

    /// The node.
    pub fn node(&self) -> &'a Node {
        self.node
    }

    /// The tensor type of input `i`.
    pub fn ty(&self, i: usize) -> Result<&'a TensorType> {
        let id = self.node.input(i).ok_or_else(|| missing("input", i))?;
        self.graph.tensor_type(id)
    }

    /// The tensor type of output `i`.
    pub fn output_ty(&self, i: usize) -> Result<&'a TensorType> {
        let id = self.node.output(i).ok_or_else(|| missing("output", i))?;
        self.graph.tensor_type(id)
    }

    /// What the model calls output `i`.
    pub fn output_name(&self, i: usize) -> Result<&'a str> {
        let id = self.node.output(i).ok_or_else(|| missing("output", i))?;
        Ok(&self.graph[id].name)
    }

    /// Whether input `i` is given.
    pub fn has(&self, i: usize) -> bool {
        self.node.input(i).is_some()
    }

    /// The elements of input `i`, where it is a constant.
    pub fn constant(&self, i: usize) -> Option<&'a Tensor> {
        self.graph[self.node.input(i)?].constant.as_ref()
    }

    /// The elements of input `i` as sizes, where they are known as such.
    pub fn known(&self, i: usize) -> Option<&'a [Dim]> {
        self.graph[self.node.input(i)?].known.as_deref()
    }

    /// The elements of output `i` as sizes, where they are known as such.
    pub fn known_output(&self, i: usize) -> Option<&'a [Dim]> {
        self.graph[self.node.output(i)?].known.as_deref()
    }

    /// The elements of input `i`, where they are known numbers.
    pub fn ints(&self, i: usize) -> Option<Vec<i64>> {
        self.graph[self.node.input(i)?].ints()
    }

    /// The axis counted from the front, which inferring the types saw to be one of `rank`.
    pub fn axis(&self, axis: i64, rank: usize) -> usize {
        axis_from_front(axis, rank)
    }

    /// Where input `i` is.
    pub fn input(&mut self, i: usize) -> Result<Operand> {
        let id = self.node.input(i).ok_or_else(|| missing("input", i))?;
        self.state.operand(id)
    }

    /// Where input `i` is, where it is given.
    pub fn optional(&mut self, i: usize) -> Result<Option<Operand>> {
        self.node.input(i).map(|id| self.state.operand(id)).transpose()
    }

    /// Where output `i` goes.
    pub fn output(&mut self, i: usize) -> Result<Operand> {
        let id = self.node.output(i).ok_or_else(|| missing("output", i))?;
        self.state.operand(id)
    }

    /// Where output `i` goes, where it is wanted.
    pub fn optional_output(&mut self, i: usize) -> Result<Option<Operand>> {
        self.node.output(i).map(|id| self.state.operand(id)).transpose()
    }

    /// Memory that is needed only by the next call.
    pub fn scratch(&mut self, dtype: DType, len: impl Into<Dim>) -> Operand {
        let made = self.node.outputs.iter().flatten().next();
        let made = made.map_or(&self.node.name, |&id| &self.graph[id].name);
        let name = format!("{made} scratch");
        self.state.scratch(&name, dtype, len.into())
    }

    /// The greatest that `dim` can be; where nothing bounds it, a number of rows or columns beyond
    /// which no kernel wants more scratch memory.
    pub fn most(&self, dim: &Dim) -> Dim {
        const MANY: i64 = 1 << 12;
        self.state.upper(dim).unwrap_or(MANY).into()
    }

    /// What the next call draws random numbers from: a stream with the seed given, or one of the
    /// model's seed and the node's name.
    pub fn draw(&mut self, seed: Option<u64>) -> Draw {
        // FNV-1a.
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        let named = || Seed::Named(self.node.name.bytes().fold(0xcbf2_9ce4_8422_2325, mix));
        let seed = seed.map_or_else(named, Seed::Given);
        Draw { call: self.state.draws(), seed }
    }

    /// Calls `kernel` on the inputs and outputs of the node, in their order, for the element type
    /// of the first output.
    pub fn call<F: Formula>(&mut self, kernel: &'static Kernel<F>, formula: F) -> Result {
        let dtype = self.output_ty(0)?.dtype;
        self.call_all(kernel, dtype, formula)
    }

    /// Calls `kernel` likewise, for the element type of the first input.
    pub fn call_for_input<F: Formula>(&mut self, kernel: &'static Kernel<F>, formula: F) -> Result {
        let dtype = self.ty(0)?.dtype;
        self.call_all(kernel, dtype, formula)
    }

    fn call_all<F: Formula>(
        &mut self,
        kernel: &'static Kernel<F>,
        dtype: DType,
        formula: F,
    ) -> Result {
        let mut inputs = Vec::new();
        for i in 0..self.node.inputs.len() {
            inputs.push(match self.optional(i)? {
                Some(operand) => Arg::Tensor(operand),
                None => Arg::Optional(None),
            });
        }
        let mut outputs = Vec::new();
        for i in 0..self.node.outputs.len() {
            outputs.push(self.output(i)?.into());
        }
        self.call_on(kernel, dtype, inputs, outputs, formula)
    }

    /// Calls `kernel` for elements of `dtype`.
    pub fn call_on<F: Formula>(
        &mut self,
        kernel: &'static Kernel<F>,
        dtype: DType,
        inputs: Vec<Arg>,
        outputs: Vec<Arg>,
        formula: F,
    ) -> Result {
        if !kernel.types.contains(&dtype) {
            return Err(self.unsupported(&format!("elements of type {dtype}")));
        }
        let mut call = Call::new(self.comment(), kernel, dtype, formula);
        (call.inputs, call.outputs) = (inputs, outputs);
        if call.form == Form::MayReuse && !self.can_reuse(&call) {
            call.form = Form::Apart;
        }
        self.steps.push(Step::Call(call));
        Ok(())
    }

    /// Calls a kernel that settles the sizes known only when the node runs.
    pub fn bind<F: Formula>(
        &mut self,
        kernel: &'static Kernel<F>,
        dtype: DType,
        inputs: Vec<Arg>,
        formula: F,
    ) -> Result {
        self.bind_with(kernel, dtype, inputs, Vec::new(), formula)
    }

    /// Calls such a kernel that also writes something.
    pub fn bind_with<F: Formula>(
        &mut self,
        kernel: &'static Kernel<F>,
        dtype: DType,
        inputs: Vec<Arg>,
        outputs: Vec<Arg>,
        formula: F,
    ) -> Result {
        if self.node.binds.is_empty() {
            return Ok(());
        }
        if !kernel.types.contains(&dtype) {
            return Err(self.unsupported(&format!("elements of type {dtype}")));
        }
        let mut call = Call::new(self.comment(), kernel, dtype, formula);
        (call.inputs, call.outputs) = (inputs, outputs);
        call.binds = self.node.binds.clone();
        self.steps.push(Step::Call(call));
        Ok(())
    }

    /// The one of `kernels` that is for inputs `i` of such elements.
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

    /// Copies `from` to `to`.
    pub fn copy(&mut self, from: Operand, to: Operand) {
        if from != to {
            self.steps.push(self.copy_step(from, to));
        }
    }

    /// The step that copies `from` to `to`, for a block.
    pub fn copy_step(&self, from: Operand, to: Operand) -> Step {
        Step::Call(self.state.copy(&self.comment(), from, to))
    }

    /// What stands beside the elements of input `i`: whether an optional has its value, the keys
    /// of a map.
    pub fn beside(&mut self, i: usize) -> Option<Operand> {
        self.state.beside(self.node.input(i)?)
    }

    /// What stands beside the elements of output `i`.
    pub fn output_beside(&mut self, i: usize) -> Option<Operand> {
        self.state.beside(self.node.output(i)?)
    }

    /// Says what stands beside the elements of output `i`.
    pub fn set_output_beside(&mut self, i: usize, operand: Operand) {
        if let Some(id) = self.node.output(i) {
            self.state.set_beside(id, operand);
        }
    }

    /// What stands beside the elements of input `j` of region `i`.
    pub fn region_input_beside(&mut self, i: usize, j: usize) -> Option<Operand> {
        self.state.beside(self.graph[self.node.regions[i]].inputs[j])
    }

    /// Whether input `i` is there: what an optional says, true for anything else.
    pub fn input_given(&mut self, i: usize) -> Operand {
        let beside = self.beside(i);
        beside.unwrap_or_else(|| self.weight(&Tensor::from_bool(true)))
    }

    /// Whether result `j` of region `i` is there, likewise.
    pub fn given(&mut self, i: usize, j: usize) -> Operand {
        let beside = self.state.beside(self.graph[self.node.regions[i]].outputs[j]);
        beside.unwrap_or_else(|| self.weight(&Tensor::from_bool(true)))
    }

    /// Memory for another value of the kind and size of `operand`.
    pub fn like(&mut self, operand: &Operand) -> Operand {
        let name = format!("{} scratch", self.node.name);
        self.state.like(&name, operand)
    }

    /// Takes the steps made by `then` instead of doing them.
    pub fn steps_of(&mut self, then: impl FnOnce(&mut Self) -> Result) -> Result<Vec<Step>> {
        let before = std::mem::take(self.steps);
        let result = then(self);
        let made = std::mem::replace(self.steps, before);
        result.map(|()| made)
    }

    /// Does `step`.
    pub fn step(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// What region `i` of the node does.
    pub fn block(&mut self, i: usize) -> Result<Block> {
        self.state.region(self.node.regions[i])
    }

    /// The same, of a region that runs whenever the node does: what is wrong in it is wrong with
    /// the model.
    pub fn body(&mut self, i: usize) -> Result<Block> {
        let mut nodes = self.graph[self.node.regions[i]].nodes.iter();
        match nodes.find_map(|&id| self.graph[id].fault.clone()) {
            Some(fault) => Err(fault),
            None => self.block(i),
        }
    }

    /// Where input `j` of region `i` is.
    pub fn region_input(&mut self, i: usize, j: usize) -> Result<Operand> {
        let id = self.graph[self.node.regions[i]].inputs[j];
        self.state.operand(id)
    }

    /// The type of input `j` of region `i`.
    pub fn region_input_ty(&self, i: usize, j: usize) -> &'a Type {
        &self.graph[self.graph[self.node.regions[i]].inputs[j]].ty
    }

    /// Whether result `j` of region `i` is true whenever its input `k` is.
    pub fn result_stays_true(&self, i: usize, j: usize, k: usize) -> bool {
        super::infer::stays_true(self.graph, self.node.regions[i], j, k)
    }

    /// How many elements all constants of the model have.
    pub fn constants_len(&self) -> usize {
        self.graph.values().filter_map(|(_, value)| value.constant.as_ref()).map(Tensor::len).sum()
    }

    /// What matters most.
    pub fn optimize(&self) -> Optimize {
        self.state.optimize()
    }

    /// In how many bits constant weights stand.
    pub fn precision(&self) -> Precision {
        self.state.precision()
    }

    /// Where a constant is that stands for input `i`.
    pub fn weight_for(&mut self, i: usize, weight: Weight) -> Operand {
        let name = self.node.input(i).map_or(&self.node.name, |id| &self.graph[id].name);
        let parameters = self.constant(i).map_or(0, Tensor::len);
        self.state.weight(name, weight, parameters)
    }

    /// Whether running region `i` is sure to be refused.
    pub fn region_is_faulty(&self, i: usize) -> bool {
        self.graph.is_faulty(self.node.regions[i])
    }

    /// Whether a node of region `i` settles a symbol of `dim`.
    pub fn region_settles(&self, i: usize, dim: &Dim) -> bool {
        self.graph.settles(self.node.regions[i], dim)
    }

    /// Where a constant of the operator itself is.
    pub fn weight(&mut self, tensor: &Tensor) -> Operand {
        self.state.weight(&self.node.name, tensor.clone().into(), 0)
    }

    /// The type of result `j` of region `i`.
    pub fn result_ty(&self, i: usize, j: usize) -> Option<&'a Type> {
        let &id = self.graph[self.node.regions[i]].outputs.get(j)?;
        Some(&self.graph[id].ty)
    }

    /// The type of input `i`, whatever it is.
    pub fn any(&self, i: usize) -> Result<&'a Type> {
        let id = self.node.input(i).ok_or_else(|| missing("input", i))?;
        Ok(&self.graph[id].ty)
    }

    /// The type of output `i`, whatever it is.
    pub fn output_any(&self, i: usize) -> Result<&'a Type> {
        let id = self.node.output(i).ok_or_else(|| missing("output", i))?;
        Ok(&self.graph[id].ty)
    }

    /// Counts multiply-adds.
    pub fn macs(&mut self, macs: &Dim) {
        if let Some(macs) = macs.known().and_then(|n| u64::try_from(n).ok()) {
            self.state.count(macs);
        }
    }

    /// A diagnostic that says which part of the operator is missing.
    pub fn unsupported(&self, what: &str) -> Diagnostic {
        let message = format!("`{}` does not support {what} yet", self.node.op.name());
        Diagnostic::new(Code::Unsupported, message)
    }

    /// The node, as a comment in generated code names it.
    pub fn comment(&self) -> String {
        let outputs = self.node.outputs.iter().flatten();
        let types: Vec<String> = outputs.map(|&id| self.graph[id].ty.to_string()).collect();
        format!("{}: {} -> {}", self.node.name, self.node.op.label(), types.join(", "))
    }

    /// Whether the first input could be overwritten with the first output: both are all of a
    /// tensor of the same type and size.
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
