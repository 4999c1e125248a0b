//! What a model says about itself.

use crate::ty::Type;
use std::collections::BTreeMap;

/// What a model says about itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Info {
    /// The name of the graph.
    pub name: String,
    /// The version of the file format.
    pub ir_version: i64,
    /// The operator sets, by name.
    pub opsets: Vec<(String, i64)>,
    /// The program that wrote the model, and its version.
    pub producer: String,
    /// The namespace of the model.
    pub domain: String,
    /// The version of the model.
    pub version: i64,
    /// The documentation of the model and of its graph.
    pub doc: String,
    /// Anything else, as key and value.
    pub metadata: Vec<(String, String)>,
    /// The names of the outputs: the values behind them may come to have others.
    pub outputs: Vec<String>,
    /// The types that the model declares for the outputs; unknown where it does not.
    pub declared: Vec<Type>,
    /// The sizes of the outputs, as far as the model declares them as numbers.
    pub output_sizes: Vec<Vec<Option<i64>>>,
    /// The documentation of the inputs and outputs, by name.
    pub value_docs: BTreeMap<String, String>,
}
