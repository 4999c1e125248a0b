//! Lowers a graph to a plan: assigns buffers and selects kernels.

use super::{
    Graph, Node, NodeId, RegionId, ValueId, declared_bounds, expr_limit,
    lower::{Lower, Lowering},
    views::Homes,
};
use crate::{
    arena::Map,
    diag::{Code, Diagnostic, DiagnosticSink, Diagnostics, Result, quoted},
    dim::{Dim, Symbol},
    dtype::DType,
    limits::{Budget, Limit},
    plan::{
        Block, Buffer, BufferId, Call, ComputedSize, FreeSizes, Kernel, Kind, NoParams, Operand,
        Optimize, Place, Plan, Port, Precision, Step, Weight, WeightTable, Written, kernel,
    },
    tensor::Tensor,
    ty::Type,
};
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    rc::Rc,
};

static COPY: Kernel =
    kernel!(moves T, reshape::identity, |f, a, _p| f(a.input::<T>(0), a.output(0)));
static COPY_SEQUENCE: Kernel = kernel!(ANY_IR4 T, sequence::identity::<T>,
    |f, a, _p| f(a.sequence(0), a.output_sequence(0)));

/// Returns the plan of a graph, before its memory is laid out.
///
/// # Errors
///
/// Returns an error for each operator that cannot be lowered, with its node.
pub fn plan(
    graph: &Graph,
    optimize: Optimize,
    precision: Precision,
    free_sizes: FreeSizes,
) -> std::result::Result<Plan, Diagnostics> {
    let planned = planned(graph, optimize, precision, free_sizes);
    planned.map_err(|diagnostics| diagnostics.within(&graph.place(graph.body)))
}

fn planned(
    graph: &Graph,
    optimize: Optimize,
    precision: Precision,
    free_sizes: FreeSizes,
) -> std::result::Result<Plan, Diagnostics> {
    let diagnostics = DiagnosticSink::default();
    let mut state = State {
        graph,
        optimize,
        precision,
        free_sizes,
        start: BTreeSet::new(),
        plan: Plan::default(),
        homes: Homes::of(graph),
        budget: graph.budget.renewed(),
        buffers: Map::default(),
        companions: Map::default(),
        weights: WeightTable::default(),
        held: HashSet::new(),
        returned: HashSet::new(),
    };
    state.plan.info = graph.info.clone();
    state.plan.symbols = graph.symbols.clone();
    state.plan.learns = graph.interface.learns;
    let promised = declared_bounds::bound(graph, &mut state.plan);
    let mut found = HashMap::new();
    for (i, &id) in graph[graph.body].inputs.iter().enumerate() {
        match graph.interface.found_at(i) {
            Some(held) => drop(found.insert(i, diagnostics.keep(state.found(held)))),
            None => {
                let port = diagnostics.keep(state.input(i, id));
                state.plan.inputs.extend(port);
            }
        }
    }
    // Errors that follow from an input of unknown rank are not reported.
    diagnostics.finish()?;
    let mut steps = Vec::new();
    let mut failed: HashSet<ValueId> = HashSet::new();
    for &id in &graph[graph.body].nodes {
        state.budget.go_on().map_err(|diagnostic| diagnostic.within(graph[id].location()))?;
        if diagnostics.keep(state.node(id, &mut steps)).is_none() {
            failed.extend(graph[id].outputs.iter().flatten().copied());
        }
    }
    for held in &graph.interface.states {
        let Some(found) = found.remove(&held.input).flatten() else { continue };
        let held = diagnostics.keep(state.next(*held, found, &mut steps));
        state.plan.states.extend(held);
    }
    for (i, &id) in graph[graph.body].outputs.iter().enumerate() {
        // An error of a node is not reported again for its outputs.
        if graph.interface.keeps(i) || failed.contains(&id) {
            continue;
        }
        // The value may have another name than the output.
        let name = graph.info.outputs.get(i).unwrap_or(&graph[id].name).clone();
        let port = state.output(&name, id, &mut steps).map_err(|diagnostic| {
            graph
                .producer(id)
                .iter()
                .fold(diagnostic, |diagnostic, node| diagnostic.within(node.location()))
        });
        if let Some(port) = diagnostics.keep(port) {
            state.returned.insert(port.operand.buffer);
            state.plan.outputs.push(port);
        }
    }
    diagnostics.finish()?;
    declared_bounds::check(&mut steps, &promised);
    Ok(Plan { steps, optimize, ..state.plan })
}

pub(super) struct State<'g> {
    pub(super) graph: &'g Graph,
    optimize: Optimize,
    precision: Precision,
    free_sizes: FreeSizes,
    /// The symbols that are bound when a run starts.
    start: BTreeSet<Symbol>,
    pub(super) plan: Plan,
    homes: Homes,
    /// The budget of the plan.
    budget: Budget,
    pub(super) buffers: Map<ValueId, BufferId>,
    /// The companion buffers of optionals and maps.
    companions: Map<ValueId, Operand>,
    /// The buffers of weights.
    weights: WeightTable<BufferId>,
    /// The buffers of states.
    pub(super) held: HashSet<BufferId>,
    /// The buffers of outputs.
    returned: HashSet<BufferId>,
}

impl State<'_> {
    fn input(&mut self, i: usize, id: ValueId) -> Result<Port> {
        let (name, ty) = (&self.graph[id].name, &self.graph[id].ty);
        if let Type::Unranked(_) = ty {
            let message =
                format!("the model does not say how many axes the input {} has", quoted(name));
            return Err(Diagnostic::new(Code::UnknownShape, message)
                .help(format!("say `--shape {name}=…`, such as `1,3,224,224` or `batch,8`")));
        }
        expr_limit::limit_elements(&format!("the input {}", quoted(name)), ty)?;
        let Kept { dtype, len, kind } = kept(self.graph, id)?;
        let number = self.plan.inputs.len();
        let buffer = self.buffer(name, kind, dtype, len, Place::Input(number));
        self.buffers.insert(id, buffer);
        let companion = match (ty, ty.content()) {
            (Type::Map(key, _), _) => Some((" keys", *key, self.plan.buffers[buffer].len.clone())),
            (Type::Optional(_), Type::Tensor(_)) => Some((" given", DType::Bool, 1.into())),
            (Type::Optional(_), content) if content.element().is_some() => {
                Some((" given", DType::Bool, 1.into()))
            }
            (Type::Tensor(_), _) => None,
            (ty, _) if ty.element().is_some() => None,
            _ => {
                let name = quoted(name);
                let message = format!("the input {name} is {ty}, which no operator of ONNX takes");
                return Err(Diagnostic::new(Code::Unsupported, message));
            }
        };
        if let Some((suffix, dtype, len)) = companion {
            let name = format!("{name}{suffix}");
            let place = Place::Input(number);
            let companion = self.buffer(&name, Kind::Elements, dtype, len.clone(), place);
            self.companions.insert(id, Operand::whole(companion, len));
        }
        let mut port = self.port(name, id, None)?;
        port.default = self.default(i, name);
        self.bind_at_start(&port);
        Ok(port)
    }

    /// Records the symbols that an input or a state binds when a run starts.
    pub(super) fn bind_at_start(&mut self, port: &Port) {
        self.start.extend(port.shape().iter().filter_map(Dim::as_symbol).cloned());
    }

    /// Returns the default of input `i`.
    pub(super) fn default(&mut self, i: usize, name: &str) -> Option<Operand> {
        let interface = self.graph.interface.clone();
        let tensor = interface.defaults.get(&i)?;
        Some(self.weight(&format!("{name} default"), tensor.clone().into()))
    }

    fn output(&mut self, name: &str, id: ValueId, steps: &mut Vec<Step>) -> Result<Port> {
        self.says_keys(name, id)?;
        let found = self.operand(id)?;
        // Memory of the caller or the weights, and views of it, is copied.
        let whole =
            found.start.known() == Some(0) && self.plan.buffers[found.buffer].len == found.len;
        let taken = self.returned.contains(&found.buffer);
        match self.plan.buffers[found.buffer].place {
            Place::Arena { .. } if !self.held.contains(&found.buffer) => {}
            Place::Heap if whole && !taken => {}
            _ => {
                let to = self.like(name, &found);
                steps.push(Step::Call(self.copy(name, found, to.clone())));
                return self.port(name, id, Some(to));
            }
        };
        self.port(name, id, Some(found))
    }

    /// Rejects a map whose keys are not constants, because a module stores keys as text.
    fn says_keys(&mut self, name: &str, id: ValueId) -> Result {
        let ty = &self.graph[id].ty;
        let Some(keys) = ty.key().and_then(|_| self.companion(id)) else { return Ok(()) };
        match self.plan.buffers[keys.buffer].place {
            Place::Weight { .. } => Ok(()),
            _ => {
                let name = quoted(name);
                let message =
                    format!("the output {name} is {ty}, whose keys the model does not say");
                let help = "maps are given by `ZipMap`, which says their keys";
                Err(Diagnostic::new(Code::Unsupported, message).help(help))
            }
        }
    }

    pub(super) fn port(
        &mut self,
        name: &str,
        id: ValueId,
        operand: Option<Operand>,
    ) -> Result<Port> {
        let doc = self.graph.info.value_docs.get(name).cloned().unwrap_or_default();
        let operand = operand.map_or_else(|| self.operand(id), Ok)?;
        let ty = match &self.graph[id].ty {
            // An optional that never has a value has no elements.
            Type::Optional(ty) if ty.kept().is_none() && ty.element().is_none() => {
                Type::Optional(Type::tensor(kept(self.graph, id)?.dtype, [0]).into())
            }
            ty => ty.clone(),
        };
        let (name, companion) = (name.to_owned(), self.companion(id));
        Ok(Port { name, doc, ty, operand, companion, default: None })
    }

    pub(super) fn buffer(
        &mut self,
        name: &str,
        kind: Kind,
        dtype: DType,
        len: Dim,
        place: Place,
    ) -> BufferId {
        self.plan.buffers.push(Buffer {
            name: name.to_owned(),
            kind,
            dtype,
            len,
            shape: None,
            place,
        })
    }

    /// Allocates the memory of a value.
    fn space(&mut self, name: &str, Kept { dtype, len, kind }: Kept) -> Operand {
        let is_plain = kind == Kind::Elements && dtype != DType::String;
        let place = match self.capacity(&len).filter(|_| is_plain) {
            Some(capacity) => Place::Arena { offset: 0, capacity },
            None => Place::Heap,
        };
        Operand::whole(self.buffer(name, kind, dtype, len.clone(), place), len)
    }

    /// Returns the maximum number of elements of a buffer in the arena: a number, or a size that is
    /// known when a run starts.
    fn capacity(&self, len: &Dim) -> Option<Dim> {
        if let Some(most) = self.upper(len) {
            return Some(most.max(0).into());
        }
        let mut symbols = BTreeSet::new();
        self.plan.symbols_of(len, &mut symbols);
        let is_placed = self.free_sizes == FreeSizes::Arena && symbols.is_subset(&self.start);
        is_placed.then(|| len.clone())
    }

    fn node(&mut self, id: NodeId, steps: &mut Vec<Step>) -> Result {
        let (graph, node) = (self.graph, &self.graph[id]);
        if let Some(fault) = &node.fault {
            return Err(Diagnostic::clone(fault));
        }
        let mut outputs = node.outputs.iter().flatten().peekable();
        if outputs.peek().is_some() && outputs.all(|&id| graph[id].constant.is_some()) {
            return Ok(());
        }
        steps.extend(node.checks.iter().cloned().map(Step::Check));
        if self.writes_nothing(node) {
            return Ok(());
        }
        let (first, before) = (steps.len(), self.plan.buffers.len());
        let macs = self.plan.macs;
        let mut cx = Lower::new(self, graph, node, steps);
        let lowered = node.op.lower(&mut cx);
        let results = self.results(&node.outputs, &steps[first..]);
        // The last call is the one that the others prepare.
        if let Some(Step::Call(call)) = steps[first..].last_mut() {
            call.macs = self.plan.macs - macs;
            call.results = results;
        }
        let lowered =
            lowered.and_then(|()| expr_limit::lowered(&steps[first..], &self.plan.buffers, before));
        lowered.map_err(|diagnostic| diagnostic.within(node.location()))
    }

    /// Returns whether every output of a node is a tensor of known sizes without elements. A loop
    /// over an empty tensor might take any number of iterations.
    fn writes_nothing(&self, node: &Node) -> bool {
        let is_empty = |&id: &ValueId| {
            let shape = self.graph[id].ty.as_tensor().map_or(&[][..], |ty| &ty.shape);
            let sizes: Option<Vec<i64>> = shape.iter().map(Dim::known).collect();
            sizes.is_some_and(|sizes| sizes.contains(&0))
        };
        let mut outputs = node.outputs.iter().flatten().peekable();
        outputs.peek().is_some() && outputs.all(is_empty)
    }

    /// Returns the outputs of a node that its calls in `steps` write.
    fn results(&self, outputs: &[Option<ValueId>], steps: &[Step]) -> Vec<Written> {
        let mut buffers = BTreeSet::new();
        for step in steps {
            if let Step::Call(call) = step {
                buffers.extend(call.writes().map(|operand| operand.buffer));
            }
        }
        let written = |&id: &ValueId| {
            let value = &self.graph[id];
            let (home, start) = self.homes.find(id);
            let &buffer = self.buffers.get(home).filter(|buffer| buffers.contains(buffer))?;
            let len = kept(self.graph, id).ok()?.len;
            let shape = value.ty.kept().map(|ty| ty.shape.clone()).unwrap_or_default();
            let operand = Operand { buffer, start, len };
            Some(Written { name: value.name.clone(), shape, operand })
        };
        outputs.iter().flatten().filter_map(written).collect()
    }

    /// Returns the buffer of a weight. Equal weights share a buffer.
    fn constant(&mut self, name: &str, weight: Weight) -> BufferId {
        if let Some(&found) = self.weights.find(&weight, |_| true) {
            return found;
        }
        let (dtype, len) = (weight.dtype(), weight.len().into());
        let place = Place::Weight { offset: 0, weight: weight.clone() };
        let name = name.to_owned();
        let buffer = Buffer { name, kind: Kind::Elements, dtype, len, shape: None, place };
        let id = self.plan.buffers.push(buffer);
        self.weights.insert(weight, id);
        id
    }
}

impl Lowering for State<'_> {
    fn operand(&mut self, value: ValueId) -> Result<Operand> {
        if let Some(tensor) = &self.graph[value].constant {
            return Ok(self.weight(&self.graph[value].name, tensor.clone().into()));
        }
        let len = kept(self.graph, value)?.len;
        let (home, start) = self.homes.find(value);
        if let Some(tensor) = &self.graph[home].constant {
            let buffer = self.constant(&self.graph[home].name, tensor.clone().into());
            return Ok(Operand { buffer, start, len });
        }
        if let Some(&buffer) = self.buffers.get(home) {
            return Ok(Operand { buffer, start, len });
        }
        let whole = self.space(&self.graph[home].name, kept(self.graph, home)?);
        let shape = self.graph[home].ty.kept().map(|ty| ty.shape.clone());
        self.plan.buffers[whole.buffer].shape = shape;
        self.buffers.insert(home, whole.buffer);
        Ok(Operand { buffer: whole.buffer, start, len })
    }

    fn scratch(&mut self, name: &str, dtype: DType, len: Dim) -> Operand {
        self.space(name, Kept { dtype, len, kind: Kind::Elements })
    }

    fn region(&mut self, region: RegionId) -> Result<Block> {
        let mut steps = Vec::new();
        for &id in &self.graph[region].nodes {
            if let Some(fault) = &self.graph[id].fault {
                let refusal = Some(format!("{}: {}", self.graph[id].name, fault.message));
                return Ok(Block { steps, refusal, ..Block::default() });
            }
            let within = |diagnostic: Diagnostic| diagnostic.within(self.graph.place(region));
            self.node(id, &mut steps).map_err(within)?;
        }
        let outputs = &self.graph[region].outputs;
        let results = outputs.iter().map(|&id| self.operand(id)).collect::<Result<_>>()?;
        Ok(Block { steps, results, ..Block::default() })
    }

    fn take(&self, limit: Limit, count: usize) -> bool {
        self.budget.take(limit, count)
    }

    fn upper(&self, dim: &Dim) -> Option<i64> {
        match self.free_sizes {
            FreeSizes::Arena => self.plan.bound(dim),
            FreeSizes::Heap => self.plan.upper(dim),
        }
    }

    fn computed(&mut self, name: &str, size: Rc<dyn ComputedSize>) -> Dim {
        // No dimension has a name with a space.
        let symbol: Symbol = format!("{name} {}", self.plan.computed.len()).into();
        let dim = Dim::symbol(&symbol);
        self.plan.computed.insert(symbol, size);
        dim
    }

    fn optimize(&self) -> Optimize {
        self.optimize
    }

    fn precision(&self) -> Precision {
        self.precision
    }

    fn weight(&mut self, name: &str, weight: Weight) -> Operand {
        let len = weight.len().into();
        Operand::whole(self.constant(name, weight), len)
    }

    fn companion(&mut self, value: ValueId) -> Option<Operand> {
        let (value, home) = (&self.graph[value], self.homes.find(value).0);
        if let Type::Optional(_) = &value.ty {
            let known = value.known.as_ref().and_then(|known| known.first()?.known());
            let always = !matches!(self.graph[home].ty, Type::Optional(_));
            if let Some(given) = known.or(always.then_some(1)) {
                return Some(self.weight("given", Tensor::from_bool(given != 0).into()));
            }
        }
        if let Some(companion) = self.companions.get(home) {
            return Some(companion.clone());
        }
        let (suffix, dtype, len) = match (&value.ty, value.ty.kept()) {
            (Type::Optional(_), _) => ("given", DType::Bool, 1.into()),
            (ty, Some(values)) => ("keys", ty.key()?, values.shape.last()?.clone()),
            _ => return None,
        };
        let companion = self.scratch(&format!("{} {suffix}", self.graph[home].name), dtype, len);
        self.companions.insert(home, companion.clone());
        Some(companion)
    }

    fn set_companion(&mut self, value: ValueId, operand: Operand) {
        self.companions.insert(self.homes.find(value).0, operand);
    }

    fn like(&mut self, name: &str, operand: &Operand) -> Operand {
        let Buffer { kind, dtype, .. } = self.plan.buffers[operand.buffer];
        self.space(name, Kept { dtype, len: operand.len.clone(), kind })
    }

    fn copy(&self, node: &str, from: Operand, to: Operand) -> Call {
        let Buffer { kind, dtype, .. } = self.plan.buffers[to.buffer];
        let kernel = match kind {
            Kind::Elements => &COPY,
            Kind::Sequence => &COPY_SEQUENCE,
        };
        let mut call = Call::new(node.to_owned(), kernel, dtype, NoParams);
        call.inputs.push(from.into());
        call.outputs.push(to.into());
        call
    }

    fn count(&mut self, macs: &Dim) {
        match macs.known() {
            Some(n) => {
                let macs = u64::try_from(n).unwrap_or(0);
                self.plan.macs = self.plan.macs.saturating_add(macs);
            }
            None => self.plan.free_macs.push(macs.clone()),
        }
    }

    fn draws(&mut self) -> usize {
        self.plan.draws += 1;
        self.plan.draws - 1
    }
}

/// The memory of a value.
pub(super) struct Kept {
    pub dtype: DType,
    pub len: Dim,
    pub kind: Kind,
}

pub(super) fn kept(graph: &Graph, id: ValueId) -> Result<Kept> {
    let content = graph[id].ty.content();
    if let (Some(_), Some(dtype)) = (content.element(), content.dtype()) {
        return Ok(Kept { dtype, len: 1.into(), kind: Kind::Sequence });
    }
    let (dtype, len) = match (content, content.kept()) {
        (Type::Never(dtype), _) => (*dtype, 0.into()),
        (_, Some(ty)) => (ty.dtype, ty.len()),
        (_, None) => graph.tensor_type(id).map(|ty| (ty.dtype, ty.len()))?,
    };
    Ok(Kept { dtype, len, kind: Kind::Elements })
}

#[cfg(test)]
mod tests {
    use crate::Options;

    #[test]
    fn a_diagnostic_names_its_graph() {
        let text = r#"<ir_version: 10, opset_import: ["" : 21]>
            g (float[2] x, bool c) => (y) {
                [choice] y = If<
                    then_branch = forever () => (z) {
                        [round] z = Loop<body = iteration (int64 i, bool on, v) => (bool to, w) {
                            to = Identity(on) w = Neg(v)
                        }>("", "", x)
                    },
                    else_branch = once () => (z) { z = Abs(x) }
                >(c)
            }"#;
        let planned = crate::Compiler::new(&Options::default()).plan(text.into());
        let diagnostics = planned.err().expect("a loop never ends").0;
        assert_eq!(
            diagnostics[0].at,
            ["graph `g`", "node `choice` (If)", "graph `forever`", "node `round` (Loop)"]
        );
    }
}
