//! The settings of an import: sizes, constants, states and custom operators.

use crate::{
    choice::choices,
    diag::{Code, Diagnostic, Result, quoted},
    limits::Limits,
};
use std::{collections::BTreeMap, fmt, ops::RangeInclusive, path::PathBuf, str::FromStr};

/// The domain and the name of an operator.
pub type Operator = (String, String);

/// The user's settings, which apply before the model is read.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The sizes of dimensions, by name.
    pub dims: BTreeMap<String, Size>,
    /// The shapes of values whose rank the model does not determine, by name.
    pub shapes: BTreeMap<String, Vec<Axis>>,
    /// The inputs that become constants, by name.
    pub consts: BTreeMap<String, Const>,
    /// How inputs with a default are imported.
    pub defaults: Defaults,
    /// The states: the name of an input, and of the output that the next run reads from it.
    pub states: BTreeMap<String, String>,
    /// The functions that are bound to custom operators.
    pub customs: BTreeMap<Operator, String>,
    /// The output types of custom operators, by the name of the value, in ONNX's textual syntax.
    pub types: BTreeMap<String, String>,
    /// The limits of the compilation.
    pub limits: Limits,
    /// The directory of the model's external data.
    pub directory: Option<PathBuf>,
    /// Whether operators of ONNX Runtime that those of ONNX cannot express stay whole, so that the
    /// graph can be written.
    pub keeps_operators: bool,
}

impl Settings {
    /// Returns whether the user gives sizes, so that the types in the model may not hold.
    pub fn fixes_sizes(&self) -> bool {
        !(self.dims.is_empty() && self.shapes.is_empty() && self.consts.is_empty())
    }
}

/// The user's setting of a dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Size {
    /// The dimension has this size.
    Fixed(i64),
    /// The dimension has at most the second size. The first must be 0 or 1, and is not used.
    Between(i64, i64),
    /// The dimension is the same as the one of this name, which the model need not have.
    Same(String),
}

/// Parses the value of the option `--dim`: a size, a bound `1..=N`, or the name of a dimension.
impl FromStr for Size {
    type Err = Diagnostic;

    fn from_str(text: &str) -> Result<Size> {
        let text = text.trim();
        let bounds = text.split_once("..=");
        let bounds = bounds.map(|(least, most)| (least.trim().parse(), most.trim().parse()));
        match (text.parse(), bounds) {
            (Ok(size), _) => Ok(Size::Fixed(size)),
            (Err(_), Some((Ok(least), Ok(most)))) => Ok(Size::Between(least, most)),
            (Err(_), None) if is_name(text) => Ok(Size::Same(text.to_owned())),
            (Err(_), _) => {
                let message = format!(
                    "the size {} of a dimension must be N, 1..=N, or the name of a dimension",
                    quoted(text)
                );
                Err(Diagnostic::new(Code::BadOption, message))
            }
        }
    }
}

/// Returns whether a text is a name and not a misspelled number.
fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '/') && !text.contains("..")
}

/// The spelling of the option `--dim`.
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::Fixed(size) => write!(f, "{size}"),
            Size::Between(least, most) => write!(f, "{least}..={most}"),
            Size::Same(name) => f.write_str(name),
        }
    }
}

/// The option `--dim`. The compiler reports a text of another form.
impl From<&str> for Size {
    fn from(text: &str) -> Size {
        text.parse().unwrap_or_else(|_| Size::Same(text.to_owned()))
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

/// The user's setting of an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Axis {
    /// The axis has this size.
    Fixed(i64),
    /// The axis is the dimension of this name.
    Named(String),
}

/// Parses a size of the option `--shape`: a number, or the name of a dimension.
impl FromStr for Axis {
    type Err = Diagnostic;

    fn from_str(text: &str) -> Result<Axis> {
        let text = text.trim();
        let digits = text.strip_prefix('-').unwrap_or(text);
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(size) => Ok(Axis::Fixed(size)),
            Err(_) if !is_number && !text.contains("..") => Ok(text.into()),
            Err(_) => {
                let text = quoted(text);
                let message = format!("{text} in `--shape` is neither a size nor the name of one");
                Err(Diagnostic::new(Code::BadOption, message)
                    .help("name the size, and bound it by `--dim NAME=1..=N`"))
            }
        }
    }
}

/// The spelling of the option `--shape`.
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

/// The constant in place of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Const {
    /// The default of the input.
    Default,
    /// This value: a number, or a list in brackets.
    Value(String),
}

/// How inputs with a default (an initializer of the same name) are imported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Defaults {
    /// As arguments that the caller may omit.
    #[default]
    Argument,
    /// As constants.
    Constant,
}

choices! { Defaults:
    Argument "argument" "As `Option` arguments: `None` is the default";
    Constant "constant" "As constants";
}

/// Converts integers of a type to sizes and axes. Larger numbers than an `i64` saturate: no tensor
/// has as many elements.
macro_rules! sizes_of {
    ($($number:ty),*) => {$(
        impl From<$number> for Size {
            fn from(size: $number) -> Size {
                Size::Fixed(i64::try_from(size).unwrap_or(i64::MAX))
            }
        }

        impl From<RangeInclusive<$number>> for Size {
            fn from(bounds: RangeInclusive<$number>) -> Size {
                let [least, most] = [*bounds.start(), *bounds.end()];
                let [least, most] = [least, most].map(|n| i64::try_from(n).unwrap_or(i64::MAX));
                Size::Between(least, most)
            }
        }

        impl From<$number> for Axis {
            fn from(size: $number) -> Axis {
                Axis::Fixed(i64::try_from(size).unwrap_or(i64::MAX))
            }
        }
    )*};
}

sizes_of!(i32, u32, usize);

/// How the sizes of 0 in declared types are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Zeros {
    /// As the size 0.
    #[default]
    Empty,
    /// As unknown sizes.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::{Axis, Size};

    #[test]
    fn sizes_are_integers() {
        let fixed = [Size::from(3), Size::from(3_i64), Size::from(3_u32), Size::from(3_usize)];
        assert_eq!(fixed, [const { Size::Fixed(3) }; 4]);
        assert_eq!(Size::from(1..=3), Size::Between(1, 3));
        assert_eq!(Size::from(1..=3_usize), Size::Between(1, 3));
        #[cfg(target_pointer_width = "64")]
        assert_eq!(Size::from(usize::MAX), Size::Fixed(i64::MAX));
        assert_eq!([2.into(), Axis::from(2_usize)], [Axis::Fixed(2), Axis::Fixed(2)]);
    }

    #[test]
    fn axes_are_sizes_and_names() {
        for text in ["", " ", "99999999999999999999", "1..=3", "-"] {
            assert!(text.parse::<Axis>().is_err(), "{text}");
        }
        assert_eq!(" -1".parse(), Ok(Axis::Fixed(-1)));
        assert_eq!("unk__5".parse(), Ok(Axis::from("unk__5")));
    }
}
