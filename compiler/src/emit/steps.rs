//! The steps of a plan, a line or three each.

use super::{
    ArenaIn, docs,
    method::{Face, element, number, size},
    port::Form as PortForm,
    weights,
};
use crate::{
    dim::Dim,
    dtype::DType,
    ident::Names,
    plan::{Arg, BufferId, Call, Check, Condition, Form, Kind, Operand, Place, Plan, Port, Step},
    ty::Type,
};
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Arguments longer than this are named constants: what prettyplease keeps on one line.
const INLINE: usize = 34;

/// The function that does the steps, with the names that it uses.
pub fn body(plan: &Plan, face: &Face<'_>) -> TokenStream {
    let mut body = Body::new(plan, face);
    let steps = body.steps(&plan.steps);
    let ports = plan.outputs.iter();
    let flags = ports.clone().map(|port| match port.ty {
        Type::Optional(_) => Some(body.element(port.beside.as_ref()?)),
        _ => None,
    });
    let flags: Vec<Option<TokenStream>> = flags.collect();
    let heap = ports.map(|port| body.made_or_new(port.operand.buffer));
    let heap: Vec<TokenStream> = heap.collect();
    let outputs =
        face.give_outputs(&|i| body.output_slot(i), &|i| heap[i].clone(), &|i| flags[i].clone());
    let constant = |of: &Operand| {
        let slice = body.slice(of, false, &[]);
        let is_text = plan.buffers[of.buffer].dtype == DType::String;
        if is_text { quote!(#slice[..]) } else { slice }
    };
    let slot = |of: &Operand| body.slot(of);
    let (head, bind) = (face.steps_head(), face.bind_inputs(&constant, &slot));
    let keep = face.keep_states();
    let (uses, constants) = (body.uses(), body.constants());
    let needs_alloc = body.needs_alloc().then(|| {
        quote! {
            blank!();
            ::onnxc_runtime::needs_alloc!();
        }
    });
    quote! {
        #uses
        #needs_alloc
        blank!();
        #head {
            #bind
            #steps
            #keep
            #outputs
        }
        blank!();
        #constants
    }
}

pub(super) struct Body<'p> {
    pub(super) plan: &'p Plan,
    pub(super) face: &'p Face<'p>,
    /// The paths in the runtime library that the steps name.
    pub(super) paths: BTreeSet<String>,
    constant_names: Names,
    /// The constant for a slot, by buffer.
    slots: BTreeMap<BufferId, Ident>,
    /// The scratch memory of which nothing is needed.
    empty: HashSet<BufferId>,
    /// Which of the constant strings it is, by buffer.
    strings: HashMap<BufferId, usize>,
    /// The constant for a geometry, by its source.
    geometries: HashMap<String, Ident>,
    /// The geometries in the order of their first use.
    geometry_items: Vec<TokenStream>,
    /// The heap buffers that are there already.
    pub(super) made: HashSet<BufferId>,
    pub(super) borrows: bool,
}

/// A part of the arena that a call uses, and the variable for it.
pub(super) struct Local {
    operand: Operand,
    written: bool,
    name: Ident,
}

impl<'p> Body<'p> {
    fn new(plan: &'p Plan, face: &'p Face<'p>) -> Body<'p> {
        let mut constant_names = Names::default();
        let mut slots = BTreeMap::new();
        let mut used: HashSet<BufferId> = plan.defaults().map(|operand| operand.buffer).collect();
        used.extend(plan.outputs.iter().flat_map(Port::operands).map(|operand| operand.buffer));
        if face.keeps_state() {
            used.extend(plan.results().map(|operand| operand.buffer));
            used.extend(plan.states.iter().map(|state| state.found.operand.buffer));
        }
        crate::plan::memory::operands(&plan.steps, &mut |operand| {
            used.insert(operand.buffer);
        });
        let empty = empty(plan);
        let strings = weights::strings(plan).into_iter().enumerate();
        let strings: HashMap<BufferId, usize> = strings.map(|(i, (id, _))| (id, i)).collect();
        let held = |id: &BufferId| {
            used.contains(id) && !empty.contains(id) && plan.buffers[*id].dtype != DType::String
        };
        for (id, buffer) in plan.buffers.iter().filter(|(id, _)| held(id)) {
            if matches!(buffer.place, Place::Arena { .. } | Place::Weight { .. }) {
                let name = constant_names.unique(face.names[id].to_uppercase());
                slots.insert(id, format_ident!("{name}"));
            }
        }
        Body {
            plan,
            face,
            paths: BTreeSet::new(),
            constant_names,
            slots,
            empty,
            strings,
            geometries: HashMap::new(),
            geometry_items: Vec::new(),
            made: HashSet::new(),
            borrows: false,
        }
    }

    pub(super) fn steps(&mut self, steps: &[Step]) -> TokenStream {
        let mut tokens = TokenStream::new();
        for step in steps {
            tokens.extend(match step {
                Step::Call(call) => self.call(call),
                Step::Check(check) => self.check(check),
                Step::If(step) => self.branch(step),
                Step::Loop(step) => self.iterations(step),
            });
        }
        tokens
    }

    fn call(&mut self, call: &Call) -> TokenStream {
        let comment = docs::line(&call.node);
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
        let given = call.inputs[skip..].iter().map(|arg| self.argument(arg, false, &locals));
        let taken = call.outputs.iter().map(|arg| self.argument(arg, true, &locals));
        let mut arguments: Vec<TokenStream> = match call.form {
            Form::InPlace | Form::Updates => taken.chain(given).collect(),
            Form::Apart | Form::MayReuse => given.chain(taken).collect(),
        };
        if !call.binds.is_empty() {
            arguments.insert(0, quote!(&mut sizes));
        }
        arguments.extend(self.geometry(call));
        let kernel = self.kernel(call);
        let refuse = call.checked.then(|| quote!(?));
        let (before, after) = binds(call);
        quote! {
            comment!(#comment);
            #made
            #borrow
            #before
            #kernel(#(#arguments),*) #refuse;
            #after
        }
    }

    /// The kernel's path behind its room.
    fn kernel(&mut self, call: &Call) -> TokenStream {
        let (room, name) = call.kernel.split_once("::").expect("a path has a room");
        self.paths.insert(format!("kernels::{room}"));
        let suffix = if call.form == Form::InPlace { "_in_place" } else { "" };
        let (room, name) = (format_ident!("{room}"), format_ident!("{name}{suffix}"));
        quote!(#room::#name)
    }

    /// Takes the operand among those that are borrowed from the arena, where it lies there.
    pub(super) fn local(&self, operand: &Operand, written: bool, locals: &mut Vec<Local>) {
        let placed = matches!(self.plan.buffers[operand.buffer].place, Place::Arena { .. });
        if !placed
            || self.empty.contains(&operand.buffer)
            || locals.iter().any(|local| local.operand == *operand && local.written == written)
        {
            return;
        }
        let same = locals.iter().filter(|local| local.operand.buffer == operand.buffer).count();
        let name = &self.face.names[operand.buffer];
        let name = match same {
            0 => format_ident!("{name}"),
            _ => self.face.derived(name, &format!("part_{same}")),
        };
        locals.push(Local { operand: operand.clone(), written, name });
    }

    pub(super) fn borrow(&mut self, locals: &[Local]) -> TokenStream {
        self.borrows |= !locals.is_empty();
        let names: Vec<&Ident> = locals.iter().map(|local| &local.name).collect();
        let accesses: Vec<TokenStream> = locals
            .iter()
            .map(|local| {
                let slot = self.slot(&local.operand);
                if local.written { quote!(#slot.write()) } else { quote!(#slot.read()) }
            })
            .collect();
        match names.as_slice() {
            [] => TokenStream::new(),
            [name] => quote!(let #name = borrow(arena, #(#accesses)*);),
            _ => quote!(let (#(#names),*) = borrow(arena, (#(#accesses),*));),
        }
    }

    /// The constant for the slot of an operand, cut to its part of the buffer.
    pub(super) fn slot(&self, operand: &Operand) -> TokenStream {
        let slot = &self.slots[&operand.buffer];
        let all = match &self.plan.buffers[operand.buffer].place {
            Place::Arena { capacity, .. } => Dim::from(*capacity),
            Place::Weight { weight, .. } => Dim::from(weight.len()),
            Place::Input(_) | Place::Heap => operand.len.clone(),
        };
        if operand.start.known() == Some(0) && operand.len == all {
            return quote!(#slot);
        }
        let (start, len) = (size(&operand.start), size(&operand.len));
        quote!(#slot.part(#start, #len))
    }

    /// The access to output `i` of the model, where it lies in the arena.
    fn output_slot(&self, i: usize) -> TokenStream {
        let slot = self.slot(&self.plan.outputs[i].operand);
        match self.face.output_form(i).content() {
            PortForm::Array(len) => {
                let len = number(*len);
                quote!(#slot.array::<#len>())
            }
            _ => quote!(#slot.read()),
        }
    }

    /// Makes a heap buffer before it is first written.
    pub(super) fn make(&mut self, operand: &Operand) -> TokenStream {
        let buffer = &self.plan.buffers[operand.buffer];
        if buffer.place != Place::Heap || !self.made.insert(operand.buffer) {
            return TokenStream::new();
        }
        let name = format_ident!("{}", self.face.names[operand.buffer]);
        let new = self.new_buffer(operand.buffer);
        quote!(let mut #name = #new;)
    }

    /// A heap buffer that nothing was written to.
    pub(super) fn new_buffer(&mut self, id: BufferId) -> TokenStream {
        let buffer = &self.plan.buffers[id];
        let (ty, len) = (element(buffer.dtype), size(&buffer.len));
        match buffer.kind {
            Kind::Elements if buffer.len.known().is_none() => {
                self.paths.insert("arena::heap_of".into());
                let factors = factors(&buffer.len).into_iter().map(|factor| self.size(&factor));
                let factors: Vec<TokenStream> = factors.collect();
                quote!(heap_of::<#ty>(&[#(#factors),*])?)
            }
            Kind::Elements => {
                self.paths.insert("arena::heap".into());
                quote!(heap::<#ty>(#len))
            }
            Kind::Sequence => {
                self.paths.insert("sequence::Sequence".into());
                quote!(Sequence::<#ty>::new())
            }
        }
    }

    /// A heap buffer, which is new where nothing was written to it; nothing for another buffer.
    pub(super) fn made_or_new(&mut self, id: BufferId) -> TokenStream {
        match self.plan.buffers[id].place {
            Place::Heap if self.made.contains(&id) => {
                format_ident!("{}", self.face.names[id]).into_token_stream()
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

    /// The slice that a kernel is given.
    pub(super) fn slice(&self, operand: &Operand, written: bool, locals: &[Local]) -> TokenStream {
        let buffer = &self.plan.buffers[operand.buffer];
        let name = format_ident!("{}", self.face.names[operand.buffer]);
        let part = (operand.start.known() != Some(0) || operand.len != buffer.len).then(|| {
            let (start, end) = (size(&operand.start), size(&(&operand.start + &operand.len)));
            quote!([#start..#end])
        });
        match &buffer.place {
            Place::Arena { .. } if self.empty.contains(&operand.buffer) => quote!(&mut []),
            Place::Arena { .. } => {
                let found = locals.iter().find(|l| l.operand == *operand && l.written == written);
                found.expect("every operand in the arena was borrowed").name.to_token_stream()
            }
            Place::Weight { .. } if buffer.dtype == DType::String => {
                let i = number(self.strings[&operand.buffer]);
                quote!(&strings[#i] #part)
            }
            Place::Weight { .. } => {
                let slot = self.slot(operand);
                quote!(weights.get(#slot))
            }
            Place::Input(_) if part.is_none() => quote!(#name),
            Place::Input(_) => quote!(&#name #part),
            Place::Heap if written => quote!(&mut #name #part),
            Place::Heap => quote!(&#name #part),
        }
    }

    /// What a kernel takes after its inputs and outputs.
    fn geometry(&mut self, call: &Call) -> Vec<TokenStream> {
        self.paths.extend(call.params.uses().into_iter().map(str::to_owned));
        let mut fixed = true;
        call.params.visit(&mut |dim| fixed &= dim.known().is_some());
        let sources = call.params.source();
        sources
            .into_iter()
            .map(|source| {
                if source.contains("broadcast(") {
                    self.paths.insert("view::broadcast".into());
                }
                if !fixed || struct_name(&source).is_none() || source.len() <= INLINE {
                    return source.parse().expect("a formula is an expression");
                }
                self.named_geometry(call, source)
            })
            .collect()
    }

    /// A constant for a geometry; equal ones share it.
    fn named_geometry(&mut self, call: &Call, source: String) -> TokenStream {
        if let Some(name) = self.geometries.get(&source) {
            return name.to_token_stream();
        }
        let ty = struct_name(&source).expect("only structs are named").to_owned();
        let value = source.parse().expect("a formula is an expression");
        let name = self.constant(&call.node, &ty, value);
        self.geometries.insert(source, name.clone());
        name.to_token_stream()
    }

    /// A constant of a type, named after a node.
    pub(super) fn constant(&mut self, node: &str, ty: &str, value: TokenStream) -> Ident {
        let node = node.split(": ").next().unwrap_or_default();
        let word = format!("{}_{}", crate::ident::snake(node), crate::ident::words(ty));
        let name = format_ident!("{}", self.constant_names.unique(word.to_uppercase()));
        let ty = format_ident!("{ty}");
        self.geometry_items.push(quote!(blank!(); const #name: #ty = #value;));
        name
    }

    fn check(&mut self, check: &Check) -> TokenStream {
        let node = docs::line(&check.node);
        let (function, a, b) = match &check.condition {
            Condition::Equal(a, b) => ("check_equal", a, b),
            Condition::Broadcast(a, b) => ("check_broadcast", a, b),
            Condition::AtLeast(a, b) => ("check_at_least", a, b),
        };
        // Both sides are moved to where they are sums, so that nothing dips below zero.
        let (a, b) = if matches!(check.condition, Condition::Broadcast(..)) {
            (a.clone(), b.clone())
        } else {
            (a - b).parts()
        };
        let (function, a, b) = (format_ident!("{function}"), self.size(&a), self.size(&b));
        quote!(::onnxc_runtime::view::#function(#node, #a, #b)?;)
    }

    pub(super) fn size(&mut self, dim: &Dim) -> TokenStream {
        let tokens = size(dim);
        if tokens.to_string().contains("broadcast (") {
            self.paths.insert("view::broadcast".into());
        }
        tokens
    }

    fn uses(&self) -> TokenStream {
        let mut paths = self.paths.clone();
        paths.insert("arena::Block".into());
        if self.face.has_weights() {
            paths.insert("arena::Aligned".into());
        }
        if !self.slots.is_empty() {
            paths.insert("arena::Slot".into());
        }
        if self.borrows
            || self.face.keeps_state()
            || self
                .plan
                .outputs
                .iter()
                .enumerate()
                .any(|(i, _)| self.face.output_form(i).is_in_arena())
        {
            paths.insert("arena::borrow".into());
        }
        let takes_view = (0..self.plan.inputs.len()).any(|i| match self.face.input_form(i) {
            PortForm::View(_) => true,
            // A default is a view, too.
            form => {
                let has_default = self.plan.inputs[i].default.is_some();
                has_default && matches!(form.content(), PortForm::View(_))
            }
        });
        let gives_view = (0..self.plan.outputs.len())
            .any(|i| matches!(self.face.output_form(i).content(), PortForm::View(_)));
        if takes_view || gives_view {
            paths.insert("view::View".into());
        }
        grouped(&paths)
    }

    /// Whether the module uses what the runtime library has with a heap alone.
    fn needs_alloc(&self) -> bool {
        const ON_HEAP: [&str; 3] = ["arena::heap", "arena::heap_of", "sequence::Sequence"];
        let is_named = ON_HEAP.iter().any(|path| self.paths.contains(*path));
        is_named || self.face.arena == ArenaIn::Heap || !self.strings.is_empty()
    }

    fn constants(&self) -> TokenStream {
        let slots = self.slots.iter().map(|(&id, name)| {
            let buffer = &self.plan.buffers[id];
            let (offset, len) = match &buffer.place {
                Place::Arena { offset, capacity } => (*offset, *capacity),
                Place::Weight { offset, weight, .. } => (*offset, weight.len()),
                Place::Input(_) | Place::Heap => unreachable!("only planned buffers have slots"),
            };
            let (ty, offset, len) = (element(buffer.dtype), number(offset), number(len));
            quote!(const #name: Slot<#ty> = Slot::new(#offset, #len);)
        });
        let geometries = &self.geometry_items;
        quote!(#(#slots)* #(#geometries)*)
    }
}

/// The memory of no elements that one call writes and nobody reads: most kernels take scratch
/// memory, and many need none for the sizes that they are given.
fn empty(plan: &Plan) -> HashSet<BufferId> {
    let states = plan.states.iter().map(|state| &state.found.operand);
    let kept: HashSet<BufferId> = plan.results().chain(states).map(|o| o.buffer).collect();
    let mut mentions: HashMap<BufferId, usize> = HashMap::new();
    crate::plan::memory::operands(&plan.steps, &mut |operand| {
        *mentions.entry(operand.buffer).or_default() += 1;
    });
    let buffers = plan.buffers.iter().filter(|(id, buffer)| {
        let is_placed = matches!(buffer.place, Place::Arena { .. });
        is_placed
            && buffer.len.known() == Some(0)
            && mentions.get(id) == Some(&1)
            && !kept.contains(id)
    });
    buffers.map(|(id, _)| id).collect()
}

/// One `use` for each module of the runtime library that `paths` name items of.
fn grouped(paths: &BTreeSet<String>) -> TokenStream {
    let mut rooms: BTreeMap<&str, Vec<Ident>> = BTreeMap::new();
    for path in paths {
        let (room, name) = path.rsplit_once("::").unwrap_or(("", path));
        rooms.entry(room).or_default().push(format_ident!("{name}"));
    }
    let uses = rooms.into_iter().map(|(room, names)| {
        let words = room.split("::").filter(|word| !word.is_empty());
        let room: Vec<Ident> = words.map(|word| format_ident!("{word}")).collect();
        match names.as_slice() {
            [name] => quote!(use ::onnxc_runtime::#(#room::)*#name;),
            _ => quote!(use ::onnxc_runtime::#(#room::)*{#(#names),*};),
        }
    });
    quote!(#(#uses)*)
}

/// The name of the struct, where the source is a literal of one.
fn struct_name(source: &str) -> Option<&str> {
    let (name, _) = source.split_once(" {")?;
    name.chars().all(char::is_alphanumeric).then_some(name)
}

/// What a size is the product of, as far as that can be seen.
fn factors(size: &Dim) -> Vec<Dim> {
    let mut terms = size.terms();
    match (terms.next(), terms.next()) {
        (Some((atoms, n)), None) => {
            let atoms = atoms.iter().map(|atom| Dim::term(std::slice::from_ref(atom), 1));
            (n != 1).then(|| n.into()).into_iter().chain(atoms).collect()
        }
        _ => vec![size.clone()],
    }
}

/// What stands before and after a call that settles sizes.
fn binds(call: &Call) -> (TokenStream, TokenStream) {
    if call.binds.is_empty() {
        return Default::default();
    }
    let count = call.binds.len();
    let symbols = call.binds.iter().map(|symbol| format_ident!("{symbol}"));
    let count = number(count);
    (quote!(let mut sizes = [0; #count];), quote!(let [#(#symbols),*] = sizes;))
}
