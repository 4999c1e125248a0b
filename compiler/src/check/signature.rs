//! The signatures of all versions of ONNX's operators, and of those that ONNX Runtime adds: inputs,
//! outputs, attributes and types.

use super::attribute_types::kind_of;
use crate::ident;
use onnxc_proto::attribute_proto::AttributeType;
use std::{collections::BTreeMap, sync::LazyLock};

/// A signature of an operator, valid for one version or several.
#[derive(Debug)]
pub struct Signature {
    /// The versions of the operator set that changed the operator, in order.
    pub since: Vec<i64>,
    /// The parameters; `None` if the operator was removed.
    pub form: Option<Form>,
}

/// The parameters of an operator.
#[derive(Debug, Default)]
pub struct Form {
    /// The inputs.
    pub inputs: Vec<Parameter>,
    /// The outputs.
    pub outputs: Vec<Parameter>,
    /// The attributes.
    pub attributes: Vec<Attribute>,
    /// The type constraints.
    pub constraints: Vec<Constraint>,
}

/// A type variable.
#[derive(Clone, Debug)]
pub struct Constraint {
    /// The name in the specification.
    pub name: &'static str,
    /// The allowed types, in ONNX's textual syntax.
    pub types: Vec<&'static str>,
}

/// An input or output parameter.
#[derive(Debug)]
pub struct Parameter {
    /// The name in the specification.
    pub name: &'static str,
    /// The type: the name of a constraint, or a type in ONNX's textual syntax.
    pub ty: &'static str,
    /// The number of arguments.
    pub times: Times,
    /// Whether variadic arguments may differ in type.
    pub is_mixed: bool,
}

/// The number of arguments of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// One.
    Once,
    /// One or none.
    Optional,
    /// At least this many; only of the last parameter.
    AtLeast(usize),
}

/// An attribute.
#[derive(Debug)]
pub struct Attribute {
    /// The name.
    pub name: &'static str,
    /// The type.
    pub kind: AttributeType,
    /// Whether it is required.
    pub is_required: bool,
}

/// The versions of each operator, by domain and name.
type Operators = BTreeMap<&'static str, BTreeMap<&'static str, Vec<Signature>>>;

static OPERATORS: LazyLock<Operators> = LazyLock::new(|| {
    let mut operators = Operators::new();
    read(include_str!("operators.txt"), &mut operators);
    read(include_str!("microsoft.txt"), &mut operators);
    operators
});

/// Returns every version of every operator, by domain (`ai.onnx` is the empty string) and name;
/// `None` where the operator was removed.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str, i64, Option<&'static Form>)> {
    let operators = OPERATORS.iter().flat_map(|(&domain, names)| {
        names.iter().map(move |(&name, signatures)| (domain, name, signatures))
    });
    operators.flat_map(|(domain, name, signatures)| {
        let mut versions: Vec<_> = signatures
            .iter()
            .flat_map(|one| {
                one.since.iter().map(move |&since| (domain, name, since, one.form.as_ref()))
            })
            .collect();
        versions.sort_by_key(|(_, _, since, _)| *since);
        versions
    })
}

/// Returns whether the operators of a domain are specified; `ai.onnx` is the empty string.
pub fn is_known(domain: &str) -> bool {
    OPERATORS.contains_key(domain)
}

/// Returns whether an operator is one of the first operator sets that was never specified. Old
/// files use them.
pub fn is_experiment(domain: &str, name: &str) -> bool {
    const NAMES: &[&str] = &["ATen", "ConstantFill"];
    domain.is_empty() && NAMES.contains(&name)
}

/// Returns the signature of an operator in a version of its operator set, and the version that
/// introduced it.
pub fn find(domain: &str, name: &str, version: i64) -> Option<(i64, &'static Signature)> {
    let since = |signature: &'static Signature| {
        let since = signature.since.iter().copied().filter(|&since| since <= version).max()?;
        Some((since, signature))
    };
    signatures(domain, name).iter().filter_map(since).max_by_key(|(since, _)| *since)
}

/// Returns the first version of the operator set that has an operator.
pub fn first_version(domain: &str, name: &str) -> Option<i64> {
    versions(domain, name).map(|(since, _)| since).min()
}

/// Returns the domain that has an operator of this name.
pub fn domain_of(name: &str) -> Option<&'static str> {
    OPERATORS.iter().find(|(_, names)| names.contains_key(name)).map(|(domain, _)| *domain)
}

/// Returns the operator of a domain with the most similar name.
pub fn nearest(domain: &str, name: &str) -> Option<&'static str> {
    ident::nearest(name, OPERATORS.get(domain)?.keys().copied())
}

/// Returns the versions that changed an operator, with the forms that they gave it; `None` where it
/// was removed.
pub fn versions(
    domain: &str,
    name: &str,
) -> impl Iterator<Item = (i64, Option<&'static Form>)> + use<> {
    let each = signatures(domain, name).iter();
    each.flat_map(|one| one.since.iter().map(|&since| (since, one.form.as_ref())))
}

fn signatures(domain: &str, name: &str) -> &'static [Signature] {
    let found = OPERATORS.get(domain).and_then(|names| names.get(name));
    found.map_or(&[], Vec::as_slice)
}

/// Adds the operators of a table.
fn read(text: &'static str, operators: &mut Operators) {
    let mut domain = "";
    let mut sets: Vec<Vec<&str>> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some((_, types)) = line.split_once(" = ") {
            sets.push(types.split(' ').collect());
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            let name = name.trim_end_matches(']');
            domain = if name == "ai.onnx" { "" } else { name };
            continue;
        }
        let (name, signature) =
            self::line(line, &sets).expect("the table was written by a program");
        let names = operators.entry(domain).or_default();
        names.entry(name).or_default().push(signature);
    }
}

/// The type sets of constraints, by index.
type Sets = [Vec<&'static str>];

/// Parses a line of the table: `Name 1,7: x:T to:int64? -> y:T... | attribute:int required:ints!
/// T=3`.
fn line(line: &'static str, sets: &Sets) -> Option<(&'static str, Signature)> {
    let (head, form) = line.split_once(": ")?;
    let (name, since) = head.split_once(' ')?;
    let since = since.split(',').map(|version| version.parse().ok()).collect::<Option<_>>()?;
    let form = if form == "removed" { None } else { Some(self::form(form, sets)?) };
    Some((name, Signature { since, form }))
}

fn form(text: &'static str, sets: &Sets) -> Option<Form> {
    let (parameters, rest) = text.split_once(" | ").unwrap_or((text, ""));
    let (inputs, outputs) = parameters.split_once("->")?;
    let list =
        |text: &'static str| text.split_whitespace().map(parameter).collect::<Option<Vec<_>>>();
    let (constraints, attributes): (Vec<_>, Vec<_>) =
        rest.split_whitespace().partition(|word| word.contains('='));
    let constraint = |word: &'static str| {
        let (name, set) = word.split_once('=')?;
        Some(Constraint { name, types: sets.get(set.parse::<usize>().ok()?)?.clone() })
    };
    Some(Form {
        inputs: list(inputs)?,
        outputs: list(outputs)?,
        attributes: attributes.into_iter().map(attribute).collect::<Option<_>>()?,
        constraints: constraints.into_iter().map(constraint).collect::<Option<_>>()?,
    })
}

fn parameter(text: &'static str) -> Option<Parameter> {
    let (name, text) = text.split_once(':')?;
    let (text, is_mixed) = text.strip_suffix('~').map_or((text, false), |text| (text, true));
    let ends = [("...0", Times::AtLeast(0)), ("...", Times::AtLeast(1)), ("?", Times::Optional)];
    let found = ends.iter().find_map(|(end, times)| Some((text.strip_suffix(end)?, *times)));
    let (ty, times) = found.unwrap_or((text, Times::Once));
    Some(Parameter { name, ty, times, is_mixed })
}

fn attribute(text: &'static str) -> Option<Attribute> {
    let (name, kind) = text.split_once(':')?;
    let (kind, is_required) = kind.strip_suffix('!').map_or((kind, false), |kind| (kind, true));
    Some(Attribute { name, kind: kind_of(kind)?, is_required })
}

impl Form {
    /// Returns the constraint on the type of a parameter; `None` if it has one type only.
    pub fn constraint(&self, parameter: &Parameter) -> Option<&Constraint> {
        self.constraints.iter().find(|one| one.name == parameter.ty)
    }

    /// Returns the allowed types of a parameter.
    pub fn types<'f>(&'f self, parameter: &'f Parameter) -> &'f [&'static str] {
        let constraint = self.constraint(parameter);
        constraint.map_or(std::slice::from_ref(&parameter.ty), |one| &one.types)
    }
}

impl Signature {
    /// Formats the signature in one line, for messages.
    pub fn text(&self, name: &str) -> String {
        let Some(form) = &self.form else { return format!("{name} was removed") };
        let list = |parameters: &[Parameter]| {
            let each = parameters.iter().map(|parameter| match parameter.times {
                Times::Once => parameter.name.to_owned(),
                Times::Optional => format!("{}?", parameter.name),
                Times::AtLeast(_) => format!("{}...", parameter.name),
            });
            each.collect::<Vec<_>>().join(", ")
        };
        format!("{name}({}) -> ({})", list(&form.inputs), list(&form.outputs))
    }
}

/// Returns the least and the greatest number of arguments; `None` for no limit.
pub fn arity(parameters: &[Parameter]) -> (usize, Option<usize>) {
    let mut least = 0;
    for (i, parameter) in parameters.iter().enumerate() {
        match parameter.times {
            Times::Once => least = i + 1,
            Times::Optional => {}
            Times::AtLeast(times) => return (least.max(i + times), None),
        }
    }
    (least, Some(parameters.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn form(name: &str, version: i64) -> &'static Form {
        let (_, signature) = find("", name, version).expect("ONNX has the operator");
        signature.form.as_ref().expect("this version is not a removal")
    }

    #[test]
    fn a_version_means_the_newest_change_up_to_it() {
        assert_eq!(find("", "Relu", 13).map(|(since, _)| since), Some(13));
        assert_eq!(find("", "Relu", 9).map(|(since, _)| since), Some(6));
        assert!(find("", "RMSNormalization", 22).is_none());
        assert_eq!(first_version("", "RMSNormalization"), Some(23));
        assert!(find("", "Upsample", 10).is_some_and(|(_, signature)| signature.form.is_none()));
    }

    #[test]
    fn signatures_are_read() {
        assert_eq!(arity(&form("Clip", 13).inputs), (1, Some(3)));
        assert_eq!(arity(&form("Concat", 13).inputs), (1, None));
        assert_eq!(arity(&form("Loop", 13).inputs), (2, None));
        let axis = &form("Concat", 13).attributes[0];
        assert!(axis.name == "axis" && axis.is_required && axis.kind == AttributeType::Int);
    }

    #[test]
    fn all_operators_are_listed() {
        let names: BTreeSet<_> = all().map(|(domain, name, ..)| (domain, name)).collect();
        // 659 versions of 227 operators are ONNX's, the others ONNX Runtime's.
        assert_eq!((all().count(), names.len()), (817, 373));
    }

    #[test]
    fn the_nearest_name_is_found() {
        assert_eq!(nearest("", "relu"), Some("Relu"));
        assert_eq!(nearest("", "BatchNormalisation"), Some("BatchNormalization"));
        assert_eq!(nearest("", "Frobnicate"), None);
    }
}
