//! Sequences of calls of the runtime library, each of which must return, change and refuse what a
//! simple copy of the state says.

use crate::choices::Choices;
use onnxc_runtime::{
    arena::borrow,
    arena::{Block, Buffer, DynamicArena, DynamicSlot, InlineArena, Plain, Slot, Trailer, Weights},
    sequence::Sequence,
    variable::{Variable, Variables},
    view::{View, ViewMut},
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook},
    sync::Arc,
};

/// The number of blocks of the arena of fixed layout.
const BLOCKS: usize = 3;
/// The number of its bytes.
const BYTES: usize = BLOCKS * Block::BYTES;
/// The number of blocks at the start of the other arena, which keep their contents.
const HEAD: usize = 1;

const VARIABLES: &[Variable] = &[
    Variable::new::<f32>("w", "float", &[2, 3], 0),
    Variable::new::<bool>("seen", "bool", &[5], 64),
    Variable::new::<i64>("step", "int64", &[], 128),
];

/// The objects, and what they must hold.
#[derive(Default)]
struct State {
    arena: InlineArena<BLOCKS>,
    bytes: Vec<u8>,
    dynamic: DynamicArena<HEAD>,
    head: Vec<u8>,
    sequence: Sequence<u16>,
    tensors: Vec<(Vec<usize>, Vec<u16>)>,
    weights: Option<Weights>,
}

/// Runs the target.
pub fn run(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let mut state =
        State { bytes: vec![0; BYTES], head: vec![0; HEAD * Block::BYTES], ..State::default() };
    while choices.has_more() {
        match choices.byte() % 8 {
            0 => state.fill::<u8>(&mut choices),
            1 => state.fill::<f32>(&mut choices),
            2 => state.copy(&mut choices),
            3 => state.set_variable(&mut choices),
            4 => state.lay_out(&mut choices),
            5 => state.change_sequence(&mut choices),
            6 => state.change_weights(&mut choices),
            _ => view(&mut choices),
        }
        state.check();
    }
}

/// Returns the result, or `None` if the call panics. No message is printed, and the fuzzer does not
/// end.
fn unless_it_panics<T>(call: impl FnOnce() -> T) -> Option<T> {
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    let result = catch_unwind(AssertUnwindSafe(call));
    set_hook(hook);
    result.ok()
}

/// Returns a slot near the arena, and its range of bytes. Most are inside.
fn slot<T: Plain>(choices: &mut Choices<'_>) -> (Slot<T>, usize, usize) {
    let size = size_of::<T>();
    let start = choices.below(BYTES / size + 2) * size;
    let len = usize::from(choices.byte() % 24);
    (Slot::new(start, len), start, start + len * size)
}

/// Returns a shape, most of the time a small one.
fn shape<const R: usize>(choices: &mut Choices<'_>) -> [usize; R] {
    [(); R].map(|()| match choices.byte() {
        255 => usize::MAX,
        254 => isize::MAX as usize,
        byte => usize::from(byte % 5),
    })
}

/// Returns the number of elements of a shape within the limits that `View::new` documents.
fn count(shape: &[usize]) -> Option<usize> {
    let sizes = || shape.iter().map(|&size| size as u128);
    let product = sizes().filter(|&size| size > 0).fold(1, u128::saturating_mul);
    let is_empty = shape.contains(&0);
    let is_wide = is_empty && sizes().any(|size| size >= 1 << 31);
    let is_valid = product < 1 << 63 && !is_wide;
    is_valid.then_some(if is_empty { 0 } else { product as usize })
}

impl State {
    /// Checks that all objects hold what they must.
    fn check(&mut self) {
        let all = Slot::<u8>::new(0, BYTES);
        assert_eq!(borrow(self.arena.blocks(), all.read()), self.bytes, "the arena");
        let head = Slot::<u8>::new(0, HEAD * Block::BYTES);
        assert_eq!(borrow(self.dynamic.blocks(), head.read()), self.head, "the head");
        let found: Vec<_> = self.sequence.iter().map(|(s, d)| (s.to_vec(), d.to_vec())).collect();
        assert_eq!(found, self.tensors, "the sequence");
    }

    /// Fills a slot.
    fn fill<T: Plain + Default>(&mut self, choices: &mut Choices<'_>) {
        let (slot, start, end) = slot::<T>(choices);
        let arena = self.arena.blocks();
        let done = unless_it_panics(|| borrow(arena, slot.write()).fill(T::default()));
        assert_eq!(done.is_some(), end <= BYTES, "slots inside the arena are accepted");
        if done.is_some() {
            self.bytes[start..end].fill(0);
        }
    }

    /// Copies a slot to another one.
    fn copy(&mut self, choices: &mut Choices<'_>) {
        let ((from, start, end), (to, to_start, to_end)) =
            (slot::<u16>(choices), slot::<bool>(choices));
        let arena = self.arena.blocks();
        let done = unless_it_panics(|| {
            let (from, to) = borrow(arena, (from.read(), to.write()));
            for (i, flag) in to.iter_mut().enumerate() {
                *flag = from.get(i).is_none_or(|number| number % 2 == 0);
            }
        });
        let apart = end <= to_start || to_end <= start;
        let inside = end <= BYTES && to_end <= BYTES;
        assert_eq!(done.is_some(), inside && apart, "slots that do not overlap are accepted");
        if done.is_some() {
            for i in 0..to_end - to_start {
                let number = self.bytes[start..end].as_chunks::<2>().0.get(i);
                let flag = number.is_none_or(|number| number[0] % 2 == 0);
                self.bytes[to_start + i] = u8::from(flag);
            }
        }
    }

    /// Sets a variable.
    fn set_variable(&mut self, choices: &mut Choices<'_>) {
        const NAMES: [&str; 4] = ["w", "seen", "step", "other"];
        let name = NAMES[choices.below(NAMES.len())];
        let len = [24, 5, 8, 7][choices.below(4)];
        let new: Vec<u8> = (0..len).map(|_| choices.byte() % 3).collect();
        let mut variables = Variables::new(VARIABLES, self.arena.blocks());
        let done = variables.set(name, &new);
        let start = match (name, len) {
            ("w", 24) => 0,
            ("seen", 5) if new.iter().all(|&byte| byte < 2) => 64,
            ("step", 8) => 128,
            _ => return assert!(done.is_err(), "{name} has other bytes"),
        };
        assert_eq!((done, variables.get(name)), (Ok(()), Some(&*new)));
        self.bytes[start..start + len].copy_from_slice(&new);
    }

    /// Lays out buffers, and writes and reads them as a run does.
    fn lay_out(&mut self, choices: &mut Choices<'_>) {
        const SLOTS: [DynamicSlot<u8>; 3] =
            [DynamicSlot::new(0, 0, 1), DynamicSlot::new(1, 1, 2), DynamicSlot::new(2, 2, 3)];
        let sizes: [usize; 2] = shape(choices);
        let buffers = |[a, b]: [usize; 2]| -> [Buffer; 3] {
            [SLOTS[0].sized(&[a, b]), SLOTS[1].sized(&[b, 3]), SLOTS[2].sized(&[a])]
        };
        let Ok((blocks, layout)) = self.dynamic.lay_out(sizes, buffers) else {
            return assert!(sizes.iter().any(|&size| size > 1000), "{sizes:?} fit the memory");
        };
        if buffers(sizes).iter().any(|buffer| buffer.bytes > 1 << 16) {
            return;
        }
        let [a, b, c] = SLOTS.map(|slot| layout.slot(slot));
        borrow(blocks, a.write()).fill(1);
        let (from, to) = borrow(blocks, (a.read(), b.write()));
        to.fill(2);
        assert!(from.iter().all(|&byte| byte == 1), "buffers of one step do not overlap");
        let (from, to) = borrow(blocks, (b.read(), c.write()));
        to.fill(3);
        assert!(from.iter().all(|&byte| byte == 2), "buffers of one step do not overlap");
        self.head.fill(choices.byte());
        let head = Slot::<u8>::new(0, self.head.len());
        borrow(self.dynamic.blocks(), head.write()).copy_from_slice(&self.head);
    }

    /// Appends a tensor to the sequence, or copies or clears it.
    fn change_sequence(&mut self, choices: &mut Choices<'_>) {
        match choices.byte() % 8 {
            0 => {
                self.sequence.clear();
                self.tensors.clear();
            }
            1 => {
                let mut other = Sequence::new();
                other.push(&[1], &[7]).expect("the shape has one element");
                other.clone_from(&self.sequence);
                self.sequence = other;
            }
            _ => {
                let shape: [usize; 2] = shape(choices);
                let len = usize::from(choices.byte() % 17);
                let data = vec![u16::from(choices.byte()); len];
                let done = self.sequence.push(&shape, &data);
                assert_eq!(done.is_ok(), count(&shape) == Some(len), "a tensor of its shape");
                if done.is_ok() {
                    self.tensors.push((shape.to_vec(), data));
                }
            }
        }
        let i = choices.below(self.tensors.len() + 1);
        let (found, expected) = (self.sequence.view::<2>(i), self.tensors.get(i));
        assert_eq!(found.ok().map(|view| view.data()), expected.map(|(_, data)| &data[..]));
        assert!(self.sequence.view::<3>(i).is_err(), "the tensors have two axes");
    }

    /// Gives, shares, reads, damages or drops weights.
    fn change_weights(&mut self, choices: &mut Choices<'_>) {
        /// Bytes that start at any address.
        struct Unaligned(Vec<u8>, usize);
        impl AsRef<[u8]> for Unaligned {
            fn as_ref(&self) -> &[u8] {
                &self.0[self.1..]
            }
        }
        let (start, len) = (usize::from(choices.byte() % 20), usize::from(choices.byte() % 70));
        let data: Vec<u8> = (0..len).map(|i| i as u8).collect();
        let layout = u64::from(choices.byte() % 2);
        let mut file = [vec![0; start], data.clone()].concat();
        file.extend(Trailer::new(layout, &data).to_bytes());
        let is_damaged = choices.byte() % 4 == 0 && len > 0;
        if is_damaged {
            file[start] ^= 1;
        }
        let given = Weights::from(Arc::new(Unaligned(file, start)));
        assert_eq!(given.verify().is_err(), is_damaged, "the checksum");
        let checked = given.check(len, 0);
        assert_eq!(checked.is_ok(), layout == 0, "the layout");
        let Ok(weights) = checked else { return };
        let previous = self.weights.replace(weights.clone());
        drop(weights);
        let view = self.weights.as_ref().expect("it was set above").view();
        let (from, count) = (choices.below(12) * 4, choices.below(12));
        let found = unless_it_panics(|| view.get::<u32>(Slot::new(from, count)).to_vec());
        let whole = len + Trailer::BYTES;
        assert_eq!(found.is_some(), from + count * 4 <= whole, "slots inside the weights");
        drop(previous);
    }
}

/// Makes views of tensors, and changes what they show.
fn view(choices: &mut Choices<'_>) {
    let shape: [usize; 3] = shape(choices);
    let mut data = vec![choices.float(); usize::from(choices.byte() % 65)];
    let expected = count(&shape) == Some(data.len());
    assert_eq!(View::new(shape, &data).is_ok(), expected, "a view of its shape");
    let Ok(mut view) = ViewMut::new(shape, &mut data) else {
        return assert!(!expected, "a view of its shape");
    };
    view.data_mut().fill(2.0);
    assert!(view.shape() == shape && view.into_data().iter().all(|&number| number == 2.0));
}
