//! Typed ids, arenas that own items by id, and maps from ids to annotations.

use std::{
    fmt,
    marker::PhantomData,
    ops::{Index, IndexMut},
};

/// An index into one kind of arena.
pub trait Id: Copy + Eq + Ord + std::hash::Hash + fmt::Debug {
    /// Makes the id of the item at `index`.
    fn new(index: usize) -> Self;
    /// Returns the index of the item in its arena.
    fn index(self) -> usize;
}

/// Defines ids as `u32` newtypes, so that ids of different arenas have different types.
macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $crate::arena::Id for $name {
            fn new(index: usize) -> $name {
                $name(u32::try_from(index).expect("an arena holds fewer than 2^32 items"))
            }
            fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}
pub(crate) use ids;

/// Owns items of one type, each identified by its id.
#[derive(Clone)]
pub struct Arena<I, T> {
    items: Vec<T>,
    ids: PhantomData<I>,
}

impl<I: Id, T> Arena<I, T> {
    /// Makes an empty arena with memory for `count` items.
    pub fn with_capacity(count: usize) -> Self {
        Arena { items: Vec::with_capacity(count), ids: PhantomData }
    }

    /// Reserves memory for `count` more items.
    pub fn reserve(&mut self, count: usize) {
        self.items.reserve_exact(count);
    }

    /// Adds `item` and returns its id.
    pub fn push(&mut self, item: T) -> I {
        self.items.push(item);
        I::new(self.items.len() - 1)
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns whether the arena has no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Iterates over the items with their ids, in order of insertion.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (I, &T)> + ExactSizeIterator {
        self.items.iter().enumerate().map(|(i, item)| (I::new(i), item))
    }

    /// Iterates over the ids, in order of insertion.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + use<I, T> {
        (0..self.items.len()).map(I::new)
    }

    /// Returns the item, if the id is of this arena.
    pub fn get(&self, id: I) -> Option<&T> {
        self.items.get(id.index())
    }
}

impl<I, T> Default for Arena<I, T> {
    fn default() -> Self {
        Arena { items: Vec::new(), ids: PhantomData }
    }
}

impl<I: Id, T> Index<I> for Arena<I, T> {
    type Output = T;

    fn index(&self, id: I) -> &T {
        &self.items[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for Arena<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.index()]
    }
}

/// A map from ids of an arena to annotations.
#[derive(Clone)]
pub struct Map<I, T> {
    items: Vec<Option<T>>,
    ids: PhantomData<I>,
}

impl<I: Id, T> Map<I, T> {
    /// Sets the annotation of `id` and returns the previous one.
    pub fn insert(&mut self, id: I, item: T) -> Option<T> {
        if self.items.len() <= id.index() {
            self.items.resize_with(id.index() + 1, || None);
        }
        self.items[id.index()].replace(item)
    }

    /// Removes the annotation of `id` and returns it.
    pub fn remove(&mut self, id: I) -> Option<T> {
        self.items.get_mut(id.index())?.take()
    }

    /// Returns the annotation of `id`.
    pub fn get(&self, id: I) -> Option<&T> {
        self.items.get(id.index())?.as_ref()
    }

    /// Returns the annotation of `id`, mutably.
    pub fn get_mut(&mut self, id: I) -> Option<&mut T> {
        self.items.get_mut(id.index())?.as_mut()
    }

    /// Iterates over the ids with an annotation.
    pub fn ids(&self) -> impl Iterator<Item = I> + '_ {
        let known = self.items.iter().enumerate().filter(|(_, item)| item.is_some());
        known.map(|(i, _)| I::new(i))
    }

    /// Returns whether `id` has an annotation.
    pub fn contains(&self, id: I) -> bool {
        self.get(id).is_some()
    }
}

impl<I, T> Default for Map<I, T> {
    fn default() -> Self {
        Map { items: Vec::new(), ids: PhantomData }
    }
}

impl<I: Id, T> Index<I> for Map<I, T> {
    type Output = T;

    fn index(&self, id: I) -> &T {
        self.get(id).expect("an indexed id has an annotation")
    }
}

/// A map from ids of an arena to annotations, whose changes can be undone.
pub struct UndoMap<I, T> {
    now: Map<I, T>,
    /// Each change so far: the id, and its annotation before.
    changes: Vec<(I, Option<T>)>,
}

/// A state of an [`UndoMap`]: the number of changes up to it.
pub struct Mark(usize);

impl<I: Id, T> UndoMap<I, T> {
    /// Sets the annotation of `id`.
    pub fn insert(&mut self, id: I, item: T) {
        let before = self.now.insert(id, item);
        self.changes.push((id, before));
    }

    /// Returns the annotation of `id`.
    pub fn get(&self, id: I) -> Option<&T> {
        self.now.get(id)
    }

    /// Marks the current state.
    pub fn mark(&self) -> Mark {
        Mark(self.changes.len())
    }

    /// Undoes all changes since `mark`, which takes as long as the changes did.
    pub fn undo(&mut self, mark: Mark) {
        for (id, before) in self.changes.drain(mark.0..).rev() {
            match before {
                Some(item) => self.now.insert(id, item),
                None => self.now.remove(id),
            };
        }
    }
}

impl<I, T> Default for UndoMap<I, T> {
    fn default() -> Self {
        UndoMap { now: Map::default(), changes: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    ids! {
        Name
    }

    #[test]
    fn changes_are_undone_down_to_their_mark() {
        let [a, b] = [0, 1].map(Name::new);
        let mut map = UndoMap::default();
        map.insert(a, 'a');
        let outer = map.mark();
        map.insert(a, 'b');
        let inner = map.mark();
        map.insert(a, 'c');
        map.insert(b, 'd');
        map.insert(a, 'e');
        map.undo(inner);
        assert_eq!((map.get(a), map.get(b)), (Some(&'b'), None));
        map.undo(outer);
        assert_eq!((map.get(a), map.get(b)), (Some(&'a'), None));
    }
}
