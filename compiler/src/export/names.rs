//! The names of a graph's values and dimensions in the file: their own names, made unique.

use crate::{
    dim::Dim,
    ident::Names,
    ir::{Graph, ValueId},
    ty::{Type, any_size},
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Assigns names to values. In ONNX, a graph and its subgraphs share one namespace.
pub struct Labels {
    taken: Names,
    of: HashMap<ValueId, String>,
}

impl Labels {
    /// Reserves the names of inputs and outputs.
    pub fn of(graph: &Graph) -> Labels {
        let mut labels = Labels { taken: Names::default(), of: HashMap::new() };
        let body = &graph[graph.body];
        for &id in &body.inputs {
            labels.value(graph, id);
        }
        labels
    }

    /// Returns an unused name like `name`.
    pub fn unique(&mut self, name: &str) -> String {
        // An empty name means an omitted value.
        let name = if name.is_empty() { "value" } else { name };
        self.taken.unique(name.to_owned())
    }

    /// Assigns a name to a value without one.
    pub fn call(&mut self, id: ValueId, name: String) {
        self.of.insert(id, name);
    }

    /// Returns the name of a value.
    pub fn value(&mut self, graph: &Graph, id: ValueId) -> String {
        if let Some(name) = self.of.get(&id) {
            return name.clone();
        }
        let name = self.unique(&graph[id].name);
        self.of.insert(id, name.clone());
        name
    }
}

/// The names of dimensions: those of the model, and expressions of them.
pub struct Sizes(BTreeMap<String, String>);

impl Sizes {
    /// Assigns the names of all symbols.
    pub fn of(graph: &Graph) -> Sizes {
        let (mut taken, mut names) = (Names::default(), BTreeMap::new());
        for (symbol, size) in &graph.symbols {
            let label = if size.label.is_empty() { symbol.as_ref() } else { &size.label };
            names.insert(symbol.to_string(), taken.unique(label.to_owned()));
        }
        Sizes(names)
    }

    /// Returns the known type of the output called `name`: the inferred type, refined by the
    /// declared one.
    pub fn known(&self, name: &str, inferred: &Type, declared: Option<&Type>) -> Type {
        match (inferred, declared) {
            (Type::Tensor(ty), Some(Type::Tensor(said))) if ty.rank() == said.rank() => {
                let sizes = ty.shape.iter().zip(&said.shape).enumerate();
                let size = |(axis, (size, said)): (usize, (&Dim, &Dim))| {
                    // A dimension that was declared without a name received this one.
                    let unnamed = self.name(said) == Some(format!("{name}_{axis}"));
                    if size.known().is_some() || unnamed { size.clone() } else { said.clone() }
                };
                Type::tensor(ty.dtype, sizes.map(size).collect::<Vec<_>>())
            }
            (Type::Unknown | Type::Unranked(_), Some(said)) => said.clone(),
            (ty, _) => ty.clone(),
        }
    }

    /// Returns the name of a symbolic dimension; `None` if it differs from tensor to tensor.
    pub fn name(&self, dim: &Dim) -> Option<String> {
        let mut symbols = BTreeSet::new();
        dim.symbols(&mut symbols);
        let label = |symbol: &str| self.0.get(symbol).cloned().unwrap_or(symbol.to_owned());
        if let Some(symbol) = dim.as_symbol() {
            return (*dim != any_size()).then(|| label(symbol));
        }
        let mut named = dim.clone();
        // In two steps, because a new name may equal another symbol.
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
