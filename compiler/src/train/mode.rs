//! Training mode: `BatchNormalization` with the statistics of its input, and `Dropout` that drops.
//!
//! The model's own graph defines inference and does not change. The first such node on a path to
//! the loss and all nodes after it are copied to the step; the nodes before it are shared. Running
//! statistics become variables. If several nodes share statistics, each continues from the result
//! of the one before.

use super::{graph_builder::Draft, names, seeds::Seeds, statistic::Statistic, survey::Variable};
use crate::{
    check::GradientNames,
    diag::{Code, Diagnostic, DiagnosticSink, Diagnostics, Result, quoted},
    domain::canonical,
    dtype::DType,
    ir::Attribute,
    tensor::Tensor,
};
use onnxc_proto::{AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto};
use std::collections::{HashMap, HashSet};

/// Writes the nodes that compute a value again, in training mode; returns the new name of the
/// value, and the statistics that change.
///
/// # Errors
///
/// Returns an error for nodes that cannot be put into training mode.
pub fn write(
    draft: &mut Draft,
    (model, main): (&ModelProto, &GraphProto),
    value: &str,
    opset: i64,
    seeds: &mut Seeds,
) -> std::result::Result<(String, Vec<Statistic>), Diagnostics> {
    let mut second = Second {
        draft,
        main,
        functions: &model.functions,
        opset,
        seeds,
        renamed: HashMap::new(),
        on: None,
        statistics: Vec::new(),
        diagnostics: DiagnosticSink::default(),
    };
    let needed = names::made_of(main, &GraphProto::default(), value);
    let is_needed = |node: &&NodeProto| node.output.iter().any(|output| needed.contains(output));
    main.node.iter().filter(is_needed).for_each(|node| second.node(node));
    second.diagnostics.finish()?;
    let value = second.renamed.get(value).map_or(value, String::as_str).to_owned();
    Ok((value, second.statistics))
}

/// Checks that no variable is also a statistic.
///
/// # Errors
///
/// Returns an error for the first of these variables.
pub fn hold_apart(variables: &[Variable], statistics: &[Statistic]) -> Result {
    let is_statistic = |x: &&Variable| statistics.iter().any(|known| known.variable == x.name);
    let Some(both) = variables.iter().find(is_statistic) else { return Ok(()) };
    let message = format!(
        "{} would be trained, and is a statistic that training mode changes",
        quoted(&both.name)
    );
    let help = "give weights and statistics initializers of their own";
    Err(Diagnostic::new(Code::Untrainable, message).help(help))
}

/// The nodes that are written again.
struct Second<'a> {
    draft: &'a mut Draft,
    main: &'a GraphProto,
    functions: &'a [FunctionProto],
    opset: i64,
    seeds: &'a mut Seeds,
    /// The names of the model's values in the step.
    renamed: HashMap<String, String>,
    /// The constant that enables `Dropout`.
    on: Option<String>,
    statistics: Vec<Statistic>,
    diagnostics: DiagnosticSink,
}

impl<'a> Second<'a> {
    /// Writes a node again if it behaves differently in training, or reads a value that does.
    fn node(&mut self, node: &NodeProto) {
        let mut read = Vec::new();
        names::mentioned(node, &mut read);
        if !self.differs(node) && !read.iter().any(|name| self.renamed.contains_key(name)) {
            return;
        }
        let mut copy = node.clone();
        rename(&mut copy, &self.renamed);
        for output in copy.output.iter_mut().filter(|output| !output.is_empty()) {
            let name = self.draft.name(&format!("{output}.training"));
            self.renamed.insert(std::mem::replace(output, name.clone()), name);
        }
        copy.name = copy.output.first().cloned();
        self.switch(&mut copy, node, true);
        self.draft.push(copy);
    }

    /// Returns whether a node, or a node in its subgraphs, behaves differently in training.
    fn differs(&self, node: &NodeProto) -> bool {
        let inside = || names::graphs(node).flat_map(|graph| &graph.node);
        is_switched(node) || self.calls(node) || inside().any(|node| self.differs(node))
    }

    /// Returns whether a node calls a function that behaves differently in training.
    fn calls(&self, node: &NodeProto) -> bool {
        let mut open = vec![node];
        let mut seen = HashSet::new();
        while let Some(node) = open.pop() {
            let function = self.functions.iter().position(|function| is_call(node, function));
            let Some(function) = function.filter(|function| seen.insert(*function)) else {
                continue;
            };
            let mut bodies: Vec<&NodeProto> = self.functions[function].node.iter().collect();
            while let Some(node) = bodies.pop() {
                if is_switched(node) {
                    return true;
                }
                bodies.extend(names::graphs(node).flat_map(|graph| &graph.node));
                open.push(node);
            }
        }
        false
    }

    /// Puts a node and its subgraphs into training mode. `was` is the node in the model.
    fn switch(&mut self, node: &mut NodeProto, was: &NodeProto, is_outer: bool) {
        let switched = match was.op_type() {
            _ if self.calls(was) => Err(untrainable("a function with such nodes inside").help(
                "write the functions out before, as `onnx.inliner.inline_local_functions` does",
            )),
            _ if !is_switched(was) => Ok(()),
            "Dropout" => self.drop(node),
            _ if is_outer => self.normalize(node),
            _ => Err(untrainable(
                "`BatchNormalization` in a branch or a loop, which hands no statistics out",
            )),
        };
        let place = || format!("node {}", quoted(was.output.first().map_or("", String::as_str)));
        self.diagnostics.keep(switched.map_err(|diagnostic| diagnostic.within(place())));
        let graphs = names::graphs_mut(node).zip(names::graphs(was));
        let nodes = graphs.flat_map(|(graph, was)| graph.node.iter_mut().zip(&was.node));
        nodes.for_each(|(node, was)| self.switch(node, was, false));
    }

    /// Enables a `Dropout`.
    fn drop(&mut self, node: &mut NodeProto) -> Result {
        /// The first version with an input for the mode.
        const SINCE: i64 = 12;
        if self.opset < SINCE {
            let message = format!("`Dropout` of version {} of ONNX's operators", self.opset);
            let help = format!("convert the model to version {SINCE} or newer");
            return Err(untrainable(&message).help(help));
        }
        let draft = &mut self.draft;
        let on =
            self.on.get_or_insert_with(|| draft.constant("training_mode", Tensor::from_bool(true)));
        node.input.resize(3, String::new());
        node.input[2].clone_from(on);
        if !node.attribute.iter().any(|attribute| attribute.name() == "seed") {
            let seed = self.seeds.draw().map(|seed| ("seed", Attribute::Int(seed.into())));
            node.attribute.extend(seed.map(|(name, seed)| Draft::attribute(name, &seed)));
        }
        Ok(())
    }

    /// Makes a `BatchNormalization` use the statistics of its input, and output the running
    /// statistics.
    fn normalize(&mut self, node: &mut NodeProto) -> Result {
        /// The first version with an attribute for the mode; before, the number of outputs
        /// determined it.
        const FLAG_SINCE: i64 = 14;
        let (has_flag, name) = (self.opset >= FLAG_SINCE, node.name().to_owned());
        node.output.resize(if has_flag { 3 } else { 5 }, String::new());
        for (output, what) in
            node.output.iter_mut().zip(["y", "mean", "var", "batch_mean", "batch_var"])
        {
            if output.is_empty() {
                *output = self.draft.name(&format!("{name}.{what}"));
            }
        }
        if has_flag {
            node.attribute.retain(|attribute| attribute.name() != "training_mode");
            node.attribute.push(Draft::attribute("training_mode", &Attribute::Int(1)));
        }
        for (input, output, first) in [(3, 1, 0.0), (4, 2, 1.0)] {
            let Some(before) = node.input.get_mut(input) else { continue };
            self.follow(before, &node.output[output], first)?;
        }
        Ok(())
    }

    /// Makes a statistic a variable that receives a value. If it is one already, the node continues
    /// from that value.
    fn follow(&mut self, statistic: &mut String, next: &str, first: f64) -> Result {
        let tensor = self.initializer(statistic).ok_or_else(|| {
            let message = format!("statistics that are no initializer, as {}", quoted(statistic));
            untrainable(&message).help("export the model with them as initializers")
        })?;
        let known = self.statistics.iter_mut().find(|known| known.variable == tensor.name());
        if let Some(known) = known {
            *statistic = std::mem::replace(&mut known.next, next.to_owned());
            return Ok(());
        }
        self.statistics.push(Statistic {
            variable: tensor.name().to_owned(),
            next: next.to_owned(),
            dtype: DType::from_code(tensor.data_type()).unwrap_or(DType::F32),
            shape: tensor.dims.iter().map(|&size| size as usize).collect(),
            first,
        });
        Ok(())
    }

    /// Returns the initializer that a value is, or is a copy of.
    fn initializer(&self, value: &str) -> Option<&'a TensorProto> {
        let mut name = value;
        loop {
            if let Some(tensor) = self.main.initializer.iter().find(|tensor| tensor.name() == name)
            {
                return Some(tensor);
            }
            let is_it =
                |node: &&NodeProto| node.output.first().is_some_and(|output| output == name);
            let made = self.main.node.iter().find(is_it);
            name = made.filter(|node| node.op_type() == "Identity")?.input.first()?;
        }
    }
}

/// Returns whether a node behaves differently in training.
fn is_switched(node: &NodeProto) -> bool {
    canonical(node.domain()).is_empty()
        && matches!(node.op_type(), "BatchNormalization" | "Dropout")
}

fn is_call(node: &NodeProto, function: &FunctionProto) -> bool {
    (function.name(), function.domain(), function.overload())
        == (node.op_type(), node.domain(), node.overload())
}

fn untrainable(what: &str) -> Diagnostic {
    Diagnostic::new(Code::Untrainable, format!("training mode is not known for {what}"))
}

/// Renames the values that a node and its subgraphs read.
fn rename(node: &mut NodeProto, names: &HashMap<String, String>) {
    let to = |name: &mut String| {
        if let Some(new) = names.get(name) {
            name.clone_from(new);
        }
    };
    node.input.iter_mut().for_each(to);
    if GradientNames::of(node).is_some() {
        node.attribute.iter_mut().for_each(|attribute| rename_texts(attribute, names));
    }
    for graph in names::graphs_mut(node) {
        graph.node.iter_mut().for_each(|node| rename(node, names));
        graph.output.iter_mut().filter_map(|output| output.name.as_mut()).for_each(to);
    }
}

/// Renames the values in an attribute.
fn rename_texts(attribute: &mut AttributeProto, names: &HashMap<String, String>) {
    for text in attribute.strings.iter_mut().chain(&mut attribute.s) {
        let new = std::str::from_utf8(text).ok().and_then(|name| names.get(name));
        if let Some(new) = new {
            *text = new.clone().into_bytes().into();
        }
    }
}
