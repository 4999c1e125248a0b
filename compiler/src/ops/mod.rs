//! The operators: one file or folder per family, and the list of the families.
//!
//! # How to add an operator
//!
//! An operator touches these files:
//!
//! 1. The file of its family: a row of a table, or a struct with `impl Op` and a row of `OPS`.
//!    `compiler/src/ops/softmax.rs` is the example.
//! 2. `compiler/src/cli/ops/samples.txt`: a sample node.
//! 3. `tests/it/gradients/cases.rs`: a gradient case, or the reason that it has none.
//! 4. `tests/conformance/draw/ops`: random cases, with a reference in numpy.
//!
//! An operator that no kernel computes also needs a kernel, in the file of the family's name in
//! `runtime-lib/src/kernels`. An elementary function states its accuracy in
//! `runtime-lib/src/kernels/accuracy/functions.rs`. A new family needs its `mod` and its line of
//! `FAMILIES` below, in alphabetical order.
//!
//! Programs write the signatures in `compiler/src/check/operators.txt`
//! (`tests/conformance/operators.py`) and the page `docs/reference/operators.md`
//! (`UPDATE=1 cargo test -p onnxc-tests`). `tests/it/additions.rs` fails and lists what is missing.
//!
//! A family's file has this order: `OPS`, which reads each version of an operator; the struct of
//! its attributes; its kernels; `impl Op` with types, calls and gradient; tests.

pub(crate) mod activation;
pub(crate) mod activation_grad;
pub(crate) mod arg;
pub(crate) mod attention;
pub(crate) mod binary;
pub(crate) mod blocked;
pub(crate) mod blockwise;
pub(crate) mod cast;
pub(crate) mod compare;
pub(crate) mod composite;
pub(crate) mod concat;
pub(crate) mod constant;
pub(crate) mod control;
pub(crate) mod conv;
pub(crate) mod cumulative;
pub(crate) mod custom;
pub(crate) mod einsum;
mod entry;
mod epilogue;
pub(crate) mod expand;
pub(crate) mod fourier;
pub(crate) mod gate;
pub(crate) mod gather;
pub(crate) mod gradient;
pub(crate) mod image;
pub(crate) mod linalg;
pub(crate) mod loss;
pub(crate) mod matmul;
pub(crate) mod microsoft;
pub(crate) mod ml;
pub(crate) mod nhwc;
pub(crate) mod nms;
pub(crate) mod norm;
pub(crate) mod optimizer;
pub(crate) mod optional;
mod pack;
pub(crate) mod pad;
pub(crate) mod pool;
pub(crate) mod quantize;
pub(crate) mod quantized;
pub(crate) mod random;
pub(crate) mod reduce;
pub(crate) mod reshape;
pub(crate) mod resize;
pub(crate) mod rnn;
pub(crate) mod roi;
pub(crate) mod roll;
pub(crate) mod sample;
pub(crate) mod scatter;
pub(crate) mod select;
pub(crate) mod sequence;
pub(crate) mod sizes;
pub(crate) mod slice;
pub(crate) mod softmax;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod text;
pub(crate) mod transpose;
pub(crate) mod unary;
mod unbroadcast;
pub(crate) mod variadic;
pub(crate) mod warping;
mod weight_precision;
pub(crate) mod window;

pub use entry::{
    Entry, Function, Nodes, Read, Reading, body, entry, function, internal, microsoft,
    microsoft_function, microsoft_nodes, ml, ml_nodes, nodes, preview, training, training_of_names,
};

use crate::ir::Domain;

/// Every family, sorted.
#[rustfmt::skip]
const FAMILIES: &[&[Entry]] = &[
    activation::OPS,
    activation_grad::OPS,
    arg::OPS,
    attention::OPS,
    attention::flex::OPS,
    attention::linear::OPS,
    attention::rotary::OPS,
    attention::strided::OPS,
    binary::OPS,
    blocked::OPS,
    blockwise::OPS,
    cast::OPS,
    compare::OPS,
    concat::OPS,
    constant::OPS,
    control::OPS,
    conv::OPS,
    conv::blocked::OPS,
    conv::blocked_transpose::OPS,
    conv::blocked_weight_grad::OPS,
    conv::causal::OPS,
    conv::deform::OPS,
    conv::integer::OPS,
    conv::transpose::OPS,
    conv::weight_grad::OPS,
    cumulative::OPS,
    einsum::OPS,
    expand::OPS,
    fourier::OPS,
    fourier::frames::OPS,
    fourier::mel::OPS,
    fourier::window::OPS,
    gate::OPS,
    gather::OPS,
    gradient::OPS,
    image::OPS,
    linalg::OPS,
    loss::OPS,
    matmul::OPS,
    matmul::integer::OPS,
    microsoft::activation::OPS,
    microsoft::attention::OPS,
    microsoft::blocks::OPS,
    microsoft::conv::OPS,
    microsoft::decoder::OPS,
    microsoft::experts::OPS,
    microsoft::grouped::OPS,
    microsoft::legacy::OPS,
    microsoft::matmul::OPS,
    microsoft::multi_head::OPS,
    microsoft::norm::OPS,
    microsoft::position::OPS,
    microsoft::quantized::OPS,
    microsoft::recurrent::OPS,
    microsoft::shape::OPS,
    microsoft::state::OPS,
    microsoft::text::OPS,
    ml::encode::OPS,
    ml::feature::OPS,
    ml::linear::OPS,
    ml::map::OPS,
    ml::svm::OPS,
    ml::tree::OPS,
    nhwc::OPS,
    nhwc::conv::OPS,
    nhwc::pool::OPS,
    nms::OPS,
    norm::OPS,
    optimizer::OPS,
    optional::OPS,
    pad::OPS,
    pool::OPS,
    pool::blocked::OPS,
    pool::gradient::OPS,
    quantize::OPS,
    quantized::binary::OPS,
    quantized::conv::OPS,
    quantized::dynamic_conv::OPS,
    quantized::matmul::OPS,
    quantized::pool::OPS,
    quantized::table::OPS,
    random::OPS,
    reduce::OPS,
    reshape::OPS,
    resize::OPS,
    rnn::OPS,
    roi::OPS,
    roll::OPS,
    sample::OPS,
    scatter::OPS,
    select::OPS,
    sequence::OPS,
    sequence::map::OPS,
    sequence::split::OPS,
    slice::OPS,
    softmax::OPS,
    text::OPS,
    text::grams::OPS,
    text::hash::OPS,
    text::pattern::OPS,
    text::repeat::OPS,
    text::tokenizer::OPS,
    transpose::OPS,
    unary::OPS,
    variadic::OPS,
    warping::OPS,
];

/// The reader of `name` as it stood in version `version` of the operator set.
pub fn find(domain: Domain, name: &str, version: i64) -> Option<&'static Entry> {
    let named = entries().filter(|entry| entry.domain == domain && entry.name == name);
    named.filter(|entry| entry.since <= version).max_by_key(|entry| entry.since)
}

/// All entries of all families.
pub fn entries() -> impl Iterator<Item = &'static Entry> {
    FAMILIES.iter().copied().flatten()
}
