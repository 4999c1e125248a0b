//! Typed ids, the arenas that own what they name, and the maps that annotate it.

use std::{
    fmt,
    marker::PhantomData,
    ops::{Index, IndexMut},
};

/// An index into one kind of arena.
pub trait Id: Copy + Eq + Ord + std::hash::Hash + fmt::Debug {
    /// The id of the thing at `index`.
    fn new(index: usize) -> Self;
    /// The place of the thing in its arena.
    fn index(self) -> usize;
}

/// Defines ids: `u32` newtypes, so that no index can be taken for another.
macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $crate::arena::Id for $name {
            fn new(index: usize) -> $name {
                $name(u32::try_from(index).expect("an arena holds fewer than 2^32 things"))
            }
            fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}
pub(crate) use ids;

/// Owns things of one kind, each named by its id.
#[derive(Clone)]
pub struct Arena<I, T> {
    items: Vec<T>,
    ids: PhantomData<I>,
}

impl<I: Id, T> Arena<I, T> {
    /// Takes `item` in, and gives its id.
    pub fn push(&mut self, item: T) -> I {
        self.items.push(item);
        I::new(self.items.len() - 1)
    }

    /// The number of things.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Everything with its id, in order of arrival.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (I, &T)> {
        self.items.iter().enumerate().map(|(i, item)| (I::new(i), item))
    }

    /// All ids, in order of arrival.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + use<I, T> {
        (0..self.items.len()).map(I::new)
    }

    /// The thing, where the id is one of this arena.
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

/// Something known of some of the things in an arena.
#[derive(Clone)]
pub struct Map<I, T> {
    items: Vec<Option<T>>,
    ids: PhantomData<I>,
}

impl<I: Id, T> Map<I, T> {
    /// Says `item` of `id`, and gives back what was said before.
    pub fn insert(&mut self, id: I, item: T) -> Option<T> {
        if self.items.len() <= id.index() {
            self.items.resize_with(id.index() + 1, || None);
        }
        self.items[id.index()].replace(item)
    }

    /// Forgets what is known of `id`, and gives it back.
    pub fn remove(&mut self, id: I) -> Option<T> {
        self.items.get_mut(id.index())?.take()
    }

    /// What is known of `id`.
    pub fn get(&self, id: I) -> Option<&T> {
        self.items.get(id.index())?.as_ref()
    }

    /// What is known of `id`, to be changed.
    pub fn get_mut(&mut self, id: I) -> Option<&mut T> {
        self.items.get_mut(id.index())?.as_mut()
    }

    /// All ids of which anything is known.
    pub fn ids(&self) -> impl Iterator<Item = I> + '_ {
        let known = self.items.iter().enumerate().filter(|(_, item)| item.is_some());
        known.map(|(i, _)| I::new(i))
    }

    /// Whether anything is known of `id`.
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
        self.get(id).expect("the map knows the id")
    }
}
