//! Plans: the kernel calls of a model in order, and the buffers between them. A plan is all that
//! the back ends see; nothing here knows graphs or operators.

pub mod activation;
mod buffer;
mod copy_elision;
pub mod custom;
mod custom_call;
mod dead_calls;
mod draw;
mod dynamic;
mod finish;
pub mod formula;
pub mod geometry;
mod info;
mod kernel;
mod literal;
mod liveness;
pub mod memory;
mod name;
mod occupancy;
mod operands;
mod options;
mod plans;
mod port;
mod program;
pub mod rematerialize;
mod size_function;
mod sizes;
mod state;
mod state_memory;
pub mod step;
mod text;
mod training;
pub mod weight;
mod weight_layout;
mod weight_table;

pub use buffer::{Arg, Buffer, BufferId, DynamicBuffer, Kind, Operand, Place};
pub use custom::Custom;
pub use draw::{Draw, Seed};
pub use finish::finish;
pub use formula::{Field, Formula, NoParams, SizeText, Symbols, struct_source};
pub use info::Info;
pub(crate) use kernel::kernel;
pub use kernel::{Args, BoundKernel, Call, Form, Kernel, Outcome, Params, Written};
pub use literal::Literal;
pub use liveness::UseCounts;
pub use name::{Name, kept};
pub use occupancy::{Moment, Occupant};
pub(crate) use operands::operands;
pub use operands::{Operands, Source};
pub use options::{FreeSizes, Optimize, Precision};
pub use plans::Plans;
pub use port::Port;
pub use program::{Plan, Rematerialized};
pub(crate) use size_function::size_function;
pub use size_function::{ComputedSize, SizeFunction};
pub use state::State;
pub use step::{
    Block, Carried, Check, Common, Cond, Condition, If, Loop, Resized, Rule, Stacked, Step,
    TripCount,
};
pub use training::{Algorithm, Training};
pub use weight::{Order, Weight};
pub use weight_layout::weight_layout;
pub(crate) use weight_table::WeightTable;
