//! What ONNX says of its operators.

/// Every version of every operator, one a line, as `tests/conformance/operators.py` writes them.
const OPERATORS: &str = include_str!("operators.txt");

/// One version of an operator.
pub struct Version {
    /// The operator set.
    pub domain: &'static str,
    /// The operator's name.
    pub name: &'static str,
    /// The version of the set that brought it.
    pub since: i64,
    /// What it takes.
    pub inputs: Vec<Value>,
    /// What it gives.
    pub outputs: Vec<Value>,
    /// The types that stand for several, each with those allowed.
    pub constraints: Vec<(&'static str, Vec<&'static str>)>,
}

/// An input or output.
pub struct Value {
    /// Its type: that of a constraint, or one of its own.
    pub ty: &'static str,
    /// Whether there may be several.
    pub several: bool,
    /// Whether those may be of several types.
    pub mixed: bool,
}

/// All versions, those of one operator one after the other.
pub fn versions() -> Vec<Version> {
    let lines = OPERATORS.lines().filter(|line| !line.starts_with('#'));
    let sets = lines.clone().map_while(|line| line.split_once(" = "));
    let sets: Vec<Vec<&str>> = sets.map(|(_, types)| types.split(' ').collect()).collect();
    lines.skip(sets.len()).map(|line| version(line, &sets)).collect()
}

fn version(line: &'static str, sets: &[Vec<&'static str>]) -> Version {
    let (head, rest) = line.split_once(" (").expect("inputs stand in every line");
    let (inputs, rest) = rest.split_once(") -> (").expect("outputs follow the inputs");
    let (outputs, rest) = rest.split_once(')').expect("a parenthesis closes");
    let mut words = head.split(' ');
    let mut word = || words.next().expect("a line starts with three words");
    let (domain, name, since) = (word(), word(), word().parse().expect("a version is a number"));
    let constraint = |text: &'static str| {
        let (name, set) = text.split_once('=').expect("a constraint names its types");
        (name, sets[set.parse::<usize>().expect("by their number")].clone())
    };
    Version {
        domain,
        name,
        since,
        inputs: values(inputs),
        outputs: values(outputs),
        constraints: rest.split_whitespace().map(constraint).collect(),
    }
}

fn values(text: &'static str) -> Vec<Value> {
    let value = |text: &'static str| {
        let (_, ty) = text.split_once(':').expect("a value has a type");
        let several = ty.contains('*');
        Value { ty: ty.trim_end_matches(['?', '*', '~']), several, mixed: ty.ends_with('~') }
    };
    text.split(", ").filter(|text| !text.is_empty()).map(value).collect()
}

impl Version {
    /// The type of input `i`: the last one may stand for several.
    pub fn input(&self, i: usize) -> Option<&Value> {
        self.inputs.get(i).or_else(|| self.inputs.last().filter(|last| last.several))
    }

    /// The type of output `i`, likewise.
    pub fn output(&self, i: usize) -> Option<&Value> {
        self.outputs.get(i).or_else(|| self.outputs.last().filter(|last| last.several))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn all_operators_are_listed() {
        let versions = versions();
        let names: BTreeSet<_> = versions.iter().map(|v| (v.domain, v.name)).collect();
        assert_eq!((versions.len(), names.len()), (659, 227));
    }
}
