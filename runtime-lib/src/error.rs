//! The error that a compiled model returns if it cannot run on its inputs.

use core::fmt;

/// The reason why a model could not run on its inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The size of an input along `axis` is not the size that the model declares.
    Size {
        /// The input's name in the model.
        input: &'static str,
        /// The axis, counted from the front.
        axis: usize,
        /// The size that the model declares: a number or a dimension's name.
        wanted: &'static str,
        /// The size that the model or the other inputs fix.
        expected: usize,
        /// The size of the input.
        found: usize,
    },
    /// An input of a fixed size has another number of elements.
    Input {
        /// The input's name in the model.
        input: &'static str,
        /// The number of elements that the model declares.
        expected: usize,
        /// The number of elements of the input.
        found: usize,
    },
    /// A slice has the wrong length: a tensor's elements for its shape, or a variable's bytes.
    Length {
        /// The expected length; `usize::MAX` if no memory can hold it.
        expected: usize,
        /// The actual length.
        found: usize,
    },
    /// An array has another number of axes.
    Rank {
        /// The number of axes that the model declares.
        expected: usize,
        /// The number of axes of the array.
        found: usize,
    },
    /// Two sizes inside the model that must be equal differ.
    Mismatch {
        /// The node's name in the model; empty if the rule is not a node's.
        node: &'static str,
        /// The two sizes, in words.
        rule: &'static str,
        /// The first size.
        left: usize,
        /// The second size.
        right: usize,
    },
    /// A size inside the model is smaller than another one allows.
    TooSmall {
        /// The node's name in the model; empty if the rule is not a node's.
        node: &'static str,
        /// The rule that the sizes break.
        rule: &'static str,
        /// The size.
        left: usize,
        /// The least size that the rule allows.
        right: usize,
    },
    /// Two sizes of inputs of a node do not broadcast: they differ, and neither is 1.
    Broadcast {
        /// The node's name in the model.
        node: &'static str,
        /// The size in one input.
        left: usize,
        /// The size in another.
        right: usize,
    },
    /// An iteration of a loop returns a part of an output whose size differs from the parts of the
    /// iterations before, so they do not form a tensor.
    Part {
        /// The node's name in the model.
        node: &'static str,
        /// The node's output.
        output: &'static str,
        /// The axis of the part, counted from the front.
        axis: usize,
        /// The size of the parts before.
        expected: usize,
        /// The size of this part.
        found: usize,
    },
    /// A size exceeds the bound for which the model's memory is planned.
    Bound {
        /// The dimension's name.
        name: &'static str,
        /// The largest size that fits.
        bound: usize,
        /// The size at run time.
        found: usize,
    },
    /// An index is outside the axis that it indexes.
    Index {
        /// The index, as the model computed it.
        index: i64,
        /// The size of the axis.
        size: usize,
    },
    /// A run, or a copy of weights, needs more memory than there is.
    Memory {
        /// The number of bytes; `usize::MAX` if no memory can hold them.
        bytes: usize,
    },
    /// Any other error, in words: most often a value that an operator does not allow, such as a
    /// step of zero.
    Value(&'static str),
    /// The length of the given weights is not that of the model's weights file.
    Weights {
        /// The length of the model's weights file, in bytes.
        expected: usize,
        /// The length of the given weights, in bytes.
        found: usize,
    },
    /// The given weights do not end with the trailer of a weights file.
    WeightTrailer,
    /// The given weights were generated with another module.
    WeightLayout {
        /// The layout of the module's weights.
        expected: u64,
        /// The layout of the given weights.
        found: u64,
    },
    /// The given weights are damaged.
    WeightChecksum {
        /// The checksum that the weights were written with.
        expected: u64,
        /// The checksum of the given weights.
        found: u64,
    },
    /// The address of the given weights is not a multiple of this number of bytes.
    Alignment(usize),
}

/// The result of a kernel or a model that may fail.
pub type Result<T = ()> = core::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Size { input, axis, wanted, expected, found } => {
                write!(f, "input `{input}`: expected size {expected}")?;
                // Only a dimension's name adds to `expected`.
                if wanted.parse() != Ok(*expected) {
                    write!(f, " (`{wanted}`)")?;
                }
                write!(f, " along axis {axis}, found {found}")
            }
            Error::Input { input, expected, found } => {
                write!(f, "input `{input}`: expected {expected} elements, found {found}")
            }
            Error::Length { expected, found } => {
                write!(f, "expected {expected} elements, found {found}")
            }
            Error::Rank { expected, found } => write!(f, "expected {expected} axes, found {found}"),
            Error::Mismatch { node, rule, left, right } => {
                write_node(f, node)?;
                write!(f, "{rule} must be equal, but are {left} and {right}")
            }
            Error::TooSmall { node, rule, left, right } => {
                write_node(f, node)?;
                write!(f, "{rule}: {left} is less than {right}")
            }
            Error::Broadcast { node, left, right } => {
                write_node(f, node)?;
                write!(
                    f,
                    "the inputs do not broadcast: an axis has size {left} in one and {right} in \
                     another; one must be 1, or both equal"
                )
            }
            Error::Part { node, output, axis, expected, found } => {
                write!(
                    f,
                    "node `{node}`: a part of output `{output}` has size {found} along axis \
                     {axis}, expected {expected}"
                )
            }
            Error::Bound { name, bound, found } => {
                write!(f, "expected `{name}` to be at most {bound}, found {found}")
            }
            Error::Index { index, size } => {
                write!(f, "the index {index} is outside an axis of size {size}")
            }
            Error::Memory { bytes: usize::MAX } => {
                f.write_str("the run needs more memory than fits the address space")
            }
            Error::Memory { bytes } => {
                write!(f, "cannot allocate {bytes} bytes of memory")
            }
            Error::Value(message) => f.write_str(message),
            Error::Weights { expected, found } => {
                write!(f, "expected {expected} bytes of weights, found {found}")
            }
            Error::WeightTrailer => f.write_str(
                "the weights have no trailer: generate the module and its weights file again",
            ),
            Error::WeightLayout { expected, found } => write!(
                f,
                "expected weights of layout {expected:#018x}, found {found:#018x}: use the weights \
                 file that was generated with the module"
            ),
            Error::WeightChecksum { expected, found } => write!(
                f,
                "expected weights with checksum {expected:#018x}, found {found:#018x}: they are \
                 damaged"
            ),
            Error::Alignment(bytes) => {
                write!(f, "expected weights that are aligned to {bytes} bytes")
            }
        }
    }
}

impl core::error::Error for Error {}

/// Writes the node that an error is about, if there is one.
fn write_node(f: &mut fmt::Formatter<'_>, node: &str) -> fmt::Result {
    if node.is_empty() { Ok(()) } else { write!(f, "node `{node}`: ") }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;

    #[test]
    fn a_size_error_names_the_dimension() {
        let text = |wanted| {
            let error = Error::Size { input: "x", axis: 1, wanted, expected: 8, found: 3 };
            std::string::ToString::to_string(&error)
        };
        assert_eq!(text("8"), "input `x`: expected size 8 along axis 1, found 3");
        assert_eq!(text("2 * n"), "input `x`: expected size 8 (`2 * n`) along axis 1, found 3");
    }
}
