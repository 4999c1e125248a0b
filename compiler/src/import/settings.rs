//! The settings of an import: sizes, constants, states and operators of the user's own.

use crate::choice::choices;
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

choices! { Defaults:
    Argument "argument" "The caller may leave them out";
    Constant "constant" "They are constants";
}

/// Binds sizes and axes to a type of whole numbers. What no `i64` holds is the largest one, as no
/// tensor has so many elements either way.
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

#[cfg(test)]
mod tests {
    use super::{Axis, Size};

    #[test]
    fn sizes_are_made_of_whole_numbers() {
        let fixed = [Size::from(3), Size::from(3_i64), Size::from(3_u32), Size::from(3_usize)];
        assert_eq!(fixed, [Size::Fixed(3); 4]);
        assert_eq!(Size::from(1..=3), Size::Between(1, 3));
        assert_eq!(Size::from(1..=3_usize), Size::Between(1, 3));
        #[cfg(target_pointer_width = "64")]
        assert_eq!(Size::from(usize::MAX), Size::Fixed(i64::MAX));
        assert_eq!([2.into(), Axis::from(2_usize)], [Axis::Fixed(2), Axis::Fixed(2)]);
    }
}
