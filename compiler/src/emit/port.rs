//! The inputs and outputs of a module: in which form each is given and taken, as Rust has it.

use super::method::{number, sizes};
use crate::{
    dtype::DType,
    plan::{Place, Plan, Port},
    tensor::Data,
    ty::{Type, count},
};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::quote;

/// The form of a value at the face.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// One number, by value.
    Scalar,
    /// So many elements, by reference.
    Array(usize),
    /// A view with so many axes, whose sizes are known when the model runs.
    View(usize),
    /// A tensor on the heap with so many axes.
    Heap(usize),
    /// A sequence of tensors.
    Sequence,
    /// A map with keys of that type.
    Map(DType),
    /// Maps with keys in common, of that type.
    Maps(DType, Values),
    /// A value that may be absent.
    Optional(Box<Form>),
}

/// Where the values of maps are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// In the arena.
    Arena,
    /// On the heap.
    Heap,
}

impl Form {
    /// The form of an input.
    pub fn of_input(ty: &Type) -> Form {
        match (ty, ty.key()) {
            (Type::Optional(content), _) => Form::Optional(Form::of_input(content).into()),
            (_, Some(key)) => Form::Map(key),
            (Type::Tensor(ty), None) => match ty.known_shape() {
                Some(shape) if shape.is_empty() && ty.dtype != DType::String => Form::Scalar,
                Some(shape) => Form::Array(count(&shape)),
                None => Form::View(ty.rank()),
            },
            (_, None) => Form::Sequence,
        }
    }

    /// The form of an output.
    pub fn of_output(plan: &Plan, port: &Port) -> Form {
        let on_heap = plan.buffers[port.operand.buffer].place == Place::Heap;
        if let (Type::Sequence(_), Some(key)) = (&port.ty, port.ty.key()) {
            return Form::Maps(key, if on_heap { Values::Heap } else { Values::Arena });
        }
        match Form::of_input(&port.ty) {
            Form::Scalar | Form::Array(_) | Form::View(_) if on_heap => {
                Form::Heap(port.shape().len())
            }
            Form::Optional(form) if on_heap && *form != Form::Sequence => {
                Form::Optional(Form::Heap(port.shape().len()).into())
            }
            form => form,
        }
    }

    /// The form of the value itself, whether it may be absent or not.
    pub fn content(&self) -> &Form {
        match self {
            Form::Optional(form) => form,
            form => form,
        }
    }

    /// Whether an output is borrowed from the arena.
    pub fn borrows(&self) -> bool {
        matches!(self.content(), Form::Array(_) | Form::View(_) | Form::Maps(_, Values::Arena))
    }

    /// Whether an output lies in the arena, be it borrowed or copied from there.
    pub fn is_in_arena(&self) -> bool {
        self.borrows() || *self.content() == Form::Scalar
    }

    /// Whether giving a value of the form, or taking it, can be refused.
    pub fn refuses(&self) -> bool {
        matches!(self.content(), Form::View(_) | Form::Heap(_) | Form::Map(_))
    }

    /// The type of an input.
    pub fn given(&self, element: &TokenStream) -> TokenStream {
        match self {
            Form::Scalar => element.clone(),
            Form::Array(len) => {
                let len = number(*len);
                quote!(&[#element; #len])
            }
            Form::View(rank) | Form::Heap(rank) => {
                let rank = number(*rank);
                quote!(::onnxc_runtime::view::View<'_, #element, #rank>)
            }
            Form::Sequence => quote!(&::onnxc_runtime::sequence::Sequence<#element>),
            Form::Map(key) | Form::Maps(key, _) => {
                let key = super::method::element(*key);
                quote!(::onnxc_runtime::map::Map<'_, #key, #element>)
            }
            Form::Optional(form) => {
                let form = form.given(element);
                quote!(::core::option::Option<#form>)
            }
        }
    }

    /// The type of an output.
    pub fn taken(&self, element: &TokenStream, lifetime: &TokenStream) -> TokenStream {
        match self {
            Form::Scalar => quote!(#element),
            Form::Array(len) => {
                let len = number(*len);
                let life = (lifetime.to_string() != "'_").then(|| lifetime.clone());
                quote!(&#life [#element; #len])
            }
            Form::View(rank) => {
                let rank = number(*rank);
                quote!(::onnxc_runtime::view::View<#lifetime, #element, #rank>)
            }
            Form::Heap(rank) => {
                let rank = number(*rank);
                quote!(::onnxc_runtime::view::Tensor<#element, #rank>)
            }
            Form::Sequence => quote!(::onnxc_runtime::sequence::Sequence<#element>),
            Form::Map(key) | Form::Maps(key, Values::Arena) => {
                let key = key_of(*key);
                quote!(::onnxc_runtime::map::Maps<#lifetime, #key, #element>)
            }
            Form::Maps(key, Values::Heap) => {
                let key = key_of(*key);
                quote!(::onnxc_runtime::map::Maps<'static, #key, #element>)
            }
            Form::Optional(form) => {
                let form = form.taken(element, lifetime);
                quote!(::core::option::Option<#form>)
            }
        }
    }

    /// The output: made of the local that its memory is borrowed as, of what was made on the heap,
    /// and of whether it is there.
    pub fn give(
        &self,
        plan: &Plan,
        port: &Port,
        local: &Ident,
        heap: &TokenStream,
        given: &TokenStream,
    ) -> TokenStream {
        let shape = sizes(port.shape());
        match self {
            Form::Scalar => quote!(#local[0]),
            Form::Array(_) => quote!(#local),
            Form::View(_) => quote!(View::new(#shape, #local)?),
            Form::Heap(_) => quote!(::onnxc_runtime::view::Tensor::new(#shape, #heap)?),
            Form::Sequence => heap.clone(),
            Form::Map(_) | Form::Maps(_, Values::Arena) => maps(plan, port, &quote!(#local)),
            Form::Maps(_, Values::Heap) => maps(plan, port, heap),
            Form::Optional(form) => {
                let value = form.give(plan, port, local, heap, given);
                quote!(if #given { Some(#value) } else { None })
            }
        }
    }
}

/// The type of the keys that a module has for constants.
fn key_of(key: DType) -> TokenStream {
    if key == DType::String { quote!(&'static str) } else { super::method::element(key) }
}

/// Maps of constant keys.
fn maps(plan: &Plan, port: &Port, values: &TokenStream) -> TokenStream {
    let keys = port.beside.as_ref().map(|keys| &plan.buffers[keys.buffer].place);
    let Some(Place::Weight { weight, .. }) = keys else {
        unreachable!("the keys of a sequence of maps are constants")
    };
    let keys: Vec<Literal> = match &weight.constant().data {
        Data::Strings(keys) => keys.iter().map(|key| Literal::string(key)).collect(),
        Data::Bytes(_) => {
            let keys = weight.constant().ints().unwrap_or_default();
            keys.into_iter().map(Literal::i64_unsuffixed).collect()
        }
    };
    quote!(::onnxc_runtime::map::Maps::new(&[#(#keys),*], #values))
}
