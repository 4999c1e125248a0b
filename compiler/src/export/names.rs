//! The names of a graph's values and sizes in the file: those that they have, each once.

use crate::{
    dim::Dim,
    ident::Names,
    ir::{Graph, ValueId},
    ty::{Type, any_size},
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Hands out the names of values. ONNX has one space of names for a graph and those inside it.
pub struct Labels {
    taken: Names,
    of: HashMap<ValueId, String>,
}

impl Labels {
    /// The names that callers know: those of the inputs and outputs.
    pub fn of(graph: &Graph) -> Labels {
        let mut labels = Labels { taken: Names::default(), of: HashMap::new() };
        let body = &graph[graph.body];
        for &id in &body.inputs {
            labels.value(graph, id);
        }
        labels
    }

    /// A name like `name` that no value has yet.
    pub fn unique(&mut self, name: &str) -> String {
        // An empty name says that a value is left out.
        let name = if name.is_empty() { "value" } else { name };
        self.taken.unique(name.to_owned())
    }

    /// Calls a value so, which must have no name yet.
    pub fn call(&mut self, id: ValueId, name: String) {
        self.of.insert(id, name);
    }

    /// The name of a value.
    pub fn value(&mut self, graph: &Graph, id: ValueId) -> String {
        if let Some(name) = self.of.get(&id) {
            return name.clone();
        }
        let name = self.unique(&graph[id].name);
        self.of.insert(id, name.clone());
        name
    }
}

/// What sizes are called: as the model calls them, and formulas of these.
pub struct Sizes(BTreeMap<String, String>);

impl Sizes {
    /// The names of all symbols.
    pub fn of(graph: &Graph) -> Sizes {
        let (mut taken, mut names) = (Names::default(), BTreeMap::new());
        for (symbol, size) in &graph.symbols {
            let label = if size.label.is_empty() { symbol.as_ref() } else { &size.label };
            names.insert(symbol.to_string(), taken.unique(label.to_owned()));
        }
        Sizes(names)
    }

    /// What is known of the type of an output called `name`: what was inferred, and what the model
    /// declares where that says more.
    pub fn known(&self, name: &str, inferred: &Type, declared: Option<&Type>) -> Type {
        match (inferred, declared) {
            (Type::Tensor(ty), Some(Type::Tensor(said))) if ty.rank() == said.rank() => {
                let sizes = ty.shape.iter().zip(&said.shape).enumerate();
                let size = |(axis, (size, said)): (usize, (&Dim, &Dim))| {
                    // A size that was declared without a name got this one.
                    let unnamed = self.name(said) == Some(format!("{name}_{axis}"));
                    if size.known().is_some() || unnamed { size.clone() } else { said.clone() }
                };
                Type::tensor(ty.dtype, sizes.map(size).collect::<Vec<_>>())
            }
            (Type::Unknown | Type::Unranked(_), Some(said)) => said.clone(),
            (ty, _) => ty.clone(),
        }
    }

    /// The name of a size that is no number; none where it differs from tensor to tensor.
    pub fn name(&self, dim: &Dim) -> Option<String> {
        let mut symbols = BTreeSet::new();
        dim.symbols(&mut symbols);
        let label = |symbol: &str| self.0.get(symbol).cloned().unwrap_or(symbol.to_owned());
        if let Some(symbol) = dim.as_symbol() {
            return (*dim != any_size()).then(|| label(symbol));
        }
        let mut named = dim.clone();
        // In two steps, lest the name of one is the symbol of another.
        let steps = symbols.iter().enumerate().map(|(i, symbol)| (symbol, format!("\0{i}")));
        let steps: Vec<_> = steps.collect();
        for (symbol, step) in &steps {
            named = named.substitute(symbol, &Dim::symbol(step));
        }
        let text = steps.iter().rev().fold(format!("{named:?}"), |text, (symbol, step)| {
            text.replace(step.as_str(), &label(symbol))
        });
        Some(text)
    }
}
