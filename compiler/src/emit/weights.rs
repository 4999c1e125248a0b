//! The weights: one blob, and a name for each part of it.

use super::{Style, WeightsIn};
use crate::plan::{Place, Plan};
use proc_macro2::{Literal, TokenStream};
use quote::quote;

/// All weights, each where the plan placed it.
pub fn blob(plan: &Plan) -> Vec<u8> {
    let mut blob = vec![0; plan.weight_bytes];
    for (_, buffer) in plan.buffers.iter() {
        if let Place::Weight { offset, tensor } = &buffer.place {
            blob[*offset..*offset + tensor.bytes().len()].copy_from_slice(tensor.bytes());
        }
    }
    blob
}

/// The static that holds the weights. A file of another length than the module was made for does
/// not compile.
pub fn item(plan: &Plan, style: &Style) -> TokenStream {
    let bytes = match &style.weights {
        WeightsIn::File(name) => quote!(*include_bytes!(#name)),
        WeightsIn::Module => {
            let literal = Literal::byte_string(&blob(plan));
            quote!(*#literal)
        }
    };
    let len = Literal::usize_unsuffixed(plan.weight_bytes);
    quote! {
        pub(super) static WEIGHTS: &Aligned<[u8; #len]> = &Aligned(#bytes);
    }
}
