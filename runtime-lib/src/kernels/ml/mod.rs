//! Kernels of classical machine learning, the operators of `ai.onnx.ml`.

mod classifier;
mod feature;
pub(crate) mod lookup;
#[cfg(feature = "alloc")]
mod map;
mod svm;
mod tree;

pub use classifier::{
    above, complement, opposite, probit, probit_in_place, softmax_zero, softmax_zero_in_place,
};
pub use feature::{
    Columns, binarizer, feature_vectorizer, imputer, normalizer_l1, normalizer_l2, normalizer_max,
};
pub use lookup::{element_at, index_of, one_hot, one_hot_checked};
#[cfg(feature = "alloc")]
pub use lookup::{index_of_text, text_at};
#[cfg(feature = "alloc")]
pub use map::{find_keys, find_text_keys, pick_values, sort_keys};
pub use svm::{
    svm_choose, svm_one_class, svm_one_class_in_place, svm_probabilities, svm_rbf, svm_votes,
};
pub use tree::{TreeOperands, Trees, tree_max, tree_min, tree_sum, tree_sum_f32};
