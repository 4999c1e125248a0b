//! Names of dimensions: the model's own, and those of dimensions that it does not name.

use crate::ident;
use onnxc_proto::{
    GraphProto, TypeProto,
    tensor_shape_proto::{Dimension, dimension::Value::DimParam},
    type_proto::Value,
};
use std::collections::BTreeSet;

/// The names that exporters write for a size that they do not know, in lower case. Two dimensions
/// with one of these names may differ.
const UNKNOWN: &[&str] = &["", "?", "*", "-1", "none", "null", "unk", "unknown"];

/// Returns the name that the model gives to a dimension, if it has one.
pub fn dimension_name(dim: &Dimension) -> Option<&str> {
    match &dim.value {
        Some(DimParam(name)) if !is_unknown(name) => Some(name),
        _ => None,
    }
}

/// Returns whether a name says that a size is unknown.
pub fn is_unknown(name: &str) -> bool {
    UNKNOWN.contains(&&*name.trim().to_ascii_lowercase())
}

/// The names that a model gives to dimensions of its inputs and outputs.
#[derive(Default)]
pub struct GivenNames(BTreeSet<String>);

impl GivenNames {
    /// Collects the names in the interface of a model.
    pub fn of(graph: &GraphProto) -> GivenNames {
        let mut names = BTreeSet::new();
        let types = graph.input.iter().chain(&graph.output).filter_map(|info| info.r#type.as_ref());
        types.for_each(|ty| collect(ty, &mut names));
        GivenNames(names)
    }

    /// Returns the name of a dimension: its own, or one made of the value's name and the axis, such
    /// as `input_0`, which differs from all given names.
    pub fn label(&self, dim: &Dimension, value: &str, axis: usize) -> String {
        dimension_name(dim).map_or_else(|| self.unnamed(value, axis), str::to_owned)
    }

    /// Returns whether `name`, the name in the module of the dimension called `label`, means this
    /// dimension only.
    pub fn allow(&self, name: &str, label: &str) -> bool {
        !self.0.iter().any(|other| other != label && (other == name || ident::snake(other) == name))
    }

    /// Returns the label of the dimension that `name` means: a label, or the name in the module of
    /// one label.
    pub fn meant_by<'a>(&'a self, name: &'a str) -> &'a str {
        let mut labels = self.0.iter().filter(|label| ident::snake(label) == name);
        match (self.0.contains(name), labels.next(), labels.next()) {
            (false, Some(label), None) => label,
            _ => name,
        }
    }

    /// Returns the name of an axis that has none.
    pub fn unnamed(&self, value: &str, axis: usize) -> String {
        let mut name = format!("{value}_{axis}");
        while self.0.contains(&name) {
            name.push('_');
        }
        name
    }
}

/// Adds the names of the dimensions of a type to `names`.
fn collect(ty: &TypeProto, names: &mut BTreeSet<String>) {
    let shape = match &ty.value {
        Some(Value::TensorType(tensor)) => tensor.shape.as_ref(),
        Some(Value::SparseTensorType(tensor)) => tensor.shape.as_ref(),
        Some(Value::OptionalType(of)) => {
            return of.elem_type.iter().for_each(|ty| collect(ty, names));
        }
        // The sizes in a sequence may differ between its tensors. A map has no sizes.
        Some(Value::SequenceType(_) | Value::MapType(_) | Value::OpaqueType(_)) | None => None,
    };
    let dims = shape.iter().flat_map(|shape| &shape.dim);
    names.extend(dims.filter_map(dimension_name).map(str::to_owned));
}

#[cfg(test)]
mod tests {
    use crate::{Compiler, Options, diag::Diagnostics};

    /// Returns the types of the inputs of a model with these options of `--dim`.
    fn types(inputs: &str, dims: &[&str]) -> Result<String, Diagnostics> {
        let model = format!(
            "<ir_version: 10, opset_import: [\"\" : 21]> g ({inputs}) => (y) {{ y = Relu(x) }}"
        );
        let mut options = Options::default();
        dims.iter().try_for_each(|dim| options.dim(dim))?;
        let graph = Compiler::new(&options).import(model.into())?.graph;
        let types = graph[graph.body].inputs.iter().map(|&id| graph[id].ty.to_string());
        Ok(types.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn each_size_without_a_name_is_a_size_of_its_own() {
        for name in ["?", "", " ", "*", "-1", "None", "unknown", "UNK"] {
            let inputs = format!("float[\"{name}\", 3, \"{name}\"] x, float[\"{name}\"] z");
            let expected = Ok("float[x_0, 3, x_2] float[z_0]".to_owned());
            assert_eq!(types(&inputs, &[]), expected, "{name:?}");
            assert_eq!(types(&inputs, &["x_0=8"]), Ok("float[8, 3, x_2] float[z_0]".into()));
        }
        let named = "float[unk__7, N] x, float[unk__7] z";
        assert_eq!(types(named, &[]), Ok("float[unk_7, n] float[unk_7]".into()));
    }

    #[test]
    fn an_axis_is_not_mistaken_for_a_dimension_that_has_its_name() {
        let clash = "float[\"?\"] x, float[x_0] z";
        assert_eq!(types(clash, &[]), Ok("float[x_0] float[x_0_2]".into()));
        assert_eq!(types(clash, &["x_0_=2", "x_0=3"]), Ok("float[2] float[3]".into()));
    }

    #[test]
    fn dimensions_of_one_name_are_the_same() {
        let inputs = "float[\"?\", k] x, float[\"?\"] z";
        for (dims, expected) in [
            (&["x_0=batch", "z_0=batch"][..], "float[batch, k] float[batch]"),
            (&["x_0=batch", "z_0=batch", "batch=4"], "float[4, k] float[4]"),
            (&["x_0=z_0"], "float[z_0, k] float[z_0]"),
            (&["z_0=x_0"], "float[x_0, k] float[x_0]"),
            (&["x_0=k", "z_0=x_0"], "float[k, k] float[k]"),
            (&["x_0=a", "a=b", "b=k", "k=1..=7"], "float[k, k] float[z_0]"),
        ] {
            assert_eq!(types(inputs, dims), Ok(expected.to_owned()), "{dims:?}");
        }
    }

    #[test]
    fn a_dimension_has_its_name_in_the_module_too() {
        let inputs = "float[\"DynamicDimension.0\", \"Batch Size\"] x, float[\"?\"] Z";
        for (dims, expected) in [
            (&["dynamic_dimension_0=2", "batch_size=3", "z_0=4"][..], "float[2, 3] float[4]"),
            (&["DynamicDimension.0=2", "Batch Size=3", "Z_0=4"], "float[2, 3] float[4]"),
            (&["dynamic_dimension_0=batch_size"], "float[batch_size, batch_size] float[z_0]"),
            (&["z_0=batch_size", "batch_size=5"], "float[dynamic_dimension_0, 5] float[5]"),
        ] {
            assert_eq!(types(inputs, dims), Ok(expected.to_owned()), "{dims:?}");
        }
        // A name that could mean two dimensions means the one that has it.
        let clash = "float[Batch, batch] x";
        assert_eq!(types(clash, &["batch=3"]), Ok("float[batch, 3]".into()));
        let error = types("float[Batch, \"BATCH\"] x", &["batch=3"]);
        assert!(error.expect_err("two dimensions have it").to_string().contains("no dimension"));
    }

    #[test]
    fn a_wrong_name_is_an_error_that_lists_the_names() {
        let inputs = "float[\"?\", width] x";
        for (dims, parts) in [
            (&["?=1"][..], &["no dimension `?`", "width, x_0", "`input_0`"][..]),
            (&["widh=1"], &["no dimension `widh`", "width, x_0", "did you mean `width`?"]),
            (&["x_0=a", "a=x_0"], &["`x_0`", "`a`", "the same"]),
            (&["x_0=x_0"], &["`x_0` is set to be the same as `x_0`"]),
        ] {
            let error = types(inputs, dims).expect_err("the name is wrong").to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
    }
}
