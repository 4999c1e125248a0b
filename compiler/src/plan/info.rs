//! The metadata of a model.

use crate::ty::Type;
use std::collections::BTreeMap;

/// The metadata of a model.
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
    /// Other metadata, as key and value.
    pub metadata: Vec<(String, String)>,
    /// The names of the outputs; the values that compute them may have other names.
    pub outputs: Vec<String>,
    /// The declared types of the outputs; unknown if undeclared.
    pub declared: Vec<Type>,
    /// The declared sizes of the outputs, where they are numbers.
    pub output_sizes: Vec<Vec<Option<i64>>>,
    /// The number of parameters: elements of the initializers that nodes read.
    pub parameters: u64,
    /// The documentation of the inputs and outputs, by name.
    pub value_docs: BTreeMap<String, String>,
}
