//! Converts types between messages and [`Type`].

use super::{
    dimension_names::{self, GivenNames},
    settings::{Axis, Settings, Size, Zeros},
};
use crate::{
    diag::{Code, Diagnostic, Result, quoted},
    dim::{Dim, Known, Symbol},
    dtype::DType,
    ident::{self, Names},
    ty::{MAX_RANK, TensorType, Type, any_size},
};
use onnxc_proto::{
    TensorShapeProto, TypeProto, ValueInfoProto,
    tensor_shape_proto::{Dimension, dimension::Value as DimValue},
    type_proto::{self, Value},
};
use std::collections::{BTreeMap, BTreeSet};

/// Assigns a symbol, or the size that the user sets, to each dimension of the model.
pub struct Dimensions<'a> {
    settings: &'a Settings,
    /// The names in the interface of the model.
    given: GivenNames,
    names: Names,
    symbols: BTreeMap<String, Dim>,
    /// The label and bound of each symbol.
    pub sizes: BTreeMap<Symbol, Known>,
    used: BTreeSet<String>,
    /// The names among them that only the declared types of outputs have used.
    only_declared: BTreeSet<String>,
    /// How sizes of 0 are read.
    pub zeros: Zeros,
    /// Whether the type is that of a sequence's tensors, whose sizes may differ.
    any: bool,
}

impl<'a> Dimensions<'a> {
    /// Creates an empty mapping.
    pub fn new(settings: &'a Settings) -> Dimensions<'a> {
        Dimensions::of(settings, GivenNames::default())
    }

    /// Creates an empty mapping for a model that gives these names.
    pub fn of(settings: &'a Settings, given: GivenNames) -> Dimensions<'a> {
        Dimensions {
            settings,
            given,
            names: Names::default(),
            symbols: BTreeMap::new(),
            sizes: BTreeMap::new(),
            used: BTreeSet::new(),
            only_declared: BTreeSet::new(),
            zeros: Zeros::Empty,
            any: false,
        }
    }

    /// The size of the dimension called `label`.
    pub fn named(&mut self, label: &str) -> Dim {
        if self.any {
            return any_size();
        }
        if let Some(dim) = self.symbols.get(label) {
            return dim.clone();
        }
        let given = self.setting(label);
        if let Some((name, _)) = given {
            self.used.insert(name.clone());
        }
        let dim = match given {
            Some((_, Size::Fixed(n))) if *n >= 0 => (*n).into(),
            Some((name, Size::Same(other))) if !is_cyclic(&self.settings.dims, name) => {
                let other = self.given.meant_by(other).to_owned();
                self.named(&other)
            }
            other => {
                let name = self.names.unique(ident::snake(label));
                let max = match other {
                    Some((_, Size::Between(_, most))) => Some(*most),
                    _ => None,
                };
                let known = Known { label: label.to_owned(), max };
                self.sizes.insert(name.as_str().into(), known);
                Dim::symbol(&name)
            }
        };
        self.symbols.insert(label.to_owned(), dim.clone());
        dim
    }

    /// The size that the user sets for the dimension called `label`, with the name that the user
    /// gives to the dimension: the label, or the name in the module.
    fn setting(&self, label: &str) -> Option<(&'a String, &'a Size)> {
        let dims = &self.settings.dims;
        dims.get_key_value(label).or_else(|| {
            let name = ident::snake(label);
            dims.get_key_value(&name).filter(|_| self.given.allow(&name, label))
        })
    }

    /// The sizes of the axes that the user sets for the value called `value`.
    pub fn of_axes(&mut self, value: &str, axes: &[Axis]) -> Vec<Dim> {
        let size = |(axis, size): (usize, &Axis)| match size {
            Axis::Fixed(n) => Dim::from(*n),
            Axis::Named(name) if dimension_names::is_unknown(name) => {
                self.named(&self.given.unnamed(value, axis))
            }
            Axis::Named(name) => {
                if let Some((given, _)) = self.setting(name) {
                    let given = given.clone();
                    self.only_declared.remove(&given);
                }
                self.named(name)
            }
        };
        axes.iter().enumerate().map(size).collect()
    }

    /// Converts the declared type of an output, whose sizes the nodes of the model determine.
    pub fn of_output(&mut self, read: impl FnOnce(&mut Self) -> Result<Type>) -> Result<Type> {
        let before = self.used.clone();
        let ty = read(self);
        self.only_declared.extend(self.used.difference(&before).cloned());
        ty
    }

    /// Reports dimensions that the user sets and the model does not have, impossible sizes, and
    /// settings without effect.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        let dims = &self.settings.dims;
        let unused = dims.keys().filter(|name| !self.used.contains(*name));
        let bad = dims.iter().filter_map(|(name, size)| bad_size(name, size, dims));
        let idle = self.only_declared.iter().filter_map(|name| {
            let size = dims.get(name)?;
            let message =
                format!("`--dim {name}={size}` has no effect: only outputs have the size");
            let warning = Diagnostic::warning(Code::BadOption, message);
            Some(warning.help("the inputs determine it: set the dimensions of inputs"))
        });
        unused.map(|name| self.unknown(name)).chain(bad).chain(idle).collect()
    }

    /// The error for a dimension that the model does not have.
    fn unknown(&self, name: &str) -> Diagnostic {
        let names: Vec<&str> = self.symbols.keys().map(String::as_str).collect();
        let known = if names.is_empty() { "none".into() } else { names.join(", ") };
        let message = format!("the model has no dimension {}", quoted(name));
        let diagnostic =
            Diagnostic::new(Code::BadOption, message).note(format!("its dimensions: {known}"));
        if dimension_names::is_unknown(name) {
            let help = "a dimension without a name is named after its input and axis: `input_0`";
            return diagnostic.help(help);
        }
        match ident::nearest(name, names) {
            Some(near) => diagnostic.help(format!("did you mean {}?", quoted(near))),
            None => diagnostic,
        }
    }
}

/// Returns whether the dimension called `name` is set to be the same as itself, through any number
/// of others.
fn is_cyclic(dims: &BTreeMap<String, Size>, name: &str) -> bool {
    chain(dims, name).any(|other| other == name)
}

/// Returns the dimensions that the one called `name` is set to be the same as.
fn chain<'d>(
    dims: &'d BTreeMap<String, Size>,
    name: &str,
) -> impl Iterator<Item = &'d str> + use<'d> {
    let next = |name: &str| match dims.get(name) {
        Some(Size::Same(other)) => Some(other.as_str()),
        _ => None,
    };
    std::iter::successors(next(name), move |name| next(name)).take(dims.len())
}

/// The error for dimensions that are set to be the same in a circle, for the first of them.
fn circle(dims: &BTreeMap<String, Size>, name: &str) -> Option<Diagnostic> {
    let others: Vec<&str> = chain(dims, name).take_while(|other| *other != name).collect();
    if others.iter().any(|other| *other < name) {
        return None;
    }
    let message = match others.is_empty() {
        true => format!("{} is set to be the same as {0}", quoted(name)),
        false => {
            let all: Vec<String> = [name].iter().chain(&others).map(|name| quoted(name)).collect();
            format!("{} are set to be the same as one another in a circle", all.join(", "))
        }
    };
    let help = format!("omit one of these options, or give one a size: `--dim {name}=N`");
    Some(Diagnostic::new(Code::BadOption, message).help(help))
}

/// The error in the user's setting of the dimension called `name`, if there is one.
fn bad_size(name: &str, size: &Size, dims: &BTreeMap<String, Size>) -> Option<Diagnostic> {
    let quoted_name = quoted(name);
    let message = match size {
        Size::Fixed(n) | Size::Between(_, n) if *n < 0 => {
            format!("the size {n} of {quoted_name} is negative")
        }
        Size::Between(least, most) if most < least => {
            format!("no size of {quoted_name} is in {least}..={most}")
        }
        Size::Between(least, _) if !matches!(least, 0 | 1) => format!(
            "the bound of {quoted_name} starts at {least}: a bound starts at 0 or 1, as in 1..=32"
        ),
        Size::Same(_) if is_cyclic(dims, name) => return circle(dims, name),
        Size::Same(other) => return other.parse::<Size>().err(),
        Size::Fixed(_) | Size::Between(..) => return None,
    };
    Some(Diagnostic::new(Code::BadOption, message))
}

/// Converts a type. A dimension without a name is named after the value and the axis.
pub fn ty(proto: &TypeProto, value: &str, dims: &mut Dimensions<'_>) -> Result<Type> {
    let inner = |proto: Option<&TypeProto>, dims: &mut Dimensions<'_>| match proto {
        Some(proto) => ty(proto, value, dims).map(Box::new),
        None => Err(missing("elem_type")),
    };
    match &proto.value {
        None => Err(missing("type")),
        Some(Value::TensorType(tensor)) => {
            let dtype = dtype(tensor.elem_type())?;
            match &tensor.shape {
                None => Ok(Type::Unranked(dtype)),
                Some(proto) => Ok(TensorType { dtype, shape: shape(proto, value, dims)? }.into()),
            }
        }
        Some(Value::SparseTensorType(tensor)) => {
            let dtype = dtype(tensor.elem_type())?;
            let Some(proto) = &tensor.shape else { return Err(missing("shape")) };
            Ok(Type::Sparse(TensorType { dtype, shape: shape(proto, value, dims)? }))
        }
        Some(Value::SequenceType(of)) => {
            let outside = std::mem::replace(&mut dims.any, true);
            let element = inner(of.elem_type.as_deref(), dims);
            dims.any = outside;
            match *element? {
                element if element.is_tensor() || matches!(element, Type::Map(..)) => {
                    Ok(Type::Sequence(element.into()))
                }
                other => Err(unheard_of("a sequence", &other)),
            }
        }
        Some(Value::OptionalType(of)) => match *inner(of.elem_type.as_deref(), dims)? {
            content if content.is_tensor() || content.element().is_some() => {
                Ok(Type::Optional(content.into()))
            }
            other => Err(unheard_of("an optional", &other)),
        },
        Some(Value::MapType(map)) => {
            let values = match &map.value_type {
                Some(values) => ty(values, value, dims)?,
                None => return Err(missing("value_type")),
            };
            let is_one = |size: &Dim| size.known().is_none_or(|size| size == 1);
            let values = match &values {
                Type::Unranked(dtype) => *dtype,
                Type::Tensor(ty) if ty.rank() < 2 && ty.shape.iter().all(is_one) => ty.dtype,
                other => return Err(unheard_of("a map", other)),
            };
            let len = dims.named(&format!("{value}_len"));
            Ok(Type::Map(dtype(map.key_type())?, Type::tensor(values, [len]).into()))
        }
        Some(Value::OpaqueType(opaque)) => {
            let name = quoted(&format!("{}.{}", opaque.domain(), opaque.name()));
            Err(Diagnostic::new(
                Code::Unsupported,
                format!("the opaque type {name} has no meaning in ONNX"),
            ))
        }
    }
}

/// The sizes that the file declares as numbers, per axis. Empty for other values than tensors.
pub fn declared_sizes(value: &ValueInfoProto) -> Vec<Option<i64>> {
    let ty = value.r#type.as_ref().and_then(|ty| ty.value.as_ref());
    let Some(Value::TensorType(ty)) = ty else { return Vec::new() };
    let dims = ty.shape.iter().flat_map(|shape| &shape.dim);
    // Some exporters write 0 for an unknown size.
    dims.map(|dim| number(dim).filter(|&n| n > 0)).collect()
}

/// The number of a dimension, which may be negative and thus no size. `None` if it is unknown, for
/// which some exporters write -1.
pub fn number(dim: &Dimension) -> Option<i64> {
    match dim.value {
        Some(DimValue::DimValue(-1) | DimValue::DimParam(_)) | None => None,
        Some(DimValue::DimValue(n)) => Some(n),
    }
}

/// The element type with this code.
pub fn dtype(code: i32) -> Result<DType> {
    DType::from_code(code).ok_or_else(|| match code {
        0 => missing("elem_type"),
        _ => Diagnostic::new(Code::BadField, format!("{code} is not an element type of ONNX")),
    })
}

fn shape(proto: &TensorShapeProto, value: &str, dims: &mut Dimensions<'_>) -> Result<Vec<Dim>> {
    if proto.dim.len() > MAX_RANK {
        let (name, axes) = (quoted(value), proto.dim.len());
        let message = format!("{name} has {axes} axes; onnxc takes up to {MAX_RANK}");
        return Err(Diagnostic::new(Code::TooLarge, message));
    }
    let mut shape = Vec::new();
    for (axis, dim) in proto.dim.iter().enumerate() {
        let size = number(dim).filter(|&size| size != 0 || dims.zeros == Zeros::Empty);
        shape.push(match size {
            Some(n) if n >= 0 => Dim::from(n),
            Some(n) => {
                let message = format!("axis {axis} of {} has the size {n}", quoted(value));
                return Err(Diagnostic::new(Code::BadField, message));
            }
            None => dims.named(&dims.given.label(dim, value, axis)),
        });
    }
    Ok(shape)
}

/// Converts a type to a message, or returns `None` if nothing is known of it. `label` names a size
/// that is not a number.
pub fn proto(ty: &Type, label: &dyn Fn(&Dim) -> Option<String>) -> Option<TypeProto> {
    let elem_type = |dtype: DType| Some(dtype.code());
    let sizes = |shape: &[Dim]| {
        let value = |dim: &Dim| match dim.known() {
            Some(n) => Some(DimValue::DimValue(n)),
            None => label(dim).map(DimValue::DimParam),
        };
        let dim = |dim: &Dim| Dimension { value: value(dim), denotation: None };
        Some(TensorShapeProto { dim: shape.iter().map(dim).collect() })
    };
    let tensor =
        |dtype, shape| Value::TensorType(type_proto::Tensor { elem_type: elem_type(dtype), shape });
    let inner = |ty: &Type| proto(ty, label).map(Box::new);
    let value = match ty {
        Type::Tensor(ty) => tensor(ty.dtype, sizes(&ty.shape)),
        Type::Unranked(dtype) | Type::Never(dtype) => tensor(*dtype, None),
        Type::Sparse(ty) => Value::SparseTensorType(type_proto::SparseTensor {
            elem_type: elem_type(ty.dtype),
            shape: sizes(&ty.shape),
        }),
        Type::Sequence(ty) => {
            Value::SequenceType(type_proto::Sequence { elem_type: Some(inner(ty)?) })
        }
        Type::Optional(ty) => {
            Value::OptionalType(type_proto::Optional { elem_type: Some(inner(ty)?) })
        }
        // The shape of a map's values is that of all values together.
        Type::Map(key, values) => Value::MapType(type_proto::Map {
            key_type: elem_type(*key),
            value_type: Some(inner(&Type::Unranked(values.dtype()?))?),
        }),
        Type::Unknown => return None,
    };
    Some(TypeProto { value: Some(value), denotation: None })
}

/// The error for a container that no operator of ONNX reads or returns.
fn unheard_of(container: &str, content: &Type) -> Diagnostic {
    let message =
        format!("{container} of {content} is not supported: no operator of ONNX has such");
    Diagnostic::new(Code::Unsupported, message).note(
        "sequences are of tensors, or of maps; optionals of tensors, or of sequences of such; maps \
         of one element for each key",
    )
}

fn missing(field: &str) -> Diagnostic {
    Diagnostic::new(Code::MissingField, format!("the field `{field}` is missing"))
}

#[cfg(test)]
mod tests {
    use crate::{Compiler, Options, import, tensor::Tensor, value::Value};
    use std::collections::BTreeMap;

    /// A model whose input and output have these first axes.
    fn model(input: &str, output: &str) -> String {
        format!(
            "<ir_version: 10, opset_import: [\"\" : 21]>
            g (float[{input}, 3] x) => (float[{output}, 3] y) {{ y = Relu(x) }}"
        )
    }

    /// The generated code of a model with some dimensions fixed, without the model's hash, or the
    /// diagnostics.
    fn module(model: String, dims: &[&str]) -> Result<String, String> {
        let mut options = Options::default();
        let fixed = dims.iter().map(|&name| (name.to_owned(), import::Size::Fixed(2)));
        options.settings.dims.extend(fixed);
        let compiled = Compiler::new(&options).compile_bytes(model.into(), "g");
        let code = compiled.map_err(|diagnostics| diagnostics.to_string())?.module.code;
        // Models with different text have different hashes.
        Ok(code.lines().filter(|line| !line.contains("SHA-256")).collect())
    }

    #[test]
    fn a_size_of_minus_one_is_not_known() {
        for dims in [&[][..], &["x_0"]] {
            let [said, silent] = ["-1", "?"].map(|size| module(model(size, size), dims));
            assert!(said.is_ok() && said == silent, "{said:?}");
        }
        assert_eq!(module(model("2", "-1"), &[]), module(model("2", "?"), &[]));
        let refused = module(model("-2", "?"), &[]).expect_err("no size is known so");
        assert!(refused.contains("E0127") && refused.contains("input `x`"), "{refused}");
    }

    #[test]
    fn inputs_determine_unknown_sizes() {
        let x = Tensor { shape: vec![2, 3], ..Tensor::from_floats(&[0.0; 6]) };
        let inputs = BTreeMap::from([("x".to_owned(), Value::Tensor(x))]);
        for size in ["-1", "?"] {
            let model = import::decode(model(size, "?").into()).expect("the text is a model");
            let graph = model.graph.expect("the model has a graph");
            let settled = import::free_sizes(&graph, &inputs, &BTreeMap::new());
            assert_eq!(settled, [("x_0".to_owned(), import::Size::Fixed(2))]);
        }
    }
}
