//! What a compiled model says when its inputs do not fit.

use core::fmt;

/// Why a model could not run on the inputs that it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// An input has another size along `axis` than the model wants.
    Size {
        /// The input's name in the model.
        input: &'static str,
        /// The axis, counted from the front.
        axis: usize,
        /// What the model says of the size: a number or a dimension's name.
        wanted: &'static str,
        /// The size that the other inputs or the model fix.
        expected: usize,
        /// The size that the input has.
        found: usize,
    },
    /// There are not as many elements as there must be: in a tensor's slice, for its shape; of bytes,
    /// for a variable.
    Length {
        /// The number that is wanted; the largest `usize` where no memory has so many.
        expected: usize,
        /// The number that there is.
        found: usize,
    },
    /// Two sizes inside the model must agree and do not.
    Mismatch {
        /// The node of the model.
        node: &'static str,
        /// The one size.
        left: usize,
        /// The other size.
        right: usize,
    },
    /// A iteration of a loop gives a part of another size than the iterations before, so that what all of them
    /// give is no tensor.
    Part {
        /// The node of the model.
        node: &'static str,
        /// The node's output.
        output: &'static str,
        /// The axis of the part, counted from the front.
        axis: usize,
        /// The size that the parts before have.
        expected: usize,
        /// The size that this one has.
        found: usize,
    },
    /// A size grew beyond the bound for which the model's memory was planned.
    Bound {
        /// The dimension's name.
        name: &'static str,
        /// The largest size that fits.
        bound: usize,
        /// The size that was met.
        found: usize,
    },
    /// An index points outside the axis that it indexes.
    Index {
        /// The index, as the model computed it.
        index: i64,
        /// The size of the axis.
        size: usize,
    },
    /// What else is refused, in words: most often a value that an operator does not allow, such as a
    /// step of zero.
    Value(&'static str),
    /// The weights given are not those of the model, by their length.
    Weights {
        /// The number of bytes that the model's weights have.
        expected: usize,
        /// The number of bytes that were given.
        found: usize,
    },
    /// The weights given do not start at an address that is a multiple of this many bytes.
    Alignment(usize),
}

/// The result of a kernel or a model that can refuse its inputs.
pub type Result<T = ()> = core::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Size { input, axis, wanted, expected, found } => {
                write!(
                    f,
                    "input `{input}`: axis {axis} is {found}, but the model wants {expected}"
                )?;
                // A number says no more than what it comes to.
                if wanted.parse() == Ok(*expected) { Ok(()) } else { write!(f, " (`{wanted}`)") }
            }
            Error::Length { expected, found } => {
                write!(f, "{expected} elements are wanted, but there are {found}")
            }
            Error::Mismatch { node, left, right } => {
                write!(f, "node `{node}`: the sizes {left} and {right} do not fit together")
            }
            Error::Part { node, output, axis, expected, found } => {
                write!(
                    f,
                    "node `{node}`: a part of the output `{output}` has the size {found} along \
                     axis {axis}, but those before it have {expected}"
                )
            }
            Error::Bound { name, bound, found } => {
                write!(f, "`{name}` is {found}, but the memory was planned for at most {bound}")
            }
            Error::Index { index, size } => {
                write!(f, "the index {index} is outside an axis of size {size}")
            }
            Error::Value(what) => f.write_str(what),
            Error::Weights { expected, found } => {
                write!(f, "the model has {expected} bytes of weights, but {found} were given")
            }
            Error::Alignment(bytes) => {
                write!(f, "the weights must start at a multiple of {bytes} bytes")
            }
        }
    }
}

impl core::error::Error for Error {}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_called_by_its_name_where_it_has_one() {
        let text = |wanted| {
            let error = Error::Size { input: "x", axis: 1, wanted, expected: 8, found: 3 };
            std::string::ToString::to_string(&error)
        };
        assert_eq!(text("8"), "input `x`: axis 1 is 3, but the model wants 8");
        assert_eq!(text("2 * n"), "input `x`: axis 1 is 3, but the model wants 8 (`2 * n`)");
    }
}
