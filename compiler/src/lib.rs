//! onnxc compiles ONNX models to Rust.
//!
//! A build script needs [`Builder`] only, a program with the source of its model the macro
//! `include_onnx!` of `onnxc-macros`. [`Compiler`] gives every result in between: diagnostics, a
//! graph, plans, a module. A plan can be run in the same process:
//!
//! ```
//! use onnxc::{Compiler, Options, interpreter, tensor::Tensor, value::Value};
//!
//! let model = r#"<ir_version: 10, opset_import: ["" : 21]>
//!     g (int64[3] x) => (int64[3] y) <int64 two = {2}> { y = Mul (x, two) }"#;
//! let options = Options::default();
//! let mut compiler = Compiler::new(&options);
//!
//! let plan = compiler.plan(model.into())?;
//! let outputs = interpreter::run(&plan, &[Value::Tensor(Tensor::from_ints(&[1, 2, 3]))])?;
//! assert_eq!(outputs[0].tensor().and_then(Tensor::ints), Some(vec![2, 4, 6]));
//!
//! let module = compiler.compile_bytes(model.into(), "double")?.module;
//! assert!(module.code.contains("pub struct Double"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! To read, change or make models: [`Compiler::import`] reads one into an [`ir::Graph`], and
//! [`Spec`] adds nodes to a graph; [`ir::replace`] and [`ir::Edit`] make changed copies;
//! [`Compiler::optimize`] simplifies; [`export::model`] makes an ONNX model of a graph, and
//! [`export::write`] writes it to a file. [`train::Prepare`] adds training to a model.
//!
//! # Layers
//!
//! A model passes through the modules from top to bottom. A module uses those below it only, and no
//! two files use each other.
//!
//! | module | contents | independent of |
//! |---|---|---|
//! | [`Builder`] | compiles from a build script | |
//! | [`Compiler`] | the pipeline: the order of the stages | what a stage does |
//! | [`train`] | messages → messages with training information | kernels, plans, generated code |
//! | [`import`] | bytes → messages → [`ir::Graph`] | kernels, plans |
//! | [`mod@check`] | messages → diagnostics: the rules of the file format | all but the base |
//! | [`export`] | [`ir::Graph`] → messages | kernels, plans, passes |
//! | [`passes`] | graph → graph, one file per pass | the file format, generated code |
//! | [`emit`] | plan → tokens → text | graphs, operators, ONNX |
//! | [`interpreter`] | runs a plan in this process | graphs, operators |
//! | [`ops`] | every operator, one file per family | the file format, passes, tokens |
//! | [`ir`] | graph, the trait [`ir::Op`], lowering to a plan | particular operators |
//! | [`mod@plan`] | kernel calls, buffers, memory | graphs, operators, tokens |
//! | the base | types that every module uses | everything above |
//!
//! The base is [`arena`], [`mod@array`], [`byte_count`], [`choice`], [`diag`], [`dim`], [`domain`],
//! [`dtype`], [`mod@file`], [`ident`], [`limits`], [`tensor`], [`ty`] and [`value`].

pub mod arena;
pub mod array;
mod builder;
pub mod byte_count;
pub mod check;
pub mod choice;
mod compiled_model;
pub mod diag;
pub mod dim;
pub mod domain;
pub mod dtype;
pub mod emit;
pub mod export;
pub mod file;
pub mod ident;
pub mod import;
pub mod interpreter;
pub mod ir;
pub mod limits;
mod mapping;
pub mod ops;
pub mod options;
pub mod passes;
mod pipeline;
pub mod plan;
pub mod tensor;
pub mod train;
pub mod ty;
pub mod value;

pub use builder::{Builder, Report};
pub use compiled_model::CompiledModel;
pub use emit::{ArenaIn, Module};
pub use file::write_if_changed;
pub use import::{Defaults, Spec};
pub use options::{Options, Weights};
pub use pipeline::{CheckReport, Compiler, ModuleItems};
pub use plan::{Optimize, Precision};

/// The examples of the README, which `cargo test` compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
