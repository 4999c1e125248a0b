//! From a graph to a plan: where every value lies, and which kernels are called.

use super::{Graph, Node, NodeId, RegionId, ValueId, views::Homes};
use crate::{
    arena::Map,
    diag::{Code, Diagnostic, Diagnostics, Findings, Result},
    dim::Dim,
    dtype::DType,
    plan::{
        Arg, Block, Buffer, BufferId, Call, Form, Formula, Kernel, NoParams, Operand, Optimize,
        Place, Plan, Port, Step, kernel,
    },
    tensor::Tensor,
    ty::TensorType,
};
use std::collections::HashMap;

static COPY: Kernel = kernel!(ANY T, reshape::identity, |f, a, _p| f(a.input::<T>(0), a.output(0)));

/// The plan of a graph, before its memory is laid out.
pub fn plan(graph: &Graph, optimize: Optimize) -> std::result::Result<Plan, Diagnostics> {
    let findings = Findings::default();
    let mut state = State {
        graph,
        optimize,
        plan: Plan::default(),
        homes: Homes::of(graph),
        buffers: Map::default(),
        weights: HashMap::new(),
    };
    state.plan.info = graph.info.clone();
    state.plan.symbols = graph.symbols.clone();
    for (i, &id) in graph[graph.body].inputs.iter().enumerate() {
        if let Some(port) = findings.keep(state.input(i, id)) {
            state.plan.inputs.push(port);
        }
    }
    let mut steps = Vec::new();
    for &id in &graph[graph.body].nodes {
        findings.keep(state.node(id, &mut steps));
    }
    for (i, &id) in graph[graph.body].outputs.iter().enumerate() {
        // The model's name for it: the value may have come to have another.
        let name = graph.info.outputs.get(i).unwrap_or(&graph[id].name).clone();
        if let Some(port) = findings.keep(state.output(&name, id, &mut steps)) {
            state.plan.outputs.push(port);
        }
    }
    findings.finish()?;
    Ok(Plan { steps, ..state.plan })
}

struct State<'g> {
    graph: &'g Graph,
    optimize: Optimize,
    plan: Plan,
    homes: Homes,
    buffers: Map<ValueId, BufferId>,
    weights: HashMap<(DType, bytes::Bytes), BufferId>,
}

/// What an operator may ask when it lowers itself, and how it says which kernels to call.
pub struct Lower<'a> {
    state: &'a mut dyn Lowering,
    graph: &'a Graph,
    node: &'a Node,
    steps: &'a mut Vec<Step>,
}

/// What [`Lower`] needs of the driver.
trait Lowering {
    fn operand(&mut self, value: ValueId) -> Result<Operand>;
    fn scratch(&mut self, name: &str, dtype: DType, len: Dim) -> Operand;
    fn region(&mut self, region: RegionId) -> Result<Block>;
    fn upper(&self, dim: &Dim) -> Option<i64>;
    fn optimize(&self) -> Optimize;
    fn count(&mut self, macs: u64);
    fn weight(&mut self, name: &str, tensor: &Tensor) -> Operand;
}

impl State<'_> {
    fn input(&mut self, i: usize, id: ValueId) -> Result<Port> {
        let ty = tensor_type(self.graph, id)?.clone();
        let buffer = self.buffer(&self.graph[id].name, ty.dtype, ty.len(), Place::Input(i));
        self.buffers.insert(id, buffer);
        Ok(self.port(&self.graph[id].name, ty, buffer))
    }

    fn output(&mut self, name: &str, id: ValueId, steps: &mut Vec<Step>) -> Result<Port> {
        let ty = tensor_type(self.graph, id)?.clone();
        let found = self.operand(id)?;
        // What the caller or the weights own, and a part of something else, is copied out.
        let whole =
            found.start.known() == Some(0) && self.plan.buffers[found.buffer].len == found.len;
        let taken = self.plan.outputs.iter().any(|port| port.operand.buffer == found.buffer);
        let buffer = match self.plan.buffers[found.buffer].place {
            Place::Arena { .. } => found.buffer,
            Place::Heap if whole && !taken => found.buffer,
            _ => {
                let to = self.scratch(name, ty.dtype, ty.len());
                steps.push(Step::Call(copy(name, ty.dtype, found, to.clone())));
                return Ok(self.port(name, ty, to.buffer));
            }
        };
        Ok(Port { operand: found, ..self.port(name, ty, buffer) })
    }

    fn port(&self, name: &str, ty: TensorType, buffer: BufferId) -> Port {
        let doc = self.graph.info.value_docs.get(name).cloned().unwrap_or_default();
        Port { name: name.to_owned(), doc, operand: Operand::whole(buffer, ty.len()), ty }
    }

    fn buffer(&mut self, name: &str, dtype: DType, len: Dim, place: Place) -> BufferId {
        self.plan.buffers.push(Buffer { name: name.to_owned(), dtype, len, place })
    }

    fn node(&mut self, id: NodeId, steps: &mut Vec<Step>) -> Result {
        let (graph, node) = (self.graph, &self.graph[id]);
        if let Some(fault) = &node.fault {
            return Err(fault.clone());
        }
        let mut outputs = node.outputs.iter().flatten().peekable();
        if outputs.peek().is_some() && outputs.all(|&id| graph[id].constant.is_some()) {
            return Ok(());
        }
        steps.extend(node.checks.iter().cloned().map(Step::Check));
        let mut cx = Lower { state: self, graph, node, steps };
        node.op.lower(&mut cx).map_err(|finding| finding.within(node.location()))
    }

    /// The buffer of a constant. Equal constants share one.
    fn constant(&mut self, name: &str, tensor: &Tensor) -> BufferId {
        let place = Place::Weight { offset: 0, tensor: tensor.clone() };
        let bytes = bytes::Bytes::copy_from_slice(&tensor.bytes()[..tensor.bytes().len().min(64)]);
        let key = (tensor.dtype, bytes);
        if let Some(&found) = self.weights.get(&key) {
            let same = matches!(&self.plan.buffers[found].place,
                Place::Weight { tensor: other, .. } if other.data == tensor.data);
            if same {
                return found;
            }
        }
        let buffer = self.buffer(name, tensor.dtype, tensor.len().into(), place);
        self.weights.insert(key, buffer);
        buffer
    }
}

impl Lowering for State<'_> {
    fn operand(&mut self, value: ValueId) -> Result<Operand> {
        if let Some(tensor) = &self.graph[value].constant {
            return Ok(self.weight(&self.graph[value].name, tensor));
        }
        let len = tensor_type(self.graph, value)?.len();
        let (home, start) = self.homes.find(value);
        if let Some(tensor) = &self.graph[home].constant {
            let buffer = self.constant(&self.graph[home].name, tensor);
            return Ok(Operand { buffer, start, len });
        }
        if let Some(&buffer) = self.buffers.get(home) {
            return Ok(Operand { buffer, start, len });
        }
        let ty = tensor_type(self.graph, home)?;
        let whole = self.scratch(&self.graph[home].name, ty.dtype, ty.len());
        self.buffers.insert(home, whole.buffer);
        Ok(Operand { buffer: whole.buffer, start, len })
    }

    fn scratch(&mut self, name: &str, dtype: DType, len: Dim) -> Operand {
        let most = self.plan.upper(&len).and_then(|most| usize::try_from(most).ok());
        let place = match most {
            Some(capacity) if dtype != DType::String => Place::Arena { offset: 0, capacity },
            _ => Place::Heap,
        };
        Operand::whole(self.buffer(name, dtype, len.clone(), place), len)
    }

    fn region(&mut self, region: RegionId) -> Result<Block> {
        let mut steps = Vec::new();
        for &id in &self.graph[region].nodes {
            if let Some(fault) = &self.graph[id].fault {
                let refusal = Some(format!("{}: {}", self.graph[id].name, fault.message));
                return Ok(Block { steps, refusal, ..Block::default() });
            }
            self.node(id, &mut steps)?;
        }
        let outputs = &self.graph[region].outputs;
        let results = outputs.iter().map(|&id| self.operand(id)).collect::<Result<_>>()?;
        Ok(Block { steps, results, ..Block::default() })
    }

    fn upper(&self, dim: &Dim) -> Option<i64> {
        self.plan.upper(dim)
    }

    fn optimize(&self) -> Optimize {
        self.optimize
    }

    fn weight(&mut self, name: &str, tensor: &Tensor) -> Operand {
        Operand::whole(self.constant(name, tensor), tensor.len().into())
    }

    fn count(&mut self, macs: u64) {
        self.plan.macs = self.plan.macs.saturating_add(macs);
    }
}

fn tensor_type(graph: &Graph, id: ValueId) -> Result<&TensorType> {
    let value = &graph[id];
    value.ty.as_tensor().ok_or_else(|| {
        let name = crate::diag::quoted(&value.name);
        let message =
            format!("the value {name} is {}, which needs a fixed number of axes", value.ty);
        Diagnostic::new(Code::UnknownShape, message)
    })
}

fn copy(name: &str, dtype: DType, from: Operand, to: Operand) -> Call {
    let mut call = Call::new(name.to_owned(), &COPY, dtype, NoParams);
    call.inputs.push(from.into());
    call.outputs.push(to.into());
    call
}

impl<'a> Lower<'a> {
    /// The node.
    pub fn node(&self) -> &'a Node {
        self.node
    }

    /// The tensor type of input `i`.
    pub fn ty(&self, i: usize) -> Result<&'a TensorType> {
        let id = self.node.input(i).ok_or_else(|| missing("input", i))?;
        tensor_type(self.graph, id)
    }

    /// The tensor type of output `i`.
    pub fn output_ty(&self, i: usize) -> Result<&'a TensorType> {
        let id = self.node.output(i).ok_or_else(|| missing("output", i))?;
        tensor_type(self.graph, id)
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
        from_front(axis, rank)
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
    pub fn copy(&mut self, dtype: DType, from: Operand, to: Operand) {
        if from != to {
            self.steps.push(Step::Call(copy(&self.comment(), dtype, from, to)));
        }
    }

    /// The step that copies `from` to `to`, for a block.
    pub fn copy_step(&self, dtype: DType, from: Operand, to: Operand) -> Step {
        Step::Call(copy(&self.comment(), dtype, from, to))
    }

    /// Does `step`.
    pub fn step(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// What region `i` of the node does.
    pub fn block(&mut self, i: usize) -> Result<Block> {
        self.state.region(self.node.regions[i])
    }

    /// Where input `j` of region `i` is.
    pub fn region_input(&mut self, i: usize, j: usize) -> Result<Operand> {
        let id = self.graph[self.node.regions[i]].inputs[j];
        self.state.operand(id)
    }

    /// The tensor type of input `j` of region `i`.
    pub fn region_input_ty(&self, i: usize, j: usize) -> Result<&'a TensorType> {
        tensor_type(self.graph, self.graph[self.node.regions[i]].inputs[j])
    }

    /// Whether result `j` of region `i` is true whenever its input `k` is.
    pub fn result_stays_true(&self, i: usize, j: usize, k: usize) -> bool {
        super::infer::stays_true(self.graph, self.node.regions[i], j, k)
    }

    /// What matters most.
    pub fn optimize(&self) -> Optimize {
        self.state.optimize()
    }

    /// Where a constant is that stands for input `i`.
    pub fn weight_for(&mut self, i: usize, tensor: &Tensor) -> Operand {
        let name = self.node.input(i).map_or(&self.node.name, |id| &self.graph[id].name);
        self.state.weight(name, tensor)
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
        self.state.weight(&self.node.name, tensor)
    }

    /// The type of result `j` of region `i`, where it is a tensor.
    pub fn result_ty(&self, i: usize, j: usize) -> Option<&'a TensorType> {
        let &id = self.graph[self.node.regions[i]].outputs.get(j)?;
        self.graph[id].ty.as_tensor()
    }

    /// Counts multiply-adds.
    pub fn macs(&mut self, macs: &Dim) {
        if let Some(macs) = macs.known().and_then(|n| u64::try_from(n).ok()) {
            self.state.count(macs);
        }
    }

    /// A finding that says which part of the operator is missing.
    pub fn unsupported(&self, what: &str) -> Diagnostic {
        let message = format!("`{}` does not support {what} yet", self.node.op.name());
        Diagnostic::new(Code::Unsupported, message)
    }

    /// The node, as a comment in generated code names it.
    pub fn comment(&self) -> String {
        let outputs = self.node.outputs.iter().flatten();
        let types: Vec<String> = outputs.map(|&id| self.graph[id].ty.to_string()).collect();
        format!("{}: {} -> {}", self.node.name, self.node.op.name(), types.join(", "))
    }

    /// Whether the first input could be overwritten with the first output: both are all of a
    /// tensor of the same type and size.
    fn can_reuse(&self, call: &Call) -> bool {
        let Some(Arg::Tensor(x)) = call.inputs.first() else { return false };
        let Some(Arg::Tensor(y)) = call.outputs.first() else { return false };
        let dtype = |i: usize, from: &[Option<ValueId>]| {
            let id = from.get(i).copied().flatten()?;
            Some(self.graph[id].ty.as_tensor()?.dtype)
        };
        x.len == y.len && dtype(0, &self.node.inputs) == dtype(0, &self.node.outputs)
    }
}

pub(super) fn from_front(axis: i64, rank: usize) -> usize {
    let rank = i64::try_from(rank.max(1)).unwrap_or(i64::MAX);
    usize::try_from(axis.rem_euclid(rank)).unwrap_or(0)
}

fn missing(what: &str, i: usize) -> Diagnostic {
    Diagnostic::new(Code::BadArity, format!("{what} {i} is missing"))
}
