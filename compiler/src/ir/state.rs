//! Lowers states, which one run passes to the next.

use super::{
    Graph, Held, ValueId,
    lower::Lowering,
    lowering::{State, kept},
};
use crate::{
    diag::{Code, Diagnostic, Result, quoted},
    dim::{Dim, Symbol},
    dtype::DType,
    plan::{self, Check, Condition, Operand, Place, Port, Rule, Step},
    ty::TensorType,
};
use std::collections::BTreeSet;

impl State<'_> {
    /// Returns the port of a state at the start of a run, in memory of its own.
    pub(super) fn found(&mut self, held: Held) -> Result<Port> {
        let (input, _) = ends(self.graph, held);
        let at = |diagnostic: Diagnostic| diagnostic.within(place(self.graph, input));
        let [found, next] = types(self.graph, held).map_err(at)?;
        // A variable keeps its size; another size is an error.
        let is_variable = self.graph.interface.learns;
        let sizes = if is_variable { vec![found] } else { vec![found, next] };
        let capacity = self.bound(&sizes).map_err(at)?;
        let name = &self.graph[input].name;
        let capacity = Dim::from(capacity);
        let place = Place::Arena { offset: 0, capacity };
        let kept = kept(self.graph, input)?;
        let buffer = self.buffer(name, kept.kind, kept.dtype, kept.len, place);
        self.buffers.insert(input, buffer);
        self.held.insert(buffer);
        let mut port = self.port(name, input, None)?;
        port.default = self.default(held.input, name);
        self.bind_at_start(&port);
        Ok(port)
    }

    /// Returns the upper bound of a state's number of elements, which has these types.
    fn bound(&self, types: &[&TensorType]) -> Result<usize> {
        let most = |ty: &TensorType| usize::try_from(self.upper(&ty.len())?).ok();
        let unbounded: Vec<&TensorType> =
            types.iter().copied().filter(|ty| most(ty).is_none()).collect();
        let Some(first) = unbounded.first() else {
            return Ok(types.iter().copied().filter_map(most).max().unwrap_or(0));
        };
        let message = format!("a state has memory of its own, but {first} has no bound");
        Err(Diagnostic::new(Code::NeedsHeap, message).help(self.bounding(&unbounded)))
    }

    /// Returns the options that would bound the sizes of types.
    fn bounding(&self, types: &[&TensorType]) -> String {
        let mut symbols = BTreeSet::new();
        types.iter().for_each(|ty| ty.len().symbols(&mut symbols));
        let is_open = |symbol: &&Symbol| self.upper(&Dim::symbol(symbol)).is_none();
        let inputs = self.graph[self.graph.body].inputs.iter();
        let given: Vec<&Dim> = inputs
            .filter_map(|&input| self.graph[input].ty.as_tensor())
            .flat_map(|ty| &ty.shape)
            .collect();
        let open: Vec<&Symbol> = symbols.iter().filter(is_open).collect();
        if open.is_empty() || open.iter().any(|symbol| !given.contains(&&Dim::symbol(symbol))) {
            return "only running tells the size: declare that of the output in the model".into();
        }
        let option = |symbol: &&Symbol| {
            let label = self.plan.symbols.get(*symbol).map_or("NAME", |size| &size.label);
            format!("`--dim {label}=N` or `--dim {label}=1..=N`")
        };
        let options: Vec<String> = open.iter().map(option).collect();
        format!("set {}", options.join(", and "))
    }

    /// Returns the port of a state at the end of a run, and adds what passes it to the next run.
    pub(super) fn next(
        &mut self,
        held: Held,
        found: Port,
        steps: &mut Vec<Step>,
    ) -> Result<plan::State> {
        let (input, output) = ends(self.graph, held);
        let Some(output) = output else {
            return Ok(plan::State { next: found.clone(), found, copy: None });
        };
        let name = name(self.graph, held).to_owned();
        let [old, new] = types(self.graph, held)?;
        for (old, new) in old.shape.iter().zip(&new.shape) {
            if old != new && old.as_symbol().is_none() {
                let condition = Condition::Equal(new.clone(), old.clone());
                let state = place(self.graph, input);
                let rule = Rule::Value(format!("the sizes of the {state} after and before a run"));
                steps.push(Step::Check(Check { node: name.clone(), rule, condition }));
            }
        }
        let mut operand = self.operand(output)?;
        let home = operand.buffer == found.operand.buffer && operand.start.known() == Some(0);
        if !home && self.held.contains(&operand.buffer) {
            // Another state may be written first.
            let to = self.like(&name, &operand);
            steps.push(Step::Call(self.copy(&name, operand, to.clone())));
            operand = to;
        }
        let to = Operand::whole(found.operand.buffer, operand.len.clone());
        let node = match self.graph.interface.learns {
            true => format!("{}: becomes {name}", found.name),
            false => format!("{name}: kept for the next run"),
        };
        let copy = Some(self.copy(&node, operand.clone(), to));
        Ok(plan::State { found, next: self.port(&name, output, Some(operand))?, copy })
    }
}

fn ends(graph: &Graph, held: Held) -> (ValueId, Option<ValueId>) {
    let body = &graph[graph.body];
    (body.inputs[held.input], held.output.map(|output| body.outputs[output]))
}

/// Returns the model's name of the next state; the value may have another name.
fn name(graph: &Graph, held: Held) -> &str {
    let (input, output) = ends(graph, held);
    let given = held.output.and_then(|number| graph.info.outputs.get(number));
    given.unwrap_or(&graph[output.unwrap_or(input)].name)
}

fn place(graph: &Graph, input: ValueId) -> String {
    format!("state {}", quoted(&graph[input].name))
}

/// Returns the types of both ends of a state, which must be compatible.
fn types(graph: &Graph, held: Held) -> Result<[&TensorType; 2]> {
    let (input, output) = ends(graph, held);
    let [found, next] = [&graph[input], &graph[output.unwrap_or(input)]];
    let refused = |why: &str| {
        let (a, b) = (quoted(&found.name), quoted(name(graph, held)));
        let message = format!("{a} is {}, and {b}, which it becomes, {}: {why}", found.ty, next.ty);
        Err(Diagnostic::new(Code::TypeMismatch, message))
    };
    let (Some(a), Some(b)) = (found.ty.as_tensor(), next.ty.as_tensor()) else {
        return refused("a state must be a tensor");
    };
    let differ = |(a, b): (&Dim, &Dim)| a.known().is_some() && b.known().is_some() && a != b;
    if a.dtype == DType::String {
        return refused("a state cannot hold strings");
    }
    if a.dtype != b.dtype || a.rank() != b.rank() || a.shape.iter().zip(&b.shape).any(differ) {
        return refused("the next run could not take it");
    }
    Ok([a, b])
}
