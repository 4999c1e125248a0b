//! Encoders of categories: `CategoryMapper`, `LabelEncoder` and `OneHotEncoder`.

use super::lookup::{self, Keep, OneHot};
use crate::{
    diag::{Code, Diagnostic, Result, counted, there_are},
    dtype::DType,
    ir::{Reader, ValueId},
    ops::{Entry, ml_nodes},
    tensor::Tensor,
};

pub const OPS: &[Entry] = &[
    ml_nodes("CategoryMapper", 1, category_mapper),
    ml_nodes("LabelEncoder", 1, label_encoder_1),
    ml_nodes("LabelEncoder", 2, |node| label_encoder(node, false)),
    // Since version 4, NaN is a key that equals NaN.
    ml_nodes("LabelEncoder", 4, |node| label_encoder(node, true)),
    ml_nodes("OneHotEncoder", 1, one_hot_encoder),
];

/// Reads `CategoryMapper`: maps strings to integers or integers to strings, by two lists of equal
/// length.
fn category_mapper(node: &mut Reader<'_>) -> Result<Vec<ValueId>> {
    let strings = Tensor::from_strings(node.maybe_strings("cats_strings")?.unwrap_or_default());
    let ints = Tensor::from_ints(&node.maybe_ints("cats_int64s")?.unwrap_or_default());
    let default_string = node.string("default_string", "_Unused")?;
    let default_int = node.int("default_int64", -1)?;
    if node.dtype(0)? == DType::String {
        encode(node, &strings, Keep::Last, &ints, Tensor::from_ints(&[default_int]))
    } else {
        encode(node, &ints, Keep::Last, &strings, Tensor::from_strings(vec![default_string]))
    }
}

/// Reads version 1 of `LabelEncoder`: maps strings to their indices in `classes_strings`, or
/// indices to strings.
fn label_encoder_1(node: &mut Reader<'_>) -> Result<Vec<ValueId>> {
    let classes = node.maybe_strings("classes_strings")?.unwrap_or_default();
    let default_string = node.string("default_string", "_Unused")?;
    let default_int = node.int("default_int64", -1)?;
    let numbers: Vec<i64> = (0i64..).take(classes.len()).collect();
    let (classes, numbers) = (Tensor::from_strings(classes), Tensor::from_ints(&numbers));
    if node.dtype(0)? == DType::String {
        encode(node, &classes, Keep::Last, &numbers, Tensor::from_ints(&[default_int]))
    } else {
        encode(node, &numbers, Keep::Last, &classes, Tensor::from_strings(vec![default_string]))
    }
}

fn label_encoder(node: &mut Reader<'_>, with_nan: bool) -> Result<Vec<ValueId>> {
    let defaults = [
        Tensor::from_floats(&[node.float("default_float", -0.0)?]),
        Tensor::from_ints(&[node.int("default_int64", -1)?]),
        Tensor::from_strings(vec![node.string("default_string", "_Unused")?]),
    ];
    let default_tensor = node.maybe_tensor("default_tensor")?;
    let mut keys = read_list(node, "keys")?;
    let mut values = read_list(node, "values")?;
    let default = match default_tensor.or_else(|| default_of_type(defaults, values.dtype)) {
        Some(default) => default,
        None => default_number(values.dtype),
    };
    if default.dtype != values.dtype || default.len() != 1 {
        let message = format!("`default_tensor` must be one element of type {}", values.dtype);
        return Err(bad_attribute(message));
    }
    if keys.len() != values.len() {
        let (keys, values) = (there_are(keys.len(), "key"), counted(values.len(), "value"));
        return Err(bad_attribute(format!("{keys}, but {values}")));
    }
    if !with_nan && let Some(floats) = keys.floats() {
        let numbers: Vec<usize> = (0..keys.len()).filter(|&i| !floats[i].is_nan()).collect();
        (keys, values) = (keys.take(&numbers), values.take(&numbers));
    }
    encode(node, &keys, Keep::First, &values, Tensor { shape: vec![1], ..default })
}

/// Reads the keys or the values of versions 2 and 4 from one of four attributes.
fn read_list(node: &mut Reader<'_>, what: &str) -> Result<Tensor> {
    let lists = [
        node.maybe_tensor(&format!("{what}_tensor"))?,
        node.maybe_floats(&format!("{what}_floats"))?.map(|values| Tensor::from_floats(&values)),
        node.maybe_ints(&format!("{what}_int64s"))?.map(|values| Tensor::from_ints(&values)),
        node.maybe_strings(&format!("{what}_strings"))?.map(Tensor::from_strings),
    ];
    // Exporters write empty lists for the attributes that they do not use.
    let mut lists = lists.into_iter().flatten().filter(|list| !list.is_empty());
    match (lists.next(), lists.next()) {
        (Some(list), None) => Ok(Tensor { shape: vec![list.len()], ..list }),
        _ => Err(bad_attribute(format!("exactly one `{what}_…` attribute must be set"))),
    }
}

fn default_of_type(defaults: [Tensor; 3], dtype: DType) -> Option<Tensor> {
    defaults.into_iter().find(|default| default.dtype == dtype)
}

/// The default of the types that have no `default_…` attribute: -1 for integers, else -0.
fn default_number(dtype: DType) -> Tensor {
    if dtype == DType::F64 {
        return Tensor::from_wide(dtype, &[-0.0]);
    }
    // All bits of -1 are set.
    let data = crate::tensor::Data::Bytes(vec![0xff; dtype.bytes()].into());
    Tensor { dtype, shape: vec![1], data }
}

/// Reads `OneHotEncoder`: a 1 in the column of each element's category.
fn one_hot_encoder(node: &mut Reader<'_>) -> Result<Vec<ValueId>> {
    let ints = Tensor::from_ints(&node.maybe_ints("cats_int64s")?.unwrap_or_default());
    let strings = Tensor::from_strings(node.maybe_strings("cats_strings")?.unwrap_or_default());
    let zeros = node.flag("zeros", true)?;
    let dtype = node.dtype(0)?;
    let (x, categories) = match dtype {
        DType::String => (node.input(0)?, strings),
        _ => (super::input_as(node, DType::I64)?, ints),
    };
    let order = lookup::sort_unique(&categories, Keep::Last);
    let found = lookup::find(node, x, &categories.take(&order))?;
    let columns: Vec<i64> = order.iter().map(|&column| column as i64).collect();
    let width = categories.len();
    Ok(vec![node.add(OneHot { width, zeros }, &[found], &[Tensor::from_ints(&columns)])?])
}

/// Adds the nodes that map each element of the input, a key, to its value, or to the default. Of
/// equal keys, `keep` counts, as in ONNX Runtime.
fn encode(
    node: &mut Reader<'_>,
    keys: &Tensor,
    keep: Keep,
    values: &Tensor,
    default: Tensor,
) -> Result<Vec<ValueId>> {
    let dtype = node.dtype(0)?;
    if dtype != keys.dtype {
        let message = format!("the keys are {}, but the input is {dtype}", keys.dtype);
        return Err(Diagnostic::new(Code::TypeMismatch, message));
    }
    if keys.len() > values.len() {
        return Err(bad_attribute("there are fewer values than keys".into()));
    }
    let order = lookup::sort_unique(keys, keep);
    let x = node.input(0)?;
    let found = lookup::find(node, x, &keys.take(&order))?;
    let table = values.take(&order).join(&default);
    Ok(vec![lookup::pick(node, found, table)?])
}

fn bad_attribute(message: String) -> Diagnostic {
    Diagnostic::new(Code::BadAttribute, message)
}

#[cfg(test)]
mod tests {
    use crate::{Compiler, Options, interpreter, tensor::Tensor};

    /// Returns the numbers that a node computes for strings.
    fn encoded(version: u32, node: &str, words: &[&str]) -> Vec<f64> {
        let model = format!(
            r#"<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : {version}]>
            g (string[n] x) => (y) {{ y = ai.onnx.ml.{node} (x) }}"#
        );
        let plan = Compiler::new(&Options::default()).plan(model.into());
        let plan = plan.expect("the model is valid");
        let x = Tensor::from_strings(words.iter().map(ToString::to_string).collect());
        let mut y = interpreter::run(&plan, &[x.into()]).expect("the input fits the model");
        let y = y.remove(0);
        let y = y.tensor().and_then(|y| y.floats().or_else(|| y.ints().map(of_ints)));
        y.expect("the output has numbers")
    }

    fn of_ints(ints: Vec<i64>) -> Vec<f64> {
        ints.into_iter().map(|int| int as f64).collect()
    }

    #[test]
    fn the_last_of_equal_keys_counts_up_to_version_1() {
        let words = ["a", "b", "c"];
        let node = r#"CategoryMapper <cats_strings = ["a", "b", "a"], cats_int64s = [5, 6, 7]>"#;
        assert_eq!(encoded(1, node, &words), [7.0, 6.0, -1.0]);
        let node = r#"LabelEncoder <classes_strings = ["a", "b", "a"]>"#;
        assert_eq!(encoded(1, node, &words), [2.0, 1.0, -1.0]);
        let node = r#"LabelEncoder <keys_strings = ["a", "b", "a"], values_int64s = [5, 6, 7]>"#;
        assert_eq!(encoded(4, node, &words), [5.0, 6.0, -1.0]);
    }

    #[test]
    fn an_unknown_key_is_minus_1_in_every_type_of_integers() {
        for (ty, expected) in [("int16", -1.0), ("int32", -1.0), ("double", 0.0)] {
            let node =
                format!(r#"LabelEncoder <keys_strings = ["a"], values_tensor = {ty}[1] {{5}}>"#);
            assert_eq!(encoded(4, &node, &["a", "b"]), [5.0, expected], "{ty}");
        }
    }
}
