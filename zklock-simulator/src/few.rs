//! A map of few entries, whose keys are numbers that were counted: most that come are greater than those there.

/// The entries, by ascending numbers. While there are few, they are found sooner than in a tree, and much sooner
/// all looked at.
#[derive(Clone, Debug)]
pub struct Few<T>(Vec<(u64, T)>);

impl<T> Default for Few<T> {
    fn default() -> Self {
        Few(Vec::new())
    }
}

impl<T> Few<T> {
    fn place(&self, id: u64) -> Result<usize, usize> {
        self.0.binary_search_by_key(&id, |(id, _)| *id)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The entry of a number.
    pub fn get(&self, id: &u64) -> Option<&T> {
        self.place(*id).ok().map(|at| &self.0[at].1)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, id: &u64) -> Option<&mut T> {
        self.place(*id).ok().map(|at| &mut self.0[at].1)
    }

    /// Adds an entry, or replaces that of the same number.
    pub fn insert(&mut self, id: u64, entry: T) {
        match self.place(id) {
            Ok(at) => self.0[at].1 = entry,
            Err(at) => self.0.insert(at, (id, entry)),
        }
    }

    /// Takes an entry out.
    pub fn remove(&mut self, id: &u64) -> Option<T> {
        self.place(*id).ok().map(|at| self.0.remove(at).1)
    }

    /// All, with their numbers.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&u64, &T)> + Clone {
        self.0.iter().map(|(id, entry)| (id, entry))
    }

    /// All of them.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &T> + Clone {
        self.0.iter().map(|(_, entry)| entry)
    }

    /// All of them, to be changed.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut T> {
        self.0.iter_mut().map(|(_, entry)| entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_in_the_order_of_their_numbers() {
        let mut few = Few::default();
        for id in [3, 5, 9, 4] {
            few.insert(id, id * 10);
        }
        few.insert(5, 0);
        assert_eq!((few.get(&4), few.get(&5), few.get(&6)), (Some(&40), Some(&0), None));
        assert_eq!((few.remove(&3), few.remove(&3)), (Some(30), None));
        few.values_mut().for_each(|entry| *entry += 1);
        assert!(few.iter().eq([(&4, &41), (&5, &1), (&9, &91)]));
        assert!((few.len(), few.is_empty()) == (3, false));
    }
}
