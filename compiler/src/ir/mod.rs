//! The graph: what a model computes, in ONNX's terms, with the type of every value.
//!
//! A [`Graph`] owns values, nodes and regions, each identified by an id. A *value* is defined once:
//! as an input of a region, as the output of a node, or as a constant (single assignment). The
//! operator of its node infers its [`Type`](crate::ty::Type) from the types of the node's inputs. A
//! *node* is an operator ([`Op`]) with its inputs and outputs; the nodes of a region are in
//! topological order. A *region* is the body of the model or of a control-flow node; its nodes may
//! use the values of outer regions. Names are labels: after import nothing is looked up by name.
//!
//! Nothing is edited in place. A pass reads one graph and writes the next, whose types are inferred
//! as it is built, so no analysis becomes stale.

mod apply;
mod attribute;
mod changes;
mod conditions;
mod copy;
mod cse;
mod declared_bounds;
mod edit;
mod expr_limit;
mod extract;
mod gradient;
mod graph;
mod infer;
mod interface;
mod known_indices;
mod known_inputs;
mod loop_types;
mod lower;
mod lowering;
mod op;
mod reader;
mod rewrite;
mod rewrite_context;
mod shape_origin;
mod state;
mod symbol_renaming;
mod text;
mod unknown_rank;
mod uses;
mod verify;
mod views;

pub use crate::plan::Info;
pub use apply::apply;
pub use attribute::{Attribute, Attributes};
pub(crate) use cse::of_constant;
pub use edit::Edit;
pub use extract::{alone, extract};
pub use gradient::{Expr, Grad, Gradient, Tape, is_differentiable};
pub use graph::{Graph, NewNode, Node, NodeId, Notes, Region, RegionId, Value, ValueId};
pub use infer::{Infer, Inferred, Stop};
pub use interface::{Held, Interface};
pub(crate) use loop_types::{Builds, Fitting, fit};
pub use lower::Lower;
pub use lowering::plan;
pub use op::{Domain, Op, OperatorSet};
pub use reader::Reader;
pub use rewrite::{
    Hook, Next, Rewrite, Rewritten, Rule, Todo, copy_node, replace, rewrite, rewritten,
};
pub use rewrite_context::{Outputs, Site};
use uses::UseCounts;
pub use uses::Uses;
pub use verify::verify;
pub use views::{Views, home};
