//! Generates the function with the kernel calls of a plan.

use super::{
    ArenaIn,
    chunks::Sink,
    constants::{Constants, Memory, Slot},
    made::Made,
    method::Method,
    output::Sources,
    sizes::Sizes,
    text::line,
    tokens::{join, number, parse_tokens},
    weights,
};
use crate::{
    dim::Dim,
    dtype::DType,
    ident,
    plan::{
        Arg, Buffer, BufferId, Call, Check, Condition, Form, Kind, Operand, Operands, Place, Plan,
        Port, Rule, Source, Step, UseCounts,
    },
    ty::Type,
};
use proc_macro2::{Delimiter, Group, Ident, TokenStream};
use quote::{ToTokens, format_ident, quote};
use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap, HashSet},
};

/// The length above which arguments become named constants. prettyplease keeps shorter ones on one
/// line.
const LONGEST_INLINE: usize = 34;

/// The number of blocks around the statements of a function.
const DEPTH: usize = 2;

/// Returns the function with the kernel calls of a method.
pub fn function(method: &Method<'_>, constants: &RefCell<Constants>) -> TokenStream {
    let mut sizes = Sizes::first_pass(method.plan);
    if !sizes.are_numbers(method.plan) {
        let not_kept = Constants::new(Sink::Drop, std::iter::empty());
        let mut first = Body::new(method, &not_kept, sizes);
        first.function();
        sizes = first.sizes;
    }
    let mut second = Body::new(method, constants, sizes.second_pass());
    let (function, buffers) = (second.function(), second.buffers_function());
    join([function, buffers])
}

/// Returns whether the module of these methods needs the heap of the runtime library.
pub fn needs_alloc<'m>(mut methods: impl Iterator<Item = &'m Method<'m>>) -> bool {
    const ON_HEAP: [&str; 3] = ["arena::heap", "arena::heap_of", "sequence::Sequence"];
    let has_strings = |method: &Method| {
        method.strings > 0 || method.inputs.iter().any(|input| input.dtype == DType::String)
    };
    methods.any(|method| {
        let is_imported = |path: &&str| method.cx.imports.contains(path);
        method.cx.arena == ArenaIn::Heap
            || has_strings(method)
            || ON_HEAP.iter().any(is_imported)
            || method.plan.buffers.iter().any(|(_, buffer)| buffer.kind == Kind::Sequence)
    })
}

pub(super) struct Body<'p> {
    pub(super) plan: &'p Plan,
    pub(super) method: &'p Method<'p>,
    pub(super) constants: &'p RefCell<Constants>,
    pub(super) sizes: Sizes,
    /// The constant for a slot, by buffer.
    pub(super) slots: BTreeMap<BufferId, Ident>,
    /// Scratch memory without elements.
    pub(super) empty: HashSet<BufferId>,
    /// The number of each buffer that a run places.
    pub(super) numbers: HashMap<BufferId, usize>,
    /// Scratch memory.
    pub(super) scratch: HashSet<BufferId>,
    /// The index in the constant strings, by buffer.
    strings: HashMap<BufferId, usize>,
    /// The heap buffers that exist already.
    pub(super) made: Made,
    /// The heap buffers that are freed.
    pub(super) freed: HashSet<BufferId>,
    uses: UseCounts,
    /// The value after which new variables are named.
    subject: String,
    /// The number of blocks around the steps that are being generated.
    depth: usize,
    /// The weight of the blocks inside the step that is being generated.
    inside: usize,
}

/// A part of the arena that a call uses, and the variable for it.
pub(super) struct Local {
    pub(super) operand: Operand,
    pub(super) written: bool,
    pub(super) name: Ident,
}

impl<'p> Body<'p> {
    fn new(method: &'p Method<'p>, constants: &'p RefCell<Constants>, sizes: Sizes) -> Body<'p> {
        let plan = method.plan;
        let scratch = scratch(plan);
        let is_empty = |id: &BufferId| plan.buffers[*id].len.known() == Some(0);
        let strings = weights::strings(plan).into_iter().enumerate();
        let mut body = Body {
            plan,
            method,
            constants,
            sizes,
            slots: BTreeMap::new(),
            numbers: HashMap::new(),
            empty: scratch.iter().copied().filter(is_empty).collect(),
            scratch,
            strings: strings.map(|(i, (id, _))| (id, i)).collect(),
            made: Made::default(),
            freed: HashSet::new(),
            uses: UseCounts::of(plan),
            subject: String::new(),
            depth: DEPTH,
            inside: 0,
        };
        body.numbers = body.number_placed();
        let used = body.used();
        for (id, buffer) in plan.buffers.iter().filter(|(id, _)| used.contains(id)) {
            body.slots.extend(body.slot_constant(id, buffer).map(|constant| (id, constant)));
        }
        body
    }

    /// The function: it reads the inputs, runs the steps and returns the outputs.
    fn function(&mut self) -> TokenStream {
        let steps = self.steps(&self.plan.steps);
        let ports = self.plan.outputs.iter();
        let flags = ports.clone().map(|port| match port.ty {
            Type::Optional(_) => Some(self.element(port.companion.as_ref()?)),
            _ => None,
        });
        let flags: Vec<Option<TokenStream>> = flags.collect();
        let heap: Vec<TokenStream> =
            ports.map(|port| self.made_or_new(port.operand.buffer)).collect();
        let outputs = self.sizes.with_lets(|| {
            let keep = self.method.keep_states(&|dim| self.size(dim));
            let outputs = self.method.give_outputs(&Sources {
                slot: &|i| self.output_slot(i),
                heap: &|i| heap[i].clone(),
                is_given: &|i| flags[i].clone(),
                size: &|dim| self.size(dim),
            });
            quote!(#keep #outputs)
        });
        let constant = |of: &Operand| {
            let slice = self.slice(of, false, &[]);
            let is_text = self.plan.buffers[of.buffer].dtype == DType::String;
            if is_text { quote!(#slice[..]) } else { slice }
        };
        let layout = self.lay_out();
        let bind = self.method.bind_inputs(&constant, &|of| self.slot(of), &layout);
        let start = self.method.observer_start();
        let head = self.method.function_head();
        let body =
            Group::new(Delimiter::Brace, join([bind, start.unwrap_or_default(), steps, outputs]));
        quote! {
            blank!();
            #head #body
        }
    }

    /// The buffers that the function uses, except scratch memory without elements.
    fn used(&self) -> HashSet<BufferId> {
        let plan = self.plan;
        let mut used: HashSet<BufferId> = plan.defaults().map(|operand| operand.buffer).collect();
        used.extend(plan.outputs.iter().flat_map(Port::operands).map(|operand| operand.buffer));
        if self.method.keeps_state() {
            used.extend(plan.results().map(|operand| operand.buffer));
            used.extend(plan.states.iter().map(|state| state.found.operand.buffer));
        }
        crate::plan::step::operands(&plan.steps, &mut |operand| {
            used.insert(operand.buffer);
        });
        &used - &self.empty
    }

    /// The constant for the slot of a buffer in the arena or among the weights.
    fn slot_constant(&self, id: BufferId, buffer: &Buffer) -> Option<Ident> {
        let dtype = buffer.dtype;
        if self.plan.is_dynamic(id) {
            return Some(self.dynamic_slot(id));
        }
        let (slot, note) = match &buffer.place {
            _ if dtype == DType::String => return None,
            Place::Arena { offset, capacity } => {
                let len = capacity.known().and_then(|len| usize::try_from(len).ok());
                let len = len.expect("the compiler places buffers of a fixed capacity");
                let slot = Slot { memory: Memory::Arena, offset: *offset, len, dtype };
                (slot, buffer.shape.as_deref().map_or(String::new(), shape_note))
            }
            Place::Weight { offset, weight, .. } => {
                let slot =
                    Slot { memory: Memory::Weights, offset: *offset, len: weight.len(), dtype };
                let shape: Vec<Dim> = weight.constant().shape.iter().map(|&n| n.into()).collect();
                let packed = if weight.is_ordered() { ", packed" } else { "" };
                (slot, shape_note(&shape) + packed)
            }
            Place::Input(_) | Place::Heap => return None,
        };
        let imports = &self.method.cx.imports;
        imports.item("arena::Slot");
        // The constant, which is written later, names the type.
        imports.element(dtype);
        Some(self.constants.borrow_mut().slot(&self.method.names[id], slot, note))
    }

    pub(super) fn steps(&mut self, steps: &[Step]) -> TokenStream {
        let mut block = self.constants.borrow().sink.block(self.depth);
        let around = std::mem::take(&mut self.inside);
        self.depth += 1;
        for (i, last_used) in self.uses.last_uses(steps).into_iter().enumerate() {
            let step = &steps[i];
            self.subject = self.subject_of(step);
            self.sizes.open();
            let statements = match step {
                Step::Call(call) => self.call(call),
                Step::Check(check) => self.check(check),
                Step::If(step) => self.branch(step),
                Step::Loop(step) => self.iterations(step),
            };
            let observed = self.observe(step, steps.get(i + 1));
            let statements = join([statements, observed]);
            let statements = join([self.sizes.close(statements), self.release(&last_used)]);
            block.push(statements, std::mem::take(&mut self.inside));
        }
        self.depth -= 1;
        let (tokens, weight) = block.finish();
        self.inside = around + weight;
        tokens
    }

    /// Frees heap buffers that no later step uses.
    fn release(&mut self, buffers: &[BufferId]) -> TokenStream {
        let is_freed = |id: &&BufferId| {
            self.plan.buffers[**id].place == Place::Heap && self.made.contains(**id)
        };
        let freed: Vec<BufferId> = buffers.iter().filter(is_freed).copied().collect();
        self.freed.extend(&freed);
        let names = freed.iter().map(|id| format_ident!("{}", self.method.names[*id]));
        quote!(#(drop(#names);)*)
    }

    /// The value after which the variables of a step are named: its first output, or the node.
    fn subject_of(&self, step: &Step) -> String {
        let node = match step {
            Step::Call(call) => match call.writes().next() {
                Some(written) => return self.method.names[written.buffer].clone(),
                None => &call.node,
            },
            Step::Check(check) => &check.node,
            Step::If(step) => &step.node,
            Step::Loop(step) => &step.node,
        };
        ident::snake(node.split(": ").next().unwrap_or_default())
    }

    fn call(&mut self, call: &Call) -> TokenStream {
        let comment = line(&call.node);
        let skip = call.overwritten();
        let mut locals = Vec::new();
        for operand in call.writes() {
            self.local(operand, true, &mut locals);
        }
        for operand in call.inputs[skip..].iter().filter_map(Arg::operand) {
            self.local(operand, false, &mut locals);
        }
        let made = call.writes().map(|operand| self.make(operand)).collect::<TokenStream>();
        let borrow = self.borrow(&locals);
        if let Some(custom) = call.params.custom() {
            let call = self.custom(call, custom, &locals);
            return quote!(comment!(#comment); #made #borrow #call);
        }
        let (structs, operands) = self.operands(call, &locals);
        let sizes = (!call.binds.is_empty()).then(|| quote!(&mut sizes));
        let arguments = sizes.into_iter().chain(operands).chain(self.geometry(call));
        let kernel = self.kernel(call);
        let question = call.checked.then(|| quote!(?));
        let (before, after) = bindings(call);
        let call = quote!(#kernel(#(#arguments),*) #question;);
        join([quote!(comment!(#comment);), made, borrow, before, structs, call, after])
    }

    /// The inputs and outputs as arguments of a kernel, and the structs that hold some of them.
    fn operands(&self, call: &Call, locals: &[Local]) -> (TokenStream, Vec<TokenStream>) {
        let inputs = call.inputs[call.overwritten()..].iter().enumerate();
        let inputs = inputs.map(|(i, arg)| (Source::Input(i), self.argument(arg, false, locals)));
        let outputs = call.outputs.iter().enumerate();
        let outputs = outputs.map(|(i, arg)| (Source::Output(i), self.argument(arg, true, locals)));
        let mut arguments: Vec<(Source, TokenStream)> = match call.form {
            Form::InPlace | Form::Updates => outputs.chain(inputs).collect(),
            Form::Apart | Form::MayReuse => inputs.chain(outputs).collect(),
        };
        let mut structs = TokenStream::new();
        for Operands { variable, path, fields } in call.params.operands(call.form) {
            let is_field = |source: &Source| fields.iter().any(|(_, field)| field == source);
            let first = arguments.iter().position(|(source, _)| is_field(source));
            let first = first.expect("a struct of operands has fields");
            let values = fields.iter().map(|(name, field)| {
                let argument = arguments.iter().find(|(source, _)| source == field);
                let name = format_ident!("{name}");
                let (_, value) = argument.expect("the call gives every operand of its kernel");
                if name == value.to_string() { quote!(#name) } else { quote!(#name: #value) }
            });
            let variable = format_ident!("{variable}");
            let ty = self.method.cx.imports.item(path);
            structs.extend(quote!(let #variable = #ty { #(#values),* };));
            arguments[first].1 = variable.into_token_stream();
            let mut index = 0..;
            arguments.retain(|(source, _)| index.next() == Some(first) || !is_field(source));
        }
        (structs, arguments.into_iter().map(|(_, argument)| argument).collect())
    }

    /// The path of a kernel, from the module of its family.
    fn kernel(&self, call: &Call) -> TokenStream {
        let suffix = if call.form == Form::InPlace { "_in_place" } else { "" };
        self.method.cx.imports.function(&format!("kernels::{}{suffix}", call.kernel))
    }

    /// Makes a heap buffer before it is first written.
    pub(super) fn make(&mut self, operand: &Operand) -> TokenStream {
        let buffer = &self.plan.buffers[operand.buffer];
        if buffer.place != Place::Heap || !self.made.insert(operand.buffer) {
            return TokenStream::new();
        }
        let name = format_ident!("{}", self.method.names[operand.buffer]);
        let new = self.new_buffer(operand.buffer);
        quote!(let mut #name = #new;)
    }

    /// A new heap buffer.
    pub(super) fn new_buffer(&self, id: BufferId) -> TokenStream {
        let (buffer, imports) = (&self.plan.buffers[id], &self.method.cx.imports);
        let ty = imports.element(buffer.dtype);
        match buffer.kind {
            Kind::Elements if buffer.len.known().is_none() => {
                let heap_of = imports.item("arena::heap_of");
                let factors =
                    factors(&buffer.len).into_iter().map(|factor| self.size_of(&factor, id));
                quote!(#heap_of::<#ty>(&[#(#factors),*])?)
            }
            Kind::Elements => {
                let (heap, len) = (imports.item("arena::heap"), self.size_of(&buffer.len, id));
                quote!(#heap::<#ty>(#len))
            }
            Kind::Sequence => {
                let sequence = imports.item("sequence::Sequence");
                quote!(#sequence::<#ty>::new())
            }
        }
    }

    /// A heap buffer, which is new if nothing was written to it. Empty for other buffers.
    pub(super) fn made_or_new(&self, id: BufferId) -> TokenStream {
        match self.plan.buffers[id].place {
            Place::Heap if self.made.contains(id) => {
                format_ident!("{}", self.method.names[id]).into_token_stream()
            }
            Place::Heap => self.new_buffer(id),
            Place::Arena { .. } | Place::Weight { .. } | Place::Input(_) => TokenStream::new(),
        }
    }

    fn argument(&self, arg: &Arg, written: bool, locals: &[Local]) -> TokenStream {
        match arg {
            Arg::Tensor(operand) => self.slice(operand, written, locals),
            Arg::Optional(None) => quote!(None),
            Arg::Optional(Some(operand)) => {
                let slice = self.slice(operand, written, locals);
                quote!(Some(#slice))
            }
        }
    }

    /// The slice that a kernel gets.
    pub(super) fn slice(&self, operand: &Operand, written: bool, locals: &[Local]) -> TokenStream {
        let buffer = &self.plan.buffers[operand.buffer];
        let name = format_ident!("{}", self.method.names[operand.buffer]);
        let part = (operand.start.known() != Some(0) || operand.len != buffer.len).then(|| {
            let end = &operand.start + &operand.len;
            let [start, end] = [&operand.start, &end].map(|dim| self.size_of(dim, operand.buffer));
            quote!([#start..#end])
        });
        match &buffer.place {
            Place::Arena { .. } if self.empty.contains(&operand.buffer) => quote!(&mut []),
            Place::Arena { .. } => {
                let found = locals.iter().find(|l| l.operand == *operand && l.written == written);
                let found = found.expect("the call borrows each of its operands in the arena");
                found.name.to_token_stream()
            }
            Place::Weight { .. } if buffer.dtype == DType::String => {
                let i = number(self.strings[&operand.buffer]);
                quote!(&strings[#i] #part)
            }
            Place::Weight { .. } => {
                self.method.reads_weights.set(true);
                let slot = self.slot(operand);
                quote!(weights.get(#slot))
            }
            Place::Input(_) if part.is_none() => quote!(#name),
            Place::Input(_) => quote!(&#name #part),
            Place::Heap if written => quote!(&mut #name #part),
            Place::Heap => quote!(&#name #part),
        }
    }

    /// The arguments of a kernel after its inputs and outputs.
    fn geometry(&self, call: &Call) -> Vec<TokenStream> {
        let mut fixed = true;
        call.params.visit(&mut |dim| fixed &= dim.known().is_some());
        let sources = call.params.source(&|dim| self.size_text(dim, &self.subject));
        let arguments = sources.into_iter().map(|source| match struct_name(&source) {
            Some(ty) if fixed && source.len() > LONGEST_INLINE => {
                let mut constants = self.constants.borrow_mut();
                constants
                    .geometry(&self.subject, ty, &source, parse_tokens(&source))
                    .into_token_stream()
            }
            _ => parse_tokens(&source),
        });
        arguments.collect()
    }

    /// A constant of a type, named after the value that the step is about.
    pub(super) fn constant(&self, kind: &str, ty: &TokenStream, value: TokenStream) -> Ident {
        self.constants.borrow_mut().item(&self.subject, kind, ty, value)
    }

    fn check(&self, check: &Check) -> TokenStream {
        let (node, rule) = match &check.rule {
            Rule::Node(rule) => (line(&check.node), line(rule)),
            Rule::Value(rule) => (String::new(), line(rule)),
        };
        let (function, a, b) = match &check.condition {
            Condition::Equal(a, b) => ("check_equal", a, b),
            Condition::Broadcast(a, b) => ("check_broadcast", a, b),
            Condition::AtLeast(a, b) => ("check_at_least", a, b),
        };
        // Negative terms move to the other side, so that neither side is below zero.
        let is_negative = [a, b].iter().any(|dim| dim.parts().1.known() != Some(0));
        let moves = is_negative && !matches!(check.condition, Condition::Broadcast(..));
        let (a, b) = if moves { (a - b).parts() } else { (a.clone(), b.clone()) };
        let function = self.method.cx.imports.function(&format!("view::{function}"));
        let (a, b) = (self.size(&a), self.size(&b));
        match &check.condition {
            Condition::Broadcast(..) => quote!(#function(#node, #a, #b)?;),
            Condition::Equal(..) | Condition::AtLeast(..) => {
                quote!(#function(#node, #rule, #a, #b)?;)
            }
        }
    }

    /// A size as an expression; a variable for it is named after the subject of the step.
    pub(super) fn size(&self, dim: &Dim) -> TokenStream {
        parse_tokens(&self.size_text(dim, &self.subject))
    }

    /// A size of a buffer as an expression; a variable for it is named after the buffer.
    pub(super) fn size_of(&self, dim: &Dim, buffer: BufferId) -> TokenStream {
        let text = |dim: &Dim| self.size_text(dim, &self.method.names[buffer]);
        self.computed_size(dim, &text).unwrap_or_else(|| parse_tokens(&text(dim)))
    }

    fn size_text(&self, dim: &Dim, subject: &str) -> String {
        let text = self.sizes.text(dim, &|value| self.size_variable(value, subject));
        self.import_of(&text);
        text
    }

    /// Returns whether a size is not zero, as an expression.
    pub(super) fn condition(&self, dim: &Dim) -> TokenStream {
        let text = self.sizes.condition(dim, &|value| self.size_variable(value, &self.subject));
        self.import_of(&text);
        parse_tokens(&text)
    }

    /// A variable for a size of `subject`.
    pub(super) fn size_variable(&self, value: &str, subject: &str) -> Ident {
        self.import_of(value);
        self.method.fresh_name(subject, "len")
    }

    /// Imports the function that the source of a size calls.
    pub(super) fn import_of(&self, text: &str) {
        if text.contains("broadcast(") {
            self.method.cx.imports.item("view::broadcast");
        }
    }
}

/// The buffers in the arena that are scratch memory: one call writes them, and nothing reads them.
fn scratch(plan: &Plan) -> HashSet<BufferId> {
    let states = plan.states.iter().map(|state| &state.found.operand);
    let kept: HashSet<BufferId> = plan.results().chain(states).map(|o| o.buffer).collect();
    let mut uses: HashMap<BufferId, usize> = HashMap::new();
    crate::plan::step::operands(&plan.steps, &mut |operand| {
        *uses.entry(operand.buffer).or_default() += 1;
    });
    let buffers = plan.buffers.iter().filter(|(id, buffer)| {
        let is_placed = matches!(buffer.place, Place::Arena { .. });
        is_placed && buffer.shape.is_none() && uses.get(id) == Some(&1) && !kept.contains(id)
    });
    buffers.map(|(id, _)| id).collect()
}

/// A shape for a comment. That of a vector is omitted.
pub(super) fn shape_note(shape: &[Dim]) -> String {
    if shape.len() < 2 { String::new() } else { format!("{shape:?}") }
}

/// The name of the struct, if the source is a struct literal.
fn struct_name(source: &str) -> Option<&str> {
    let (name, _) = source.split_once(" {")?;
    name.chars().all(char::is_alphanumeric).then_some(name)
}

/// The factors of a size, if it is a product.
pub(super) fn factors(size: &Dim) -> Vec<Dim> {
    let mut terms = size.terms();
    match (terms.next(), terms.next()) {
        (Some((atoms, n)), None) => {
            let atoms = atoms.iter().map(|atom| Dim::term(std::slice::from_ref(atom), 1));
            (n != 1).then(|| n.into()).into_iter().chain(atoms).collect()
        }
        _ => vec![size.clone()],
    }
}

/// The statements before and after a call that computes sizes.
fn bindings(call: &Call) -> (TokenStream, TokenStream) {
    if call.binds.is_empty() {
        return Default::default();
    }
    let count = number(call.binds.len());
    let symbols = call.binds.iter().map(|symbol| format_ident!("{symbol}"));
    (quote!(let mut sizes = [0; #count];), quote!(let [#(#symbols),*] = sizes;))
}
