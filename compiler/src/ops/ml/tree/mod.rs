//! Ensembles of decision trees.

mod read;
mod table;
mod trees;

use crate::ops::{Entry, ml_nodes};

pub const OPS: &[Entry] = &[
    ml_nodes("TreeEnsemble", 5, read::ensemble),
    ml_nodes("TreeEnsembleClassifier", 1, read::classifier),
    ml_nodes("TreeEnsembleRegressor", 1, read::regressor),
];
