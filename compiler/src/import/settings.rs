//! The settings of an import: sizes, constants, states and operators of the user's own.

use std::{collections::BTreeMap, fmt, ops::RangeInclusive, path::PathBuf};

/// An operator: its domain and its name.
pub type Operator = (String, String);

/// What the user settles about a model before it is read.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Sizes of dimensions, by name.
    pub dims: BTreeMap<String, Size>,
    /// The sizes of inputs whose number of axes the model does not say, by name.
    pub shapes: BTreeMap<String, Vec<Axis>>,
    /// Inputs that are constants, by name.
    pub consts: BTreeMap<String, Const>,
    /// What becomes of inputs that have a default.
    pub defaults: Defaults,
    /// State: the name of an input, and that of the output that the next run finds there.
    pub states: BTreeMap<String, String>,
    /// The functions of the user's own that are called for operators.
    pub customs: BTreeMap<Operator, String>,
    /// What such operators give: the types of values, by name, as ONNX's text writes them.
    pub types: BTreeMap<String, String>,
    /// Where the model's external data lies.
    pub directory: Option<PathBuf>,
}

/// What the user says of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// It is this.
    Fixed(i64),
    /// It lies between these: at most the second. The first is 0 or 1, and promises nothing.
    Between(i64, i64),
}

/// As the option `--dim` spells it.
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::Fixed(size) => write!(f, "{size}"),
            Size::Between(least, most) => write!(f, "{least}..={most}"),
        }
    }
}

impl From<i64> for Size {
    fn from(size: i64) -> Size {
        Size::Fixed(size)
    }
}

impl From<RangeInclusive<i64>> for Size {
    fn from(bounds: RangeInclusive<i64>) -> Size {
        let (least, most) = bounds.into_inner();
        Size::Between(least, most)
    }
}

/// What the user says of an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Axis {
    /// It has this size.
    Fixed(i64),
    /// It is the dimension of this name.
    Named(String),
}

/// As the option `--shape` spells it.
impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Axis::Fixed(size) => write!(f, "{size}"),
            Axis::Named(name) => f.write_str(name),
        }
    }
}

impl From<i64> for Axis {
    fn from(size: i64) -> Axis {
        Axis::Fixed(size)
    }
}

impl From<&str> for Axis {
    fn from(name: &str) -> Axis {
        Axis::Named(name.to_owned())
    }
}

/// What the user says of an input that is a constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Const {
    /// It is its default.
    Default,
    /// It is this: a number, or several in brackets.
    Value(String),
}

/// What becomes of inputs that have a default, which is an initializer of their name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Defaults {
    /// The caller may leave them out.
    #[default]
    Argument,
    /// They are constants.
    Constant,
}
